//! `ceasefire replay`: what other mechanisms would have done with a recording.
//!
//! A `prediction` is a row of its table, and `advice` the sentences that the rows carry, and the reasons to
//! doubt them.

pub(crate) mod advice;
pub(crate) mod prediction;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use ceasefire_experiments::Mechanism;
use ceasefire_linux::recording::{Count, Recording};
use ceasefire_linux::replay::{replay, Asked, Calls, Mechanism as Setup, Predicted, Replay};
use serde_json::{json, Value};

use crate::args::{By, Decay, ReplayArguments};
use crate::failure::{Done, Failure};
use crate::html;
use crate::locks;
use crate::names::mechanisms;
use crate::number::{compact, ratio};
use crate::output::command_line;
use crate::output::distinct::distinct;
use crate::output::replacement::Place;
use crate::output::text::{self, Text};
use crate::tables::grid::{wrapped, Column, Grid};
use crate::terminal;
use crate::trace::Trace;
use advice::{advice, cost, misfit, reasons};
use prediction::{is_unknown, parts, range, Part, Prediction};

/// The heads of columns, whose names stand below the table: this kernel, every mechanism, and the what-ifs.
const HEADS: [&str; 9] = ["(1)", "(2)", "(3)", "(4)", "(5)", "(6)", "(7)", "(8)", "(9)"];

/// The rows of a breakdown in words.
const PARTS: usize = 12;

/// A count that is not known.
const UNKNOWN: &str = "-";

pub(crate) fn run(arguments: &ReplayArguments) -> Done {
    let ReplayArguments { recording, mechanism, batch, process_madvise, decay, by, json, html, trace } =
        arguments;
    let chosen = mechanisms(mechanism)?;
    let chosen = if chosen.is_empty() { Mechanism::ALL.to_vec() } else { chosen };
    text::is_file("--html", html.as_deref())?;
    let source = ("the recording", Some(recording.as_path()));
    let of_json = ("--json", text::file(json.as_deref()));
    distinct([source, of_json, ("--html", html.as_deref()), ("--trace", trace.as_deref())])?;
    let trace = trace.as_deref().map(Trace::check).transpose()?;
    let html = html.as_deref().map(Place::check).transpose()?;
    let json = json.as_deref().map(Text::check).transpose()?;
    let shown = recording.display();
    let failed = |error: &dyn std::fmt::Display| Failure::Input(format!("{shown}: {error}"));
    let mut file = Recording::open(recording).map_err(|error| failed(&error))?;
    let recorded = Setup::of_linux(file.facts().release());
    let mut rows = vec![("this kernel, replayed".to_owned(), recorded)];
    for mechanism in chosen {
        let setup = Setup::new(mechanism.schedule(), mechanism.broadcasts());
        rows.push((mechanism.name().to_owned(), setup));
    }
    let mut differently = |name: String, calls| rows.push((name, Setup { calls, ..recorded }));
    if let Some(batch) = *batch {
        differently(format!("calls by {batch}"), Calls::Together(batch));
    }
    if *process_madvise {
        differently("process_madvise".to_owned(), Calls::ProcessMadvise);
    }
    if let Some(Decay { text, time }) = decay {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        differently(format!("decay {text}"), Calls::Later(ns));
    }
    let (names, setups): (Vec<String>, Vec<Setup>) = rows.into_iter().unzip();
    let replayed = replay(&mut file, &setups).map_err(|error| failed(&error))?;
    let predicted = names.into_iter().zip(&replayed.predicted);
    let predictions: Vec<Prediction> =
        predicted.map(|(name, predicted)| Prediction::new(name, predicted, &replayed)).collect();
    let page = html.map_or(Ok(()), |place| {
        let name = recording.file_name().unwrap_or_default().to_string_lossy();
        place.write(html::recording::of(&command_line(), &name, &replayed, &predictions).as_bytes())
    });
    let written =
        text::write(json, || json_of(&replayed, &predictions), || words(&replayed, &predictions, *by));
    let traced = trace.map_or(Ok(()), |trace| trace.write(recording));
    Failure::both(traced, Failure::both(page, written))
}

fn words(replayed: &Replay, predictions: &[Prediction], by: By) -> String {
    let width = terminal::width();
    let facts = &replayed.facts;
    let mut text = String::new();
    if let Some(misfit) = misfit(replayed, predictions) {
        text.push_str(&wrapped(&misfit, width).join("\n"));
        text.push_str("\n\n");
    }
    let _ = writeln!(
        text,
        "{}, {} CPUs, {:.2} s, {} events",
        facts.kernel_name(),
        facts.cpus.len(),
        facts.seconds(),
        compact(replayed.events as f64)
    );
    text.push('\n');
    let mut grid = Grid::new(&[
        Column::words("", 0),
        Column::numbers("requests", 0),
        Column::numbers("of observed", 0),
        Column::numbers("9 of 10 within", 1),
        Column::numbers("interrupts", 0),
    ]);
    // Where the recording does not tell which requests interrupt, nobody knows.
    let interrupts = |asked: Asked| match facts.counted {
        Count::Sent => asked.interrupts.to_string(),
        Count::Flushed => String::new(),
    };
    let observed = replayed.observed.asked;
    let empty = String::new();
    let requests = replayed.observed_requests().to_string();
    grid.row(["observed".into(), requests, empty.clone(), empty, interrupts(observed)]);
    for prediction in predictions {
        let Prediction { name, predicted: Predicted { asked, .. }, ratio: of_observed, spread, .. } =
            prediction;
        let requests = asked.requests.to_string();
        grid.row([name.clone(), requests, ratio(*of_observed), range(*spread), interrupts(*asked)]);
    }
    text.push_str(&grid.text(width));
    text.push('\n');
    let rows = parts(replayed, predictions, by);
    let has_unknown = rows.iter().any(|(part, counts)| is_unknown(*part, counts));
    text.push_str(&breakdown(replayed, predictions, by, rows).text(width));
    if let Some(grid) = locks::grid(&replayed.observed.locks, &replayed.names, facts) {
        text.push('\n');
        text.push_str(&grid.text(width));
    }
    let legend =
        predictions.iter().zip(1..).map(|(prediction, number)| format!("({number}) {}", prediction.name));
    let mut notes = vec![legend.collect::<Vec<_>>().join(", ")];
    if has_unknown {
        notes.push(format!(
            "'{UNKNOWN}': the replay of this kernel has less than half of the requests of this cause"
        ));
    }
    notes.extend(cost(replayed));
    notes.extend(advice(replayed, predictions));
    notes.extend(reasons(replayed, predictions));
    for note in notes {
        text.push('\n');
        text.push_str(&wrapped(&note, width).join("\n"));
    }
    text.push('\n');
    text
}

/// The requests in parts, of which these are the rows. The columns' names stand below the table. A cause of which the
/// recorded kernel's row has far from what was observed is not known in any row.
fn breakdown(replayed: &Replay, predictions: &[Prediction], by: By, mut rows: Vec<(Part, Vec<u64>)>) -> Grid {
    let head = match by {
        By::Process => "by process",
        By::Cause => "by cause",
        By::Sender => "by sender",
        By::Victim => "by victim",
    };
    let mut columns = vec![Column::words(head, 0), Column::numbers("observed", 0)];
    columns.extend(HEADS.iter().take(predictions.len()).map(|head| Column::numbers(head, 1)));
    let mut grid = Grid::new(&columns);
    let others = rows.split_off(rows.len().min(PARTS));
    for (part, counts) in rows {
        let is_known = !is_unknown(part, &counts);
        let cell = |(at, count): (usize, &u64)| {
            if at == 0 || is_known {
                count.to_string()
            } else {
                UNKNOWN.to_owned()
            }
        };
        grid.row(std::iter::once(part.name(replayed)).chain(counts.iter().enumerate().map(cell)));
    }
    if !others.is_empty() {
        let sums = (0..=predictions.len()).map(|at| others.iter().map(|(_, counts)| counts[at]).sum::<u64>());
        let name = format!("{} others", others.len());
        grid.row(std::iter::once(name).chain(sums.map(|sum| sum.to_string())));
    }
    grid
}

fn json_of(replayed: &Replay, predictions: &[Prediction]) -> Value {
    // The first column is the observed one.
    let column = |by: By, at: usize| {
        parts(replayed, predictions, by).into_iter().map(move |(part, counts)| (part, counts[at]))
    };
    let causes = |at| {
        column(By::Cause, at).map(|(part, count)| (part.name(replayed), count)).collect::<BTreeMap<_, _>>()
    };
    let processes = |at| {
        let process = |(part, requests): (Part, u64)| match part {
            Part::Process(id) => {
                Some(json!({ "process": id, "program": replayed.program(id), "requests": requests }))
            }
            _ => None,
        };
        column(By::Process, at).filter(|(_, count)| *count > 0).filter_map(process).collect::<Vec<_>>()
    };
    let cpus = |by, at| {
        let mut counts = vec![0; replayed.facts.cpu_numbers()];
        for (part, count) in column(by, at) {
            if let Part::Cpu(cpu) = part {
                if let Some(of_cpu) = counts.get_mut(cpu as usize) {
                    *of_cpu = count;
                }
            }
        }
        counts
    };
    let observed = &replayed.observed;
    let sent = replayed.facts.counted == Count::Sent;
    let predicted = predictions.iter().zip(1..).map(|(prediction, at)| {
        let Prediction { name, predicted, ratio, interrupts_ratio, spread } = prediction;
        let interrupts_by_cause: BTreeMap<_, _> =
            predicted.causes.iter().map(|(cause, asked)| (cause.name(), asked.interrupts)).collect();
        let batch = if let Calls::Together(batch) = predicted.mechanism.calls { batch } else { 1 };
        json!({
            "mechanism": name,
            "batch": batch,
            "requests": predicted.asked.requests,
            "interrupts": sent.then_some(predicted.asked.interrupts),
            "ratio": ratio,
            "ratio_low": spread.map(|spread| spread.low),
            "ratio_high": spread.map(|spread| spread.high),
            "interrupts_ratio": interrupts_ratio,
            "causes": causes(at),
            "interrupts_by_cause": sent.then_some(interrupts_by_cause),
            "processes": processes(at),
            "sent": cpus(By::Sender, at),
            "received": cpus(By::Victim, at),
            "most_kept_bytes": predicted.most_kept_pages << 12,
        })
    });
    let sums = observed.totals.causes.iter();
    let interrupts_by_cause: BTreeMap<_, _> =
        sums.map(|(cause, sum)| (cause.name(), sum.interrupts)).collect();
    json!({
        "ceasefire": env!("CARGO_PKG_VERSION"),
        "recording": replayed.facts,
        "events": replayed.events,
        "observed": {
            "requests": replayed.observed_requests(),
            "interrupts": sent.then_some(observed.asked.interrupts),
            "answered": observed.answered,
            "unseen": observed.unseen,
            "unsent": observed.unsent,
            "flushes": observed.totals.all.flushes,
            "sender_s": observed.totals.all.sender_ns as f64 / 1e9,
            "victim_s": observed.totals.all.victim_ns as f64 / 1e9,
            "causes": causes(0),
            "interrupts_by_cause": sent.then_some(interrupts_by_cause),
            "processes": processes(0),
            "sent": cpus(By::Sender, 0),
            "received": cpus(By::Victim, 0),
            "locks": locks::json_of(&observed.locks, &replayed.names, &replayed.facts),
            "idle_waits": locks::idle_json(&observed.locks, &replayed.facts),
        },
        "predicted": predicted.collect::<Vec<_>>(),
        "misfit": misfit(replayed, predictions),
        "advice": advice(replayed, predictions),
        "left_out": replayed.left_out,
        "unknown_pages": replayed.unknown_pages,
        "assumed_pages": replayed.assumed_pages,
        "most_frames": replayed.most_frames,
        "unsure_tables": replayed.unsure_tables,
        "untold_switches": replayed.untold_switches,
        "lost": replayed.lost.events,
        "unreadable": replayed.lost.unreadable,
    })
}
