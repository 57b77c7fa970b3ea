//! The parts that all figures share: scales with round ticks, axes, and the frame of a drawing.
//!
//! A scale maps values to units of the drawing. All values lie between its ends. A linear scale always begins at 0, so
//! that lengths are comparable, and ends at a round number. The ends of a logarithmic scale are 1, 2 or 5 times a power
//! of ten. A value that is not a number has no place, and a figure without any number still has a frame.

use maud::{html, Markup};

use crate::number::compact;

/// The width of every figure, in its own units.
pub(crate) const WIDTH: f64 = 360.0;
/// The ends of the horizontal axis.
pub(crate) const LEFT: f64 = 46.0;
pub(crate) const RIGHT: f64 = WIDTH - 14.0;
/// The maximum number of steps between the ticks of a linear scale.
const TICKS: f64 = 5.0;
/// The maximum number of ticks of a logarithmic scale.
const LOG_TICKS: i32 = 5;

/// Maps values to the units of a drawing.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Scale {
    /// The values at the ends.
    from: f64,
    to: f64,
    /// The units at the ends. On a vertical scale the first is the larger.
    start: f64,
    end: f64,
    logarithmic: bool,
    /// The ticks in rising order, all between the ends.
    ticks: Vec<f64>,
}

impl Scale {
    /// A linear scale from 0 to a round number that no value exceeds.
    pub(crate) fn linear(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max).min(1e300);
        // Below this bound, the steps between ticks would not be normal numbers. Such values count as 0.
        let (step, count) = if most > 1e-290 {
            let step = round_up(most / TICKS);
            (step, (most / step - 1e-9).ceil())
        } else {
            (1.0, 1.0)
        };
        let ticks: Vec<f64> = (0..=count as u32).map(|number| f64::from(number) * step).collect();
        let to = (step * count).max(most);
        Self { from: 0.0, to, start, end, logarithmic: false, ticks }
    }

    /// A linear scale that ends with the last value, for an axis of time.
    pub(crate) fn until(last: f64, start: f64, end: f64) -> Self {
        let mut scale = Self::linear(std::iter::once(last), start, end);
        if last > 1e-290 && last <= 1e300 {
            scale.to = last;
            scale.ticks.retain(|tick| *tick <= last);
        }
        scale
    }

    /// A logarithmic scale around 1 for ratios. Ratios of 0 or less are at its end.
    pub(crate) fn ratios(values: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let known = values.filter(|value| value.is_normal() && *value > 0.0);
        // At least from a half to 2, so that small differences look small.
        let (least, most) = known.fold((0.5, 2.0), |(least, most): (f64, f64), value| {
            (least.min(value).max(1e-12), most.max(value).min(1e12))
        });
        let (from, to) = (round_down(least), round_up(most));
        let ticks = log_ticks(from, to);
        Self { from, to, start, end, logarithmic: true, ticks }
    }

    /// A logarithmic scale from the least to the greatest of some values above 0, with ticks at as many of them as have
    /// room.
    pub(crate) fn doubling(values: &[f64], start: f64, end: f64) -> Self {
        let mut known: Vec<f64> =
            values.iter().copied().filter(|value| (1e-300..1e300).contains(value)).collect();
        known.sort_by(f64::total_cmp);
        known.dedup();
        let from = known.first().copied().unwrap_or(1.0);
        let to = known.last().copied().filter(|to| *to > from).unwrap_or(from * 2.0);
        let mut scale = Self { from, to, start, end, logarithmic: true, ticks: Vec::new() };
        // Ticks are placed from the end, because the last value matters most.
        let mut last = f64::INFINITY;
        for &value in known.iter().rev() {
            if (scale.place(value) - last).abs() >= 22.0 {
                last = scale.place(value);
                scale.ticks.insert(0, value);
            }
        }
        if scale.ticks.is_empty() {
            scale.ticks.push(from);
        }
        scale
    }

    /// The place of a value. A value outside the scale is at the nearer end, and one that is not a number is at the
    /// start.
    pub(crate) fn place(&self, value: f64) -> f64 {
        let part = if self.logarithmic {
            (value.max(self.from).ln() - self.from.ln()) / (self.to.ln() - self.from.ln())
        } else {
            (value - self.from) / (self.to - self.from)
        };
        let part = if part.is_nan() { 0.0 } else { part.clamp(0.0, 1.0) };
        self.start + part * (self.end - self.start)
    }

    pub(crate) fn ticks(&self) -> &[f64] {
        &self.ticks
    }
}

/// The smallest of 1, 2, 2.5 or 5 times a power of ten that is not less than `value`, a normal number above 0.
fn round_up(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let steps = [1.0, 2.0, 2.5, 5.0, 10.0];
    let step = steps.into_iter().find(|step| step * power >= value * (1.0 - 1e-9));
    step.unwrap_or(10.0) * power
}

/// The largest of 1, 2 or 5 times a power of ten that is not more than `value`, a normal number above 0.
fn round_down(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let step = [5.0, 2.0, 1.0].into_iter().find(|step| step * power <= value * (1.0 + 1e-9));
    step.unwrap_or(1.0) * power
}

/// Round numbers around 1: 1, 2 and 5 times each power of ten if these are few, or 1 and 3 times, otherwise as many
/// powers of ten as have room.
fn log_ticks(from: f64, to: f64) -> Vec<f64> {
    let (first, last) = (from.log10().floor() as i32, to.log10().ceil() as i32);
    let inside = |tick: &f64| *tick >= from * (1.0 - 1e-9) && *tick <= to * (1.0 + 1e-9);
    let stride = (last - first) / LOG_TICKS + 1;
    let powers = || (first..=last).map(|power| (power, 10f64.powi(power)));
    for steps in [&[1.0, 2.0, 5.0][..], &[1.0, 3.0]] {
        let ticks = powers().flat_map(|(_, power)| steps.iter().map(move |step| step * power));
        let ticks: Vec<f64> = ticks.filter(inside).collect();
        if ticks.len() <= LOG_TICKS as usize {
            return ticks;
        }
    }
    powers().filter(|(number, _)| number % stride == 0).map(|(_, power)| power).filter(inside).collect()
}

/// A coordinate, rounded to a tenth of a unit.
pub(crate) fn at(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}

/// A drawing with a title and a description for screen readers.
pub(crate) fn drawing(height: f64, title: &str, description: &str, content: &Markup) -> Markup {
    html! {
        svg viewBox=(format!("0 0 {} {}", at(WIDTH), at(height))) role="img" {
            title { (title) }
            desc { (description) }
            (content)
        }
    }
}

/// The horizontal axis at `y`: a line, ticks with their labels, and the axis's own label.
pub(crate) fn horizontal(scale: &Scale, y: f64, label: &str, tick: impl Fn(f64) -> String) -> Markup {
    html! {
        line.axis x1=(at(scale.start)) x2=(at(scale.end)) y1=(at(y)) y2=(at(y)) {}
        @for value in scale.ticks() {
            @let x = scale.place(*value);
            line.axis x1=(at(x)) x2=(at(x)) y1=(at(y)) y2=(at(y + 4.0)) {}
            text x=(at(x)) y=(at(y + 16.0)) text-anchor="middle" { (tick(*value)) }
        }
        text.label x=(at(f64::midpoint(scale.start, scale.end))) y=(at(y + 32.0)) text-anchor="middle" { (label) }
    }
}

/// The vertical axis: a light line across with a label for each tick, and the axis's own label above it.
pub(crate) fn vertical(scale: &Scale, label: &str) -> Markup {
    html! {
        @for value in scale.ticks() {
            @let y = scale.place(*value);
            line.grid x1=(at(LEFT)) x2=(at(RIGHT)) y1=(at(y)) y2=(at(y)) {}
            text x=(at(LEFT - 6.0)) y=(at(y + 4.0)) text-anchor="end" { (compact(*value)) }
        }
        text.label x="0" y="12" { (label) }
    }
}

/// A range across, as a thin line with ends at the height `middle`. One that is too short to see has none.
pub(crate) fn whisker(scale: &Scale, middle: f64, least: f64, most: f64) -> Markup {
    let (from, to) = (scale.place(least), scale.place(most));
    if to - from < 1.0 {
        return html! {};
    }
    let path = format!("M{0} {1}v5M{0} {2}H{3}M{3} {1}v5", at(from), at(middle - 2.5), at(middle), at(to));
    html! { path.halo d=(path) {} path.whisker d=(path) {} }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Numbers of every size, and values that are not numbers.
    fn values() -> impl Strategy<Value = Vec<f64>> {
        let one = prop_oneof![
            any::<f64>(),
            0.0..1e6,
            (-320i32..309).prop_map(|power| 10f64.powi(power)),
            Just(f64::NAN),
            Just(0.0)
        ];
        prop::collection::vec(one, 0..12)
    }

    fn is_sound(scale: &Scale, values: &[f64]) {
        let (low, high) = (scale.start.min(scale.end), scale.start.max(scale.end));
        assert!(scale.from.is_finite() && scale.to.is_finite() && scale.from < scale.to, "{scale:?}");
        assert!((1..=20).contains(&scale.ticks().len()), "{scale:?}");
        assert!(scale.ticks().windows(2).all(|pair| pair[0] < pair[1]), "{scale:?}");
        let rise = (scale.end - scale.start).signum();
        for &tick in scale.ticks() {
            assert!(tick >= scale.from * (1.0 - 1e-9) && tick <= scale.to * (1.0 + 1e-9), "{scale:?}");
            assert!((low..=high).contains(&scale.place(tick)), "{tick} of {scale:?}");
        }
        let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
        sorted.sort_by(f64::total_cmp);
        for pair in sorted.windows(2) {
            assert!((scale.place(pair[1]) - scale.place(pair[0])) * rise >= -1e-9, "{pair:?} of {scale:?}");
        }
        for &value in values {
            assert!((low..=high).contains(&scale.place(value)), "{value} of {scale:?}");
        }
    }

    proptest! {
        #[test]
        fn scales_hold_all_values_and_their_ticks_rise(values in values()) {
            for (start, end) in [(46.0, 346.0), (180.0, 20.0)] {
                is_sound(&Scale::linear(values.iter().copied(), start, end), &values);
                is_sound(&Scale::ratios(values.iter().copied(), start, end), &values);
                is_sound(&Scale::doubling(&values, start, end), &values);
                let last = values.first().copied().unwrap_or(f64::NAN);
                is_sound(&Scale::until(last, start, end), &values);
            }
        }

        #[test]
        fn a_linear_scale_reaches_just_above_its_values(most in 1e-6..1e12) {
            let scale = Scale::linear([most / 3.0, most].into_iter(), 0.0, 1.0);
            prop_assert!(scale.to >= most && scale.to <= 2.0 * most, "{scale:?}");
            prop_assert!(scale.ticks().len() <= 7, "{scale:?}");
            prop_assert!(scale.ticks()[0].abs() < f64::EPSILON);
        }

        #[test]
        fn text_in_a_drawing_is_escaped(text in "[ -~]{0,40}") {
            let scale = Scale::linear([1.0].into_iter(), 0.0, 100.0);
            let axes = html! { (horizontal(&scale, 10.0, &text, |_| text.clone())) (vertical(&scale, &text)) };
            let drawn = drawing(100.0, &text, &text, &axes).into_string();
            let shown = maud::html! { (text) }.into_string();
            prop_assert!(!shown.contains('<') && !shown.contains('>'));
            let said = format!("<title>{shown}</title><desc>{shown}</desc>");
            prop_assert!(drawn.contains(&said));
            // Apart from the text, the drawing holds only our own markup.
            prop_assert_eq!(drawn.matches("<title>").count(), 1);
            prop_assert_eq!(drawn.matches('<').count(), drawn.matches('>').count());
        }
    }

    #[test]
    fn ticks_are_round() {
        let linear = |most: f64| Scale::linear(std::iter::once(most), 0.0, 1.0).ticks().to_vec();
        assert_eq!(linear(908_340.0), [0.0, 200_000.0, 400_000.0, 600_000.0, 800_000.0, 1_000_000.0]);
        assert_eq!(linear(5.0), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
        assert_eq!(Scale::until(2.2, 0.0, 1.0).ticks(), [0.0, 0.5, 1.0, 1.5, 2.0]);
        let ratios = |values: [f64; 2]| Scale::ratios(values.into_iter(), 0.0, 1.0).ticks().to_vec();
        assert_eq!(ratios([0.756, 0.2]), [0.2, 0.5, 1.0, 2.0]);
        assert_eq!(ratios([0.0053, 4.47]), [0.01, 0.1, 1.0]);
    }

    #[test]
    fn numbers_of_threads_without_room_have_no_tick() {
        let threads = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 72.0];
        let scale = Scale::doubling(&threads, LEFT, RIGHT);
        assert_eq!(scale.ticks(), [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 72.0]);
        assert_eq!(Scale::doubling(&[8.0], LEFT, RIGHT).ticks(), [8.0]);
        assert_eq!(Scale::doubling(&[], LEFT, RIGHT).ticks(), [1.0]);
    }
}
