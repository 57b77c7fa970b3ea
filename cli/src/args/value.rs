//! The parsers of values. Each error names the bound.

use std::time::Duration;

use ceasefire_machine::config::MAX_CPUS;

/// The most schedules of a scenario in one search.
const MOST_SCHEDULES: u64 = 1_000_000_000;

/// A time such as `10s`.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len()));
    let seconds = match unit {
        "ms" => 1e-3,
        "s" | "" => 1.0,
        "min" | "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("'{unit}' is no unit of time: use ms, s, min or h")),
    };
    let number: f64 = number.trim().parse().map_err(|_| "it is no time: an example is 10s".to_owned())?;
    if number < 0.0 {
        return Err("it must be longer than 0".to_owned());
    }
    let time = Duration::try_from_secs_f64(number * seconds).map_err(|_| "it is out of range".to_owned())?;
    if time.is_zero() {
        return Err("it must be longer than 0".to_owned());
    }
    Ok(time)
}

/// Parses a number. The machine checks that it may have so many CPUs.
pub(super) fn cpus(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("must be 1 to {MAX_CPUS} CPUs"))
}

/// Parses a count of at least 1.
pub(super) fn some(text: &str) -> Result<u16, String> {
    at_least(1, text)
}

/// Parses a count of at least `least`.
pub(super) fn at_least(least: u16, text: &str) -> Result<u16, String> {
    let count = text.parse().ok().filter(|count| *count >= least);
    count.ok_or_else(|| format!("must be a whole number, {least} to {}", u16::MAX))
}

/// Parses a number or a fraction. The experiment checks that it can run at this scale.
pub(super) fn scale(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.parse::<f64>().ok();
    let scale = match text.split_once('/') {
        Some((part, whole)) => number(part).zip(number(whole)).map(|(part, whole)| part / whole),
        None => number(text),
    };
    scale
        .filter(|scale| !scale.is_infinite())
        .ok_or_else(|| "must be a number above 0 and at most 1, such as 0.0625 or 1/16".into())
}

/// Parses a number of calls.
pub(super) fn calls(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "must be a whole number of calls, at least 1".into())
}

/// Parses a number of schedules.
pub(super) fn schedules(text: &str) -> Result<u64, String> {
    let count = text.parse().ok().filter(|count| (1..=MOST_SCHEDULES).contains(count));
    count.ok_or_else(|| format!("must be a whole number, 1 to {MOST_SCHEDULES}"))
}

/// Parses any number that fits.
pub(super) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("must be a whole number, 0 to {}", u64::MAX))
}
