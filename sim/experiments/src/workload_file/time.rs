//! Times: `"10 us"`, and `"up to 10 us"` for a random time.

use ceasefire_machine::document::{Entry, Error, Problem};

use crate::workloads::Random;

/// The units of time, in picoseconds.
const UNITS: [(&str, f64); 5] = [("ps", 1.0), ("ns", 1e3), ("us", 1e6), ("ms", 1e9), ("s", 1e12)];
/// The longest time: 1000 s.
const MOST: f64 = 1e15;

/// A time, fixed or random.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Time {
    /// So many picoseconds.
    Fixed(u64),
    /// Fewer than so many picoseconds, drawn at each use.
    UpTo(u64),
}

impl Time {
    /// Reads a fixed or a random time.
    pub(super) fn read(entry: &Entry<'_>) -> Result<Self, Error> {
        let text = entry.text()?;
        match text.strip_prefix("up to ") {
            Some(most) => Ok(Self::UpTo(picoseconds(entry, most)?.max(1))),
            None => Ok(Self::Fixed(picoseconds(entry, &text)?)),
        }
    }

    /// Reads a fixed time.
    pub(super) fn fixed(entry: &Entry<'_>) -> Result<u64, Error> {
        picoseconds(entry, &entry.text()?)
    }

    /// The time of one use, in picoseconds.
    pub(super) fn draw(self, random: &mut Random) -> u64 {
        match self {
            Self::Fixed(time) => time,
            Self::UpTo(most) => random.below(most),
        }
    }
}

fn picoseconds(entry: &Entry<'_>, text: &str) -> Result<u64, Error> {
    let refused = || {
        let bound = "a time from 0 to 1000 s, such as \"10 us\" or \"0.5 s\"";
        entry.place().error(Problem::invalid(format!("{text:?}"), bound))
    };
    let (number, unit) = text.trim().split_once(' ').ok_or_else(refused)?;
    let (_, unit) = UNITS.iter().find(|(name, _)| *name == unit.trim()).ok_or_else(refused)?;
    let time = number.parse::<f64>().map_err(|_| refused())? * unit;
    if (0.0..=MOST).contains(&time) {
        Ok(time.round() as u64)
    } else {
        Err(refused())
    }
}

#[cfg(test)]
mod tests {
    use ceasefire_machine::document::parse;
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<Time, String> {
        let document = format!("a = {text:?}");
        let mut root = parse("f", &document).expect("a test's own document");
        root.take("a").and_then(|entry| Time::read(&entry)).map_err(|error| error.to_string())
    }

    #[test]
    fn every_unit_is_read() {
        for (text, expected) in [
            ("7 ps", 7),
            ("1.5 ns", 1500),
            ("10 us", 10_000_000),
            ("2 ms", 2_000_000_000),
            ("1000 s", 10u64.pow(15)),
        ] {
            assert_eq!(read(text), Ok(Time::Fixed(expected)), "{text}");
        }
        assert_eq!(read("up to 4 us"), Ok(Time::UpTo(4_000_000)));
    }

    #[test]
    fn a_random_time_is_below_its_bound_and_all_of_it_is_used() {
        let mut random = Random::new(1);
        let drawn: Vec<u64> = (0..1000).map(|_| Time::UpTo(10).draw(&mut random)).collect();
        for time in 0..10 {
            assert!(drawn.contains(&time), "{time}");
        }
        assert_eq!(drawn.iter().max(), Some(&9));
    }

    #[test]
    fn a_bad_time_is_refused() {
        for text in ["1", "ms", "1 m", "-1 ms", "nan s", "1001 s", "up to", "up to 1"] {
            let error = read(text).expect_err(text);
            assert!(
                error.ends_with("must be a time from 0 to 1000 s, such as \"10 us\" or \"0.5 s\""),
                "{error}"
            );
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "[ -~]{0,20}") {
            let _ = read(&text);
        }
    }
}
