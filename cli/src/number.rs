//! Numbers in a form that people read: compact ones with four significant digits, ratios, percentages, grouped digits.

use ceasefire_experiments::Interval;

/// A number in about seven characters: `159.6`, `0.0915`, `136k`, `1.251G`. The result is `-` if it is not finite.
pub(crate) fn compact(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() {
        return "-".into();
    }
    if size == 0.0 {
        return "0".into();
    }
    if !(1e-3..1e15).contains(&size) {
        return format!("{value:.2e}");
    }
    // From each bound on, rounding to four digits reaches the next letter.
    let units =
        [(0.999_95e12, 1e12, "T"), (0.999_95e9, 1e9, "G"), (0.999_95e6, 1e6, "M"), (9_999.5, 1e3, "k")];
    let (unit, letter) =
        units.iter().find(|(from, ..)| size >= *from).map_or((1.0, ""), |&(_, unit, letter)| (unit, letter));
    let shown = value / unit;
    let before_point = shown.abs().log10().floor() as i32;
    let decimals = (3 - before_point).clamp(0, 6) as usize;
    // Below 1, three significant digits.
    let decimals = if before_point < 0 { decimals - 1 } else { decimals };
    let text = format!("{shown:.decimals$}");
    let text = if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{letter}")
}

/// A ratio with three significant digits, or `-` if there is none.
pub(crate) fn ratio(value: Option<f64>) -> String {
    match value.filter(|value| value.is_finite()) {
        None => "-".into(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) if value.abs() >= 1.0 => format!("{value:.2}"),
        Some(value) if value.abs() >= 0.1 || value == 0.0 => format!("{value:.3}"),
        Some(value) if value.abs() >= 1e-4 => format!("{value:.4}"),
        Some(value) => format!("{value:.1e}"),
    }
}

/// The least and the greatest of some values, or nothing if they are the same.
pub(crate) fn range(interval: Interval, number: fn(f64) -> String) -> String {
    let (least, most) = (number(interval.least), number(interval.most));
    if least == most {
        String::new()
    } else {
        format!("{least}-{most}")
    }
}

/// A scale, as a fraction if it is one of the form 1/n.
pub(crate) fn scale(scale: f64) -> String {
    let whole = (1.0 / scale).round();
    if scale < 1.0 && (scale * whole - 1.0).abs() < 1e-12 {
        format!("1/{whole}")
    } else {
        scale.to_string()
    }
}

/// The difference of `ours` from `published` in percent of `published`, or `-` if it has no meaning.
pub(crate) fn difference(ours: Option<f64>, published: f64) -> String {
    let percent = ours.map(|ours| (ours / published - 1.0) * 100.0).filter(|percent| percent.is_finite());
    match percent {
        None => "-".into(),
        Some(percent) if percent.abs() < 99.95 => format!("{percent:+.1}%"),
        Some(percent) if percent < 9999.5 => format!("{percent:+.0}%"),
        Some(_) => ">9999%".into(),
    }
}

/// A count with its noun: `1 flush`, `8 flushes`.
pub(crate) fn counted(count: u64, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

/// A number of threads with its noun: `1 thread`, `8 threads`.
pub(crate) fn threads(count: usize) -> String {
    counted(count as u64, "thread", "threads")
}

/// A unit of time in which `longest` seconds are a number of one to three digits, and the number of these units in a
/// second.
pub(crate) fn time_unit(longest: f64) -> (&'static str, f64) {
    match longest {
        _ if longest >= 1.0 => ("s", 1.0),
        _ if longest >= 1e-3 => ("ms", 1e3),
        _ if longest > 0.0 => ("µs", 1e6),
        _ => ("s", 1.0),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_short_and_have_four_digits() {
        for (value, text) in [
            (159.62, "159.6"),
            (5804.93, "5805"),
            (9999.0, "9999"),
            (9999.6, "10k"),
            (136_030.0, "136k"),
            (908_340.0, "908.3k"),
            (999_960.0, "1M"),
            (1_251_250_816.0, "1.251G"),
            (0.0915, "0.0915"),
            (0.5, "0.5"),
            (3.917, "3.917"),
            (-2.5, "-2.5"),
            (0.0, "0"),
            (f64::NAN, "-"),
            (f64::INFINITY, "-"),
            (2.243e-6, "2.24e-6"),
        ] {
            assert_eq!(compact(value), text);
        }
    }

    #[test]
    fn ratios_and_differences_have_three_digits() {
        let ratios = [Some(0.756_05), Some(3.917), Some(0.0053), Some(0.0), Some(f64::NAN), None];
        assert_eq!(ratios.map(ratio), ["0.756", "3.92", "0.0053", "0.000", "-", "-"]);
        assert_eq!(difference(Some(0.765), 0.756), "+1.2%");
        assert_eq!(difference(Some(0.0053), 0.009), "-41.1%");
        assert_eq!(difference(Some(4.0), 1.0), "+300%");
        assert_eq!(difference(Some(1.0), 0.0), "-");
        assert_eq!(difference(None, 1.0), "-");
    }

    #[test]
    fn one_thing_is_singular() {
        assert_eq!([0, 1, 2].map(threads), ["0 threads", "1 thread", "2 threads"]);
        assert_eq!(counted(1, "flush", "flushes"), "1 flush");
    }

    #[test]
    fn a_scale_is_a_fraction_if_it_can_be() {
        let scales = [1.0, 0.5, 1.0 / 256.0, 1.0 / 3.0, 0.75, 0.0003];
        assert_eq!(scales.map(scale), ["1", "1/2", "1/256", "1/3", "0.75", "0.0003"]);
    }

    #[test]
    fn a_range_of_one_number_is_not_shown() {
        let of = |values: [f64; 2]| range(Interval::of(values).expect("numbers"), compact);
        assert_eq!(of([1.5, 2.0]), "1.5-2");
        assert_eq!(of([1.000_01, 1.000_02]), "");
    }

    proptest! {
        #[test]
        fn a_compact_number_is_short_and_near_its_value(value in any::<f64>()) {
            let text = compact(value);
            prop_assert!(text.len() <= 10, "{text}");
            prop_assert!(ratio(Some(value.abs().min(99.0))).len() <= 8);
            if value.is_finite() {
                let letter = text.find(['k', 'M', 'G', 'T']);
                let unit = [('k', 1e3), ('M', 1e6), ('G', 1e9), ('T', 1e12)];
                let times = unit.iter().find(|(letter, _)| text.ends_with(*letter)).map_or(1.0, |unit| unit.1);
                let read: f64 = text[..letter.unwrap_or(text.len())].parse().expect("a number");
                prop_assert!((read * times - value).abs() <= value.abs() / 180.0, "{text} for {value}");
            }
        }
    }
}
