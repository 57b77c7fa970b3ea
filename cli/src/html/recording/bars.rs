//! Ratios as bars from 0, with their ranges.

use ceasefire_linux::spread::Spread;
use maud::{html, Markup};

use super::super::figure::{exact, head, Figure};
use super::super::plot::{at, whisker, Scale, WIDTH};
use crate::number::{compact, ratio};
use crate::replay::prediction::range;

/// The height of the row of a bar, and that of the bar.
const ROW: f64 = 18.0;
const BAR: f64 = 9.0;
/// The end of the names, the ends of the bars, and the start of their numbers.
const NAMES: f64 = 128.0;
const BARS: (f64, f64) = (136.0, 282.0);
const NUMBERS: f64 = 290.0;

/// A ratio. Its count is that above, and stands in the numbers alone.
pub(super) struct Bar {
    pub(super) name: String,
    pub(super) count: String,
    pub(super) ratio: f64,
    pub(super) spread: Option<Spread>,
}

impl Bar {
    fn said(&self) -> String {
        format!("{}: {} ({})", self.name, ratio(Some(self.ratio)), range(self.spread))
    }
}

/// The figure; `None` without a bar. No bar goes beyond 2: the number beside it says how long it is.
pub(super) fn figure(
    file: &'static str,
    caption: Markup,
    title: &str,
    counted: &str,
    bars: &[Bar],
) -> Option<Figure> {
    if bars.is_empty() {
        return None;
    }
    let ends = bars.iter().map(|bar| bar.spread.map_or(bar.ratio, |spread| spread.high));
    let scale = Scale::linear(ends.chain([1.0]).map(|end| end.min(2.0)), BARS.0, BARS.1);
    let bottom = ROW * bars.len() as f64;
    let content = html! {
        @for tick in scale.ticks() {
            @let x = scale.place(*tick);
            line.grid x1=(at(x)) x2=(at(x)) y1="0" y2=(at(bottom)) {}
            text x=(at(x)) y=(at(bottom + 14.0)) text-anchor="middle" { (compact(*tick)) }
        }
        @let one = scale.place(1.0);
        line.axis x1=(at(one)) x2=(at(one)) y1="0" y2=(at(bottom)) {}
        @for (bar, number) in bars.iter().zip(0u32..) {
            @let top = f64::from(number) * ROW;
            @let end = scale.place(bar.ratio);
            g {
                title { (bar.said()) }
                rect.other.batched x=(at(BARS.0)) y=(at(top + (ROW - BAR) / 2.0)) width=(at(end - BARS.0)) height=(at(BAR)) {}
                @if let Some(spread) = bar.spread { (whisker(&scale, top + ROW / 2.0, spread.low, spread.high)) }
                text x=(at(NAMES)) y=(at(top + 13.0)) text-anchor="end" { (bar.name) }
                text.number x=(at(NUMBERS)) y=(at(top + 13.0)) { (ratio(Some(bar.ratio))) }
            }
        }
        text.label x=(at(WIDTH / 2.0)) y=(at(bottom + 31.0)) text-anchor="middle" { (title) }
    };
    let mut rows = vec![head(&["name", counted, "ratio", "ratio_low", "ratio_high"])];
    for bar in bars {
        let ends =
            bar.spread.map_or([const { String::new() }; 2], |spread| [spread.low, spread.high].map(exact));
        rows.push([bar.name.clone(), bar.count.clone(), exact(bar.ratio)].into_iter().chain(ends).collect());
    }
    Some(Figure {
        file,
        caption,
        legend: Vec::new(),
        title: title.to_owned(),
        description: bars.iter().map(Bar::said).collect::<Vec<_>>().join("; "),
        height: bottom + 38.0,
        content,
        numbers: html! {
            table {
                thead { tr { th {} th { (counted) } th { "ratio" } th { "9 of 10 within" } } }
                tbody { @for bar in bars { tr {
                    th scope="row" { (bar.name) } td { (bar.count) } td { (ratio(Some(bar.ratio))) }
                    td { (range(bar.spread)) }
                } } }
            }
        },
        rows,
    })
}
