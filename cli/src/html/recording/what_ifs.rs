//! The interrupts of each mechanism in relation to those that were observed.

use maud::html;

use super::super::figure::{exact, head, Figure};
use super::super::plot::{at, whisker, Scale, WIDTH};
use crate::number::{compact, ratio};
use crate::replay::Prediction;

/// The height of the row of a bar, and that of the bar.
const ROW: f64 = 18.0;
const BAR: f64 = 9.0;
/// The end of the names, the ends of the bars, and the start of their numbers.
const NAMES: f64 = 128.0;
const BARS: (f64, f64) = (136.0, 282.0);
const NUMBERS: f64 = 290.0;

/// The figure; `None` without a prediction. The bars end at 2: the number beside one says how long it is.
pub(super) fn figure(predictions: &[Prediction]) -> Option<Figure> {
    let rows: Vec<(&Prediction, f64)> =
        predictions.iter().filter_map(|prediction| Some((prediction, prediction.ratio?))).collect();
    if rows.is_empty() {
        return None;
    }
    let ends = rows.iter().map(|(prediction, ratio)| prediction.spread.map_or(*ratio, |spread| spread.high));
    let scale = Scale::linear(ends.chain([1.0]).map(|end| end.min(2.0)), BARS.0, BARS.1);
    let bottom = ROW * rows.len() as f64;
    let content = html! {
        @for tick in scale.ticks() {
            @let x = scale.place(*tick);
            line.grid x1=(at(x)) x2=(at(x)) y1="0" y2=(at(bottom)) {}
            text x=(at(x)) y=(at(bottom + 14.0)) text-anchor="middle" { (compact(*tick)) }
        }
        @let one = scale.place(1.0);
        line.axis x1=(at(one)) x2=(at(one)) y1="0" y2=(at(bottom)) {}
        @for ((prediction, of_observed), number) in rows.iter().zip(0u32..) {
            @let top = f64::from(number) * ROW;
            @let end = scale.place(*of_observed);
            g {
                title { (said(prediction)) }
                rect.other.batched x=(at(BARS.0)) y=(at(top + (ROW - BAR) / 2.0)) width=(at(end - BARS.0)) height=(at(BAR)) {}
                @if let Some(spread) = prediction.spread { (whisker(&scale, top + ROW / 2.0, spread.low, spread.high)) }
                text x=(at(NAMES)) y=(at(top + 13.0)) text-anchor="end" { (prediction.name) }
                text.number x=(at(NUMBERS)) y=(at(top + 13.0)) { (ratio(Some(*of_observed))) }
            }
        }
        text.label x=(at(WIDTH / 2.0)) y=(at(bottom + 31.0)) text-anchor="middle" { "interrupts in relation to those observed" }
    };
    let mut data = vec![head(&["mechanism", "interrupts", "ratio", "ratio_low", "ratio_high"])];
    for (prediction, of_observed) in &rows {
        let spread = prediction
            .spread
            .map_or([const { String::new() }; 2], |spread| [spread.low, spread.high].map(exact));
        let mut row =
            vec![prediction.name.clone(), prediction.predicted.interrupts.to_string(), exact(*of_observed)];
        row.extend(spread);
        data.push(row);
    }
    Some(Figure {
        file: "what-ifs",
        caption: html! {
            b { "Other mechanisms." } " Their interrupts in relation to those observed, with the range that holds nine of ten. "
            "The first bar is the test of the model."
        },
        legend: Vec::new(),
        title: "Interrupts of other mechanisms".to_owned(),
        description: rows.iter().map(|(prediction, _)| said(prediction)).collect::<Vec<_>>().join("; "),
        height: bottom + 38.0,
        content,
        numbers: html! {
            table {
                thead { tr { th { "mechanism" } th { "interrupts" } th { "of observed" } th { "9 of 10 within" } } }
                tbody { @for (prediction, of_observed) in &rows { tr {
                    th scope="row" { (prediction.name) } td { (prediction.predicted.interrupts) }
                    td { (ratio(Some(*of_observed))) } td { (prediction.range()) }
                } } }
            }
        },
        rows: data,
    })
}

/// The ratio of a prediction in words.
fn said(prediction: &Prediction) -> String {
    format!("{}: {} ({})", prediction.name, ratio(prediction.ratio), prediction.range())
}
