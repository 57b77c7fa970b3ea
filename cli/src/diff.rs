//! `ceasefire diff`: whether two recordings differ, and in what.

use std::path::Path;

use ceasefire_linux::difference::{differences, Difference, Figure, Profile};
use ceasefire_linux::events::Spelled as _;
use ceasefire_linux::recording::Recording;
use serde_json::{json, Value};

use crate::args::DiffArguments;
use crate::failure::{Done, Failure};
use crate::html;
use crate::number::{compact, ratio};
use crate::output::command_line;
use crate::output::distinct::distinct;
use crate::output::replacement::Place;
use crate::output::text::{self, Text};
use crate::replay::prediction::range;
use crate::results::{difference_name, difference_remarks};
use crate::tables::grid::{wrapped, Column, Grid};
use crate::terminal;

/// The programs that the table shows: those with the most requests.
const PROGRAMS: usize = 8;

/// The locks that the table shows: those with the longest waits.
const LOCKS: usize = 8;

pub(crate) fn run(arguments: &DiffArguments) -> Done {
    let DiffArguments { one, other, json, html } = arguments;
    text::is_file("--html", html.as_deref())?;
    for recording in [one, other] {
        let source = ("the recording", Some(recording.as_path()));
        distinct([source, ("--json", text::file(json.as_deref())), ("--html", html.as_deref())])?;
    }
    let html = html.as_deref().map(Place::check).transpose()?;
    let names = [one, other].map(|path| path.display().to_string());
    let json = json.as_deref().map(Text::check).transpose()?;
    let profile = |path: &Path| {
        let read = Recording::open(path).and_then(|mut recording| Profile::of(&mut recording));
        read.map_err(|error| Failure::Input(format!("{}: {error}", path.display())))
    };
    let (one, other) = (profile(one)?, profile(other)?);
    if Figure::TOTALS.iter().all(|figure| !figure.is_compared(&one, &other)) {
        let remarks = difference_remarks(&one, &other).join("; ");
        return Err(Failure::Input(format!(
            "the two recordings have nothing that both count alike: {remarks}"
        )));
    }
    let found = differences(&one, &other);
    let page = html.map_or(Ok(()), |place| {
        let recordings = [(names[0].as_str(), &one), (names[1].as_str(), &other)];
        place.write(html::recording::difference(&command_line(), recordings, &found).as_bytes())
    });
    let words = || words(&one, &other, &found, terminal::width());
    Failure::both(page, text::write(json, || json_of(&one, &other, &found), words))
}

/// The figures as a table, and remarks on the recordings. A table that is too wide loses the ranges and the ends of names,
/// never the verdicts.
fn words(one: &Profile, other: &Profile, found: &[Difference], width: usize) -> String {
    let mut grid = Grid::new(&[
        Column::words("", 0),
        Column::numbers("first", 0),
        Column::numbers("second", 0),
        Column::numbers("ratio", 0),
        Column::words("", 0),
        Column::numbers("9 of 10 within", 1),
    ]);
    let mut row = |difference: &Difference| {
        let (name, factor) = difference_name(&difference.figure);
        let rates = difference.rates.map(|rate| compact(rate * factor));
        let range = range(difference.spread);
        let verdict = if difference.is_clear() { "differs" } else { "" };
        let [first, second] = rates;
        grid.row([name, first, second, ratio(difference.ratio), verdict.to_owned(), range]);
    };
    let of_all =
        |figure: &Figure| !matches!(figure, Figure::OfCause(_) | Figure::OfProgram(_) | Figure::OfLock(..));
    found.iter().filter(|difference| of_all(&difference.figure)).for_each(&mut row);
    found.iter().filter(|difference| matches!(difference.figure, Figure::OfCause(_))).for_each(&mut row);
    let largest = |is: fn(&Figure) -> bool, most: usize| {
        let mut of: Vec<&Difference> = found.iter().filter(|difference| is(&difference.figure)).collect();
        of.sort_by(|one, other| {
            f64::total_cmp(&other.rates[1].max(other.rates[0]), &one.rates[1].max(one.rates[0]))
        });
        of.into_iter().take(most)
    };
    largest(|figure| matches!(figure, Figure::OfProgram(_)), PROGRAMS).for_each(&mut row);
    largest(|figure| matches!(figure, Figure::OfLock(..)), LOCKS).for_each(row);
    let mut text = grid.text(width);
    text.push('\n');
    let note = "Below the totals, if compared: requests/s by cause, by process, and waits for locks. 'differs': the \
                ratio's range does not hold 1. The range is of one recording each; a difference between two runs may \
                also be one of chance.";
    text.push_str(&wrapped(note, width).join("\n"));
    text.push('\n');
    for remark in difference_remarks(one, other) {
        text.push_str(&wrapped(&remark, width).join("\n"));
        text.push('\n');
    }
    text
}

fn json_of(one: &Profile, other: &Profile, found: &[Difference]) -> Value {
    let row = |difference: &Difference| {
        let (figure, of) = match &difference.figure {
            Figure::Flushes => ("flushes_per_s", None),
            Figure::Asked => ("flushes_that_asked_per_s", None),
            Figure::Answered => ("flushes_for_others_per_s", None),
            Figure::Requests => ("requests_per_s", None),
            Figure::Interrupts => ("interrupts_per_s", None),
            Figure::SenderNs => ("sender_ns_per_s", None),
            Figure::VictimNs => ("victim_ns_per_s", None),
            Figure::Waits => ("waits_per_s", None),
            Figure::WaitNs => ("wait_ns_per_s", None),
            Figure::OfLock(kind, cause) => {
                ("wait_ns_per_s_by_lock", Some(format!("{} ({})", kind.word(), cause.name())))
            }
            Figure::OfCause(cause) => ("requests_per_s_by_cause", Some(cause.name().to_owned())),
            Figure::OfProgram(program) => ("requests_per_s_by_program", Some(program.clone())),
        };
        json!({
            "figure": figure,
            "of": of,
            "first": difference.rates[0],
            "second": difference.rates[1],
            "ratio": difference.ratio,
            "ratio_low": difference.spread.map(|spread| spread.low),
            "ratio_high": difference.spread.map(|spread| spread.high),
            "differs": difference.is_clear(),
        })
    };
    json!({
        "ceasefire": env!("CARGO_PKG_VERSION"),
        "first": one.facts,
        "second": other.facts,
        "remarks": difference_remarks(one, other),
        "differences": found.iter().map(row).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use ceasefire_linux::events::LockKind;
    use ceasefire_linux::shootdowns::Cause;
    use ceasefire_linux::spread::Spread;

    use super::*;

    #[test]
    fn a_narrow_table_keeps_its_verdicts() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../linux/recordings/madvise.parquet");
        let profile = Recording::open(path.as_ref()).and_then(|mut recording| Profile::of(&mut recording));
        let profile = profile.expect("a recording");
        let of_lock = Figure::OfLock(LockKind::PerCpuRead, Cause::NumaBalancing);
        let long =
            Figure::OfProgram("percpu rwsem of a program whose name takes more than a whole line".into());
        let found: Vec<Difference> = [Figure::OfLock(LockKind::SleepWrite, Cause::Mprotect), of_lock, long]
            .map(|figure| Difference {
                figure,
                rates: [123.4e6, 1_234.5e6],
                ratio: Some(10.0),
                spread: Some(Spread { low: 9.123, high: 11.21 }),
            })
            .into();
        let told = |width| words(&profile, &profile, &found, width);
        for width in [40, 60, 80, 120] {
            let text = told(width);
            let rows: Vec<&str> = text.lines().filter(|line| line.contains(" differs")).collect();
            assert!(
                rows.len() == 3 && rows.iter().all(|row| row.chars().count() <= width),
                "{width}: {text}"
            );
        }
        assert!(!told(80).contains("9.12") && told(140).contains("9.12"), "{}", told(140));
    }
}
