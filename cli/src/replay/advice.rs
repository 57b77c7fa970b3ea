//! Advice: the mechanisms that would clearly ask fewer CPUs, and where these come from; the waits for locks
//! that would stay; and the reasons to doubt all of it.

use std::fmt::Write as _;

use ceasefire_linux::recording::Count;
use ceasefire_linux::replay::Replay;
use ceasefire_linux::shootdowns::Cause;

use crate::locks::name;
use crate::number::{compact, counted, ratio};
use crate::replay::prediction::{range, Part, Prediction};

/// The most lines about mechanisms.
const LINES: usize = 3;

/// The error of the replay of the recorded kernel's own mechanism above which no other row is believed.
const ERROR: f64 = 0.1;

/// What the interrupts cost, as a share of the time of all CPUs: the most that a change can save. None if there are no
/// interrupts.
pub(crate) fn cost(replayed: &Replay) -> Option<String> {
    let all = &replayed.observed.totals.all;
    let cpus_ns = replayed.facts.cpus.len() as f64 * replayed.facts.seconds() * 1e9;
    let share = 100.0 * (all.sender_ns as f64 + all.victim_ns as f64) / cpus_ns;
    (all.requests > 0 && share.is_finite()).then(|| {
        format!(
            "shootdowns took {}% of the CPUs' time: senders waited {} ms, handlers ran {} ms",
            compact(share),
            compact(all.sender_ns as f64 / 1e6),
            compact(all.victim_ns as f64 / 1e6)
        )
    })
}

/// A line: where interrupts come from, the mechanisms that leave the same of them, and what they leave.
struct Line {
    from: String,
    mechanisms: Vec<String>,
    left: String,
    ratio: f64,
}

/// The waits for locks that carry a line.
const WAITS: u64 = 100;

/// The part of the time for which senders wait that waits for locks take at least, if they are to have a line.
const WORTH: f64 = 0.1;

/// Why no row can be believed: the first, of the recorded kernel's own mechanism, is further from what was observed than
/// [`ERROR`], or its range is. Names the cause that errs most, if the recording tells causes of requests.
pub(crate) fn misfit(replayed: &Replay, predictions: &[Prediction]) -> Option<String> {
    let own = predictions.first()?;
    own.ratio?;
    let is_far = |ratio: Option<f64>| ratio.is_some_and(|ratio| (ratio - 1.0).abs() > ERROR);
    let is_wide = is_far(own.spread.map(|of| of.low)) || is_far(own.spread.map(|of| of.high));
    let why = if is_far(own.ratio) || is_far(own.interrupts_ratio) {
        "the model does not fit this recording"
    } else if is_wide {
        "this recording has too little to tell whether the model fits"
    } else {
        return None;
    };
    let mut text = format!(
        "{why}, so no row can be believed: of what this kernel sent it replays {}{} of the requests",
        ratio(own.ratio),
        own.spread.map_or_else(String::new, |spread| format!(" ({})", range(Some(spread)))),
    );
    if let Some(of_interrupts) = own.interrupts_ratio {
        let _ = write!(text, " and {} of the interrupts", ratio(Some(of_interrupts)));
    }
    if replayed.facts.counted == Count::Sent {
        let observed = |cause| replayed.observed.totals.causes.get(&cause).map_or(0, |sum| sum.requests);
        let replays = |cause| own.predicted.causes.get(&cause).map_or(0, |asked| asked.requests);
        let cause = Cause::ALL.into_iter().max_by_key(|cause| observed(*cause).abs_diff(replays(*cause)))?;
        let _ = write!(
            text,
            ", and errs most in {} ({} observed, {} replayed)",
            cause.name(),
            observed(cause),
            replays(cause)
        );
    }
    Some(text)
}

/// The lines of advice. The first prediction is that of the recorded kernel's own mechanism.
pub(crate) fn advice(replayed: &Replay, predictions: &[Prediction]) -> Vec<String> {
    let mut lines = of_mechanisms(replayed, predictions);
    lines.extend(of_locks(replayed));
    lines
}

/// The line about the process whose threads wait longest for locks while its flushes interrupt CPUs.
fn of_locks(replayed: &Replay) -> Option<String> {
    let locks = &replayed.observed.locks;
    let (process, share) = locks.beside_flushes()?;
    let sum = share.sum;
    let sends = replayed.observed.totals.processes.iter().filter(|((of, _), _)| *of == process);
    let sender_ns: f64 = sends.map(|(_, sum)| sum.sender_ns as f64).sum();
    let carries = replayed.facts.counted == Count::Sent && sum.waits >= WAITS;
    if !carries || share.spread.is_none() || (sum.ns as f64) < WORTH * sender_ns {
        return None;
    }
    let rows = locks.rows().into_iter().filter(|row| row.process.id == process);
    let stays = rows.max_by_key(|row| row.sum.ns - row.sum.flush_ns)?;
    Some(format!(
        "threads of {} waited {} ms for locks, {} of it while its flushes interrupted CPUs ({}). Fewer flushes save at \
         most that part. Of what stays, most is for {}.",
        Part::Process(process).name(replayed),
        compact(sum.ns as f64 / 1e6),
        ratio(Some(sum.flush_ns as f64 / sum.ns as f64)),
        range(share.spread),
        name(&stays)
    ))
}

/// The lines about mechanisms. There is none if the model does not [fit](misfit), and none about a row whose range holds
/// 1. Mechanisms that leave the same share a line.
fn of_mechanisms(replayed: &Replay, predictions: &[Prediction]) -> Vec<String> {
    let Some((own, others)) = predictions.split_first() else { return Vec::new() };
    if own.ratio.is_none() || misfit(replayed, predictions).is_some() {
        return Vec::new();
    }
    let mut lines: Vec<Line> = Vec::new();
    for line in others.iter().filter_map(|other| line(replayed, own, other)) {
        match lines.iter_mut().find(|same| same.from == line.from && same.left == line.left) {
            Some(same) => same.mechanisms.extend(line.mechanisms),
            None => lines.push(line),
        }
    }
    lines.sort_by(|one, other| f64::total_cmp(&one.ratio, &other.ratio));
    let text = |Line { from, mechanisms, left, .. }| {
        format!("{from}; '{}' would leave {left}.", mechanisms.join("', '"))
    };
    lines.into_iter().take(LINES).map(text).collect()
}

/// The line of a prediction.
fn line(replayed: &Replay, own: &Prediction, other: &Prediction) -> Option<Line> {
    let (of_observed, spread) = (other.ratio?, other.spread?);
    if spread.high >= 1.0 || own.spread.is_none_or(|own| spread.high >= own.low) {
        return None;
    }
    let saved = |cause: &Cause| {
        let of = |prediction: &Prediction| {
            prediction.predicted.causes.get(cause).map_or(0, |asked| asked.requests)
        };
        of(own).saturating_sub(of(other))
    };
    let cause = Cause::ALL.into_iter().max_by_key(saved)?;
    let totals = &replayed.observed.totals;
    let of_cause = totals.processes.iter().filter(|((_, of), _)| *of == cause);
    let ((process, _), sum) =
        of_cause.max_by_key(|((process, _), sum)| (sum.requests, sum.flushes, *process))?;
    // Before Linux 6.4 no event tells which flush sent an interrupt.
    let (part, all, does, what) = match replayed.facts.counted {
        Count::Sent => (sum.requests, replayed.observed.asked.requests, "sends", "requests"),
        Count::Flushed => (sum.flushes, totals.all.flushes, "makes", "flushes"),
    };
    let share = 100.0 * part as f64 / all.max(1) as f64;
    Some(Line {
        from: format!(
            "{} by {} {does} {share:.0}% of the {what}",
            cause.name(),
            Part::Process(*process).name(replayed)
        ),
        mechanisms: vec![other.name.clone()],
        left: format!("{} of all ({})", ratio(Some(of_observed)), range(other.spread)),
        ratio: of_observed,
    })
}

/// Which requests a recording has on one side alone; none if it has both sides of all.
pub(crate) fn told_by_one_side(unseen: u64, unsent: u64) -> Option<String> {
    let side = |count: u64, what: &str| {
        (count > 0).then(|| format!("{} without {what}", counted(count, "request", "requests")))
    };
    let sides: Vec<String> =
        [side(unseen, "its handler"), side(unsent, "where it was sent")].into_iter().flatten().collect();
    (!sides.is_empty())
        .then(|| format!("in the recording: {}; kernels may keep no events of idle loops", sides.join(", ")))
}

/// The reasons for which a prediction may be wrong.
pub(crate) fn reasons(replayed: &Replay, predictions: &[Prediction]) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(kind) = replayed.facts.imported {
        notes.push(format!(
            "imported from a {} file: its interrupts are not compared with /proc/interrupts",
            kind.name()
        ));
    }
    if replayed.facts.counted == Count::Flushed {
        let row = replayed.facts.tlb_row.map_or(String::new(), |row| format!(" (TLB row: {row})"));
        notes.push(format!(
            "this kernel's events do not tell the cause of a request, and leave out those to CPUs with nothing to \
             flush{row}"
        ));
    }
    let one_sided = told_by_one_side(replayed.observed.unseen, replayed.observed.unsent);
    notes.extend(one_sided.filter(|_| replayed.lost.is_none()));
    if replayed.untold_switches > 0 && replayed.lost.is_none() {
        notes.push(format!(
            "{} switches of CPUs are not in the recording: this kernel keeps no events of some idle loops. What ran there \
             is taken from the next event, or from the answer to a request",
            replayed.untold_switches
        ));
    }
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
    if replayed.unsure_tables > 0 {
        notes.push(format!(
            "{} flushes are taken to have freed page tables if they asked an idle CPU: their calls do not tell it",
            replayed.unsure_tables
        ));
    }
    if replayed.facts.skipped_pages > 0 {
        notes.push(format!(
            "{} pages of areas were too many to look at when the recording began: who had them mapped is not known",
            replayed.facts.skipped_pages
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
    let most_kept =
        predictions.iter().map(|prediction| prediction.predicted.most_kept_pages).max().unwrap_or(0);
    if most_kept > 0 {
        notes.push(format!(
            "with --decay, programs keep up to {} MiB longer than they did",
            compact(most_kept as f64 / 256.0)
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use ceasefire_linux::recording::Recording;
    use ceasefire_linux::replay::{replay, Mechanism as Setup};
    use ceasefire_linux::spread::Spread;

    use super::*;

    #[test]
    fn a_row_that_errs_and_one_that_cannot_tell_are_not_believed() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../linux/recordings/madvise.parquet");
        let mut recording = Recording::open(path.as_ref()).expect("a recording");
        let setup = Setup::of_linux(recording.facts().release());
        let replayed = replay(&mut recording, &[setup]).expect("a replay");
        let told = |ratio: f64, interrupts_ratio: f64, low: f64, high: f64| {
            let mut own = Prediction::new("own".into(), &replayed.predicted[0], &replayed);
            (own.ratio, own.interrupts_ratio) = (Some(ratio), Some(interrupts_ratio));
            own.spread = Some(Spread { low, high });
            misfit(&replayed, &[own]).map(|text| text.split(',').next().unwrap_or_default().to_owned())
        };
        let (errs, unsure) = (
            Some("the model does not fit this recording".to_owned()),
            Some("this recording has too little to tell whether the model fits".to_owned()),
        );
        assert_eq!(told(1.0, 1.0, 0.91, 1.09), None);
        assert_eq!((told(0.89, 1.0, 0.8, 0.95), told(1.0, 1.11, 0.95, 1.05)), (errs.clone(), errs));
        assert_eq!((told(1.0, 1.0, 0.89, 1.09), told(0.95, 0.95, 0.92, 1.11)), (unsure.clone(), unsure));
    }
}
