//! Advice: the mechanisms that would clearly send fewer interrupts, and where these come from.

use ceasefire_linux::replay::Replay;
use ceasefire_linux::shootdowns::Cause;

use crate::number::ratio;
use crate::replay::prediction::{range, Part, Prediction};

/// The most lines.
const LINES: usize = 3;

/// The error of the replay of the recorded kernel's own mechanism above which no other row is believed.
const ERROR: f64 = 0.1;

/// The lines of advice. The first prediction is that of the recorded kernel's own mechanism. There is none unless the
/// replay of that mechanism sends as many interrupts as were observed, to a tenth, and none about a row whose range
/// holds 1.
pub(crate) fn advice(replayed: &Replay, predictions: &[Prediction]) -> Vec<String> {
    let Some((own, others)) = predictions.split_first() else { return Vec::new() };
    if own.ratio.is_none_or(|ratio| (ratio - 1.0).abs() > ERROR) {
        return Vec::new();
    }
    let mut clear: Vec<(f64, String)> =
        others.iter().filter_map(|other| line(replayed, own, other)).collect();
    clear.sort_by(|one, other| f64::total_cmp(&one.0, &other.0));
    clear.into_iter().take(LINES).map(|(_, line)| line).collect()
}

/// The line of a prediction, with its ratio.
fn line(replayed: &Replay, own: &Prediction, other: &Prediction) -> Option<(f64, String)> {
    let (of_observed, spread) = (other.ratio?, other.spread?);
    if spread.high >= 1.0 || own.spread.is_none_or(|own| spread.high >= own.low) {
        return None;
    }
    let saved = |cause: &Cause| {
        let of = |prediction: &Prediction| prediction.predicted.causes.get(cause).copied().unwrap_or(0);
        of(own).saturating_sub(of(other))
    };
    let cause = Cause::ALL.into_iter().max_by_key(saved)?;
    let totals = &replayed.observed.totals;
    let of_cause = totals.processes.iter().filter(|((_, of), _)| *of == cause);
    let ((process, _), sum) = of_cause.max_by_key(|((process, _), sum)| (sum.interrupts, *process))?;
    let share = 100.0 * sum.interrupts as f64 / replayed.observed.interrupts as f64;
    let line = format!(
        "{} by {} sends {share:.0}% of the interrupts; '{}' would leave {} of all ({}).",
        cause.name(),
        Part::Process(*process).name(replayed),
        other.name,
        ratio(Some(of_observed)),
        range(other.spread)
    );
    Some((of_observed, line))
}
