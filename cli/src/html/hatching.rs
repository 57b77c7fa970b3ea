//! Bars with hatchings, which keep their parts apart in print and for colour-blind readers.
//!
//! A hatching is a path of its own, cut at the bar's edges. A pattern would be shorter, but a browser prints each use of
//! one as a picture: a page then takes megabytes.

use std::fmt::Write as _;

use maud::{html, Markup};

use super::plot::at;

/// The distance between two strokes.
const STEP: f64 = 4.0;

/// A bar's place.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

/// A bar of a CSS class, which decides its hatching, with a text that the browser shows on hover.
pub(super) fn bar(class: &str, place: Place, said: &str) -> Markup {
    let Place { x, y, width, height } = place;
    let strokes = match class {
        "published" => rising(place),
        "answers" => falling(place),
        "locks" => rising(place) + &falling(place),
        "faults" | "kernel" => level(place),
        _ => String::new(),
    };
    html! {
        rect class=(class) x=(at(x)) y=(at(y)) width=(at(width)) height=(at(height)) {
            @if !said.is_empty() { title { (said) } }
        }
        @if !strokes.is_empty() { path class=(format!("hatching {class}")) d=(strokes) {} }
    }
}

/// The bar of a legend.
pub(super) fn sample(class: &str) -> Markup {
    bar(class, Place { x: 1.0, y: 1.0, width: 16.0, height: 8.0 }, "")
}

/// Strokes from the lower left to the upper right: on each, `x + y` is the same.
fn rising(Place { x, y, width, height }: Place) -> String {
    let (right, bottom) = (x + width, y + height);
    strokes(x + y, right + bottom, |sum| {
        let (from, to) = (x.max(sum - bottom), right.min(sum - y));
        [from, sum - from, to, sum - to]
    })
}

/// Strokes from the upper left to the lower right: on each, `y - x` is the same.
fn falling(Place { x, y, width, height }: Place) -> String {
    let (right, bottom) = (x + width, y + height);
    strokes(y - right, bottom - x, |difference| {
        let (from, to) = (x.max(y - difference), right.min(bottom - difference));
        [from, difference + from, to, difference + to]
    })
}

fn level(Place { x, y, width, height }: Place) -> String {
    strokes(y, y + height, |across| [x, across, x + width, across])
}

/// The strokes between two values, without those at the ends.
fn strokes(from: f64, to: f64, stroke: impl Fn(f64) -> [f64; 4]) -> String {
    let mut path = String::new();
    let count = ((to - from) / STEP).ceil() as u32;
    for number in 1..count {
        let [x, y, to_x, to_y] = stroke(from + f64::from(number) * STEP).map(at);
        // Writing to a string does not fail.
        let _ = write!(path, "M{x} {y}L{to_x} {to_y}");
    }
    path
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn strokes_stay_inside_their_bar(
            x in 0.0..300.0, y in 0.0..900.0, width in 0.0..300.0, height in 0.0..30.0, class in 0..5usize,
        ) {
            let class = ["published", "answers", "locks", "faults", "kernel"][class];
            let text = bar(class, Place { x, y, width, height }, "").into_string();
            let path = text.split(" d=\"").nth(1).and_then(|path| path.split('"').next()).unwrap_or_default();
            for point in path.split(['M', 'L']).skip(1) {
                let (across, down) = point.split_once(' ').expect("two numbers");
                let (across, down): (f64, f64) = (across.parse().expect("x"), down.parse().expect("y"));
                prop_assert!(across >= x - 0.06 && across <= x + width + 0.06, "{point} of {text}");
                prop_assert!(down >= y - 0.06 && down <= y + height + 0.06, "{point} of {text}");
            }
        }
    }

    #[test]
    fn a_wide_bar_has_strokes_and_a_plain_one_has_none() {
        let place = Place { x: 10.0, y: 0.0, width: 100.0, height: 10.0 };
        assert!(bar("published", place, "").into_string().matches('L').count() > 20);
        assert!(!bar("flushes", place, "").into_string().contains("path"));
    }
}
