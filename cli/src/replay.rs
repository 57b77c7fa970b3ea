//! `ceasefire replay`: what other mechanisms would have done with a recording.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ceasefire_experiments::Mechanism;
use ceasefire_linux::recording::Recording;
use ceasefire_linux::replay::{replay, Mechanism as Setup, Predicted, Replay};
use ceasefire_linux::shootdowns::Cause;
use ceasefire_linux::spread::{of_ratio, Spread};
use serde_json::{json, Value};

use crate::args::ReplayArguments;
use crate::compare::mechanisms;
use crate::failure::{Done, Failure};
use crate::number::{compact, ratio};
use crate::output::distinct::distinct;
use crate::output::text::{self, Text};
use crate::tables::grid::{wrapped, Column, Grid};
use crate::terminal;

/// The heads of columns, whose names stand below the table.
const HEADS: [&str; 8] = ["(1)", "(2)", "(3)", "(4)", "(5)", "(6)", "(7)", "(8)"];

pub(crate) fn run(arguments: &ReplayArguments) -> Done {
    let ReplayArguments { recording, mechanism, batch, json } = arguments;
    let chosen = mechanisms(mechanism)?;
    let chosen = if chosen.is_empty() { Mechanism::ALL.to_vec() } else { chosen };
    distinct([("the recording", Some(recording.as_path())), ("--json", text::file(json.as_deref()))])?;
    let json = json.as_deref().map(Text::check).transpose()?;
    let shown = recording.display();
    let failed = |error: &dyn std::fmt::Display| Failure::Input(format!("{shown}: {error}"));
    let mut file = Recording::open(recording).map_err(|error| failed(&error))?;
    let recorded = Setup::of_linux(release(&file.facts().kernel));
    let mut names = vec!["this kernel, replayed".to_owned()];
    let mut setups = vec![recorded];
    for mechanism in chosen {
        names.push(mechanism.name().to_owned());
        setups.push(Setup::new(mechanism.schedule(), mechanism.broadcasts()));
    }
    if let Some(batch) = *batch {
        names.push(format!("this kernel, calls by {batch}"));
        setups.push(Setup { batch, ..recorded });
    }
    let replayed = replay(&mut file, &setups).map_err(|error| failed(&error))?;
    let results: Vec<(String, &Predicted)> = names.into_iter().zip(&replayed.predicted).collect();
    text::write(json, || json_of(&replayed, &results), || words(&replayed, &results))
}

/// The release in `Linux 6.12.1 #1 SMP`.
fn release(kernel: &str) -> &str {
    kernel.split_whitespace().nth(1).unwrap_or_default()
}

/// The spread of a prediction in relation to what was observed.
fn spread(replayed: &Replay, predicted: &Predicted) -> Option<Spread> {
    of_ratio(&predicted.parts, &replayed.observed.parts)
}

/// The causes that were observed or predicted, those with the most observed interrupts first.
fn causes(replayed: &Replay, results: &[(String, &Predicted)]) -> Vec<Cause> {
    let total = |cause: Cause| {
        let predicted =
            results.iter().map(|(_, predicted)| predicted.causes.get(&cause).copied().unwrap_or(0));
        (replayed.observed.of(cause), predicted.max().unwrap_or(0))
    };
    let mut causes: Vec<Cause> = Cause::ALL.into_iter().filter(|cause| total(*cause) != (0, 0)).collect();
    causes.sort_by_key(|cause| std::cmp::Reverse(total(*cause)));
    causes
}

fn words(replayed: &Replay, results: &[(String, &Predicted)]) -> String {
    let width = terminal::width();
    let facts = &replayed.facts;
    let time = facts.ended_ns.saturating_sub(facts.began_ns) as f64 / 1e9;
    let mut text = String::new();
    let _ = writeln!(
        text,
        "{}, {} CPUs, {time:.2} s, {} events",
        facts.kernel.split_whitespace().take(2).collect::<Vec<_>>().join(" "),
        facts.cpus.len(),
        compact(replayed.events as f64)
    );
    text.push('\n');
    let mut grid = Grid::new(&[
        Column::words("", 0),
        Column::numbers("interrupts", 0),
        Column::numbers("of observed", 0),
        Column::numbers("9 of 10 within", 1),
    ]);
    let observed = replayed.observed.interrupts;
    grid.row(["observed".into(), observed.to_string(), String::new(), String::new()]);
    for (name, predicted) in results {
        let part = (observed > 0).then(|| predicted.interrupts as f64 / observed as f64);
        let spread = spread(replayed, predicted);
        let range = spread.map_or_else(String::new, |spread| {
            format!("{}-{}", ratio(Some(spread.low)), ratio(Some(spread.high)))
        });
        grid.row([name.clone(), predicted.interrupts.to_string(), ratio(part), range]);
    }
    text.push_str(&grid.text(width));
    text.push('\n');
    let mut columns = vec![Column::words("by cause", 0), Column::numbers("observed", 0)];
    columns.extend(HEADS.iter().take(results.len()).map(|head| Column::numbers(head, 1)));
    let mut grid = Grid::new(&columns);
    for cause in causes(replayed, results) {
        let predicted =
            results.iter().map(|(_, predicted)| predicted.causes.get(&cause).copied().unwrap_or(0));
        let cells = std::iter::once(replayed.observed.of(cause)).chain(predicted);
        grid.row(std::iter::once(cause.name().to_owned()).chain(cells.map(|count| count.to_string())));
    }
    text.push_str(&grid.text(width));
    let legend: Vec<String> =
        results.iter().zip(HEADS).map(|((name, _), head)| format!("{head} {name}")).collect();
    let mut notes = vec![legend.join(", ")];
    notes.extend(reasons(replayed));
    for note in notes {
        text.push('\n');
        text.push_str(&wrapped(&note, width).join("\n"));
    }
    text.push('\n');
    text
}

/// The reasons for which a prediction may be wrong.
fn reasons(replayed: &Replay) -> Vec<String> {
    let mut notes = Vec::new();
    if !replayed.lost.is_none() {
        notes.push(format!(
            "{} events were lost and {} rows could not be read: the figures are of the rest",
            replayed.lost.events, replayed.lost.unreadable
        ));
    }
    if replayed.left_out > 0 {
        notes.push(format!(
            "{} flushes of the kernel's own threads are left out, because their process is not known",
            replayed.left_out
        ));
    }
    if replayed.unknown_pages > 0 {
        notes.push(format!(
            "{} pages were taken back whose process is not known: their flushes count as none",
            replayed.unknown_pages
        ));
    }
    if replayed.assumed_pages > 0 {
        notes.push(format!(
            "{} pages are taken to belong to the process for which the kernel took them back",
            replayed.assumed_pages
        ));
    }
    notes
}

fn json_of(replayed: &Replay, results: &[(String, &Predicted)]) -> Value {
    let by_cause = |count: &dyn Fn(Cause) -> u64| -> BTreeMap<&str, u64> {
        causes(replayed, results).into_iter().map(|cause| (cause.name(), count(cause))).collect()
    };
    let observed = &replayed.observed;
    let predicted: Vec<Value> = results
        .iter()
        .map(|(name, predicted)| {
            let spread = spread(replayed, predicted);
            json!({
                "mechanism": name,
                "batch": predicted.mechanism.batch,
                "interrupts": predicted.interrupts,
                "ratio": (observed.interrupts > 0).then(|| predicted.interrupts as f64 / observed.interrupts as f64),
                "ratio_low": spread.map(|spread| spread.low),
                "ratio_high": spread.map(|spread| spread.high),
                "causes": by_cause(&|cause| predicted.causes.get(&cause).copied().unwrap_or(0)),
                "received": predicted.received,
            })
        })
        .collect();
    json!({
        "ceasefire": env!("CARGO_PKG_VERSION"),
        "recording": replayed.facts,
        "events": replayed.events,
        "observed": {
            "interrupts": observed.interrupts,
            "flushes": observed.totals.all.flushes,
            "sender_s": observed.totals.all.sender_ns as f64 / 1e9,
            "victim_s": observed.totals.all.victim_ns as f64 / 1e9,
            "causes": by_cause(&|cause| observed.of(cause)),
        },
        "predicted": predicted,
        "left_out": replayed.left_out,
        "unknown_pages": replayed.unknown_pages,
        "assumed_pages": replayed.assumed_pages,
        "most_frames": replayed.most_frames,
        "lost": replayed.lost.events,
        "unreadable": replayed.lost.unreadable,
    })
}
