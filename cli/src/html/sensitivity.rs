//! What the ratios depend on: for each ratio, a bar for each number of the machine that matters.
//!
//! The pale bar is the total Sobol index of the number, the full bar in it the first-order index. The whisker is the
//! error of the total.

use maud::{html, Markup};

use super::figure::{exact, head, Figure, Key};
use super::group::Group;
use super::hatching::{self, Place};
use super::plot::{at, horizontal, whisker, Scale};
use crate::number::compact;
use crate::results::metric_name;
use crate::results::{Influence, Number, Sensitivity};

/// The heights of a ratio's name, of the row of a bar, of the bar, and of the gap between two ratios.
const NAME: f64 = 19.0;
const ROW: f64 = 15.0;
const BAR: f64 = 9.0;
const GAP: f64 = 12.0;
/// The ends of the bars, and the start of their numbers.
const BARS: (f64, f64) = (172.0, 312.0);
const NUMBERS: f64 = 320.0;

/// The figure. `None` if the sensitivity of this group's ratios is not known.
pub(super) fn figure(group: &Group, sensitivity: Option<&Sensitivity>) -> Option<Figure> {
    let sensitivity = sensitivity?;
    let first = group.reports[0];
    let is_of_group = |row: &&Influence| {
        let prediction = &row.prediction;
        (prediction.experiment, &prediction.machine) == (first.experiment, &first.machine)
    };
    let rows: Vec<&Influence> = sensitivity.rows.iter().filter(is_of_group).collect();
    if rows.is_empty() {
        return None;
    }
    let ends = rows.iter().flat_map(|row| row.split(Influence::SHOWN).0).map(|number| number.index);
    let scale = Scale::linear(
        ends.map(|index| index.total + index.total_error).chain([1.0]).map(|end| end.min(2.0)),
        BARS.0,
        BARS.1,
    );
    let (height, content) = drawn(&rows, &scale);
    let said = rows.iter().map(|row| {
        let numbers = row.split(Influence::SHOWN).0.iter().map(said).collect::<Vec<_>>();
        format!("{}: {}", name(row), numbers.join(", "))
    });
    let key = |class: &str, name: &str| Key { sample: hatching::sample(class), width: 18, name: name.into() };
    Some(Figure {
        file: "sensitivity",
        caption: html! {
            b { "What the ratios depend on." }
            " The part of a ratio's variance that comes from a number of the machine (Sobol indices), on "
            (rows.iter().map(|row| row.pairs).min().unwrap_or(0)) " pairs of machines drawn from the ranges in the machine file. Numbers below a twentieth are left out."
        },
        legend: vec![key("ours", "alone (first-order index)"), key("other", "with others (total index)")],
        title: format!("What the ratios of {} on {} depend on", first.experiment, first.machine),
        description: said.collect::<Vec<_>>().join("; "),
        height,
        content,
        numbers: numbers(&rows),
        rows: data(&rows),
    })
}

/// The ratio's name.
fn name(row: &Influence) -> String {
    let prediction = &row.prediction;
    let case = prediction.case.as_ref().map_or(String::new(), |case| format!(", {case}"));
    format!("{}, {}{case}", metric_name(prediction.metric).0, prediction.mechanism)
}

fn said(number: &Number) -> String {
    let index = number.index;
    format!("{} {:.2} alone, {:.2} with others", number.key, index.first, index.total)
}

/// The height of the drawing, and the drawing.
fn drawn(rows: &[&Influence], scale: &Scale) -> (f64, Markup) {
    let mut tops = Vec::new();
    let mut bottom = 0.0;
    for row in rows {
        tops.push(bottom);
        bottom += NAME + ROW * row.split(Influence::SHOWN).0.len().max(1) as f64 + GAP;
    }
    let content = html! {
        @for (row, top) in rows.iter().zip(&tops) {
            text.name x="0" y=(at(top + 13.0)) { (name(row)) }
            @let (shown, _) = row.split(Influence::SHOWN);
            @if shown.is_empty() {
                text x="8" y=(at(top + NAME + 11.5)) {
                    @if row.pairs < 2 { "unknown" } @else if row.numbers.is_empty() { "the same on all machines" } @else { "no number alone matters much" }
                }
            }
            g class=(row.prediction.mechanism) {
                @for (number, place) in shown.iter().zip(0u32..) {
                    (bar(number, top + NAME + ROW * f64::from(place), scale))
                }
            }
        }
        (horizontal(scale, bottom, "part of the variance", compact))
    };
    (bottom + 38.0, content)
}

/// A number's name, its bars and its total.
fn bar(number: &Number, top: f64, scale: &Scale) -> Markup {
    let place = |value: f64| {
        let (start, end) = (scale.place(0.0), scale.place(value));
        Place { x: start, y: top + (ROW - BAR) / 2.0, width: end - start, height: BAR }
    };
    let index = number.index;
    html! {
        text x="8" y=(at(top + 11.5)) { (number.key) }
        (hatching::bar("other", place(index.total), &said(number)))
        (hatching::bar("ours", place(index.first), &said(number)))
        (whisker(scale, top + ROW / 2.0, index.total - index.total_error, index.total + index.total_error))
        text x=(at(NUMBERS)) y=(at(top + 11.5)) { (format!("{:.2}", index.total)) }
    }
}

/// The data of all numbers, those that do not matter included.
fn data(rows: &[&Influence]) -> Vec<Vec<String>> {
    let mut data =
        vec![head(&["ratio", "number", "first_order", "first_order_error", "total", "total_error"])];
    for (row, number) in rows.iter().flat_map(|row| row.numbers.iter().map(move |number| (row, number))) {
        let index = number.index;
        let mut cells = vec![name(row), number.key.clone()];
        cells.extend([index.first, index.first_error, index.total, index.total_error].map(exact));
        data.push(cells);
    }
    data
}

/// The table of the numbers that matter.
fn numbers(rows: &[&Influence]) -> Markup {
    html! {
        table {
            thead { tr { th { "ratio" } th { "number" } th { "alone" } th { "±" } th { "with others" } th { "±" } } }
            tbody {
                @for row in rows {
                    @for number in row.split(usize::MAX).0 {
                        @let index = number.index;
                        tr {
                            th scope="row" { (name(row)) }
                            td { (number.key) }
                            @for value in [index.first, index.first_error, index.total, index.total_error] {
                                td { (format!("{value:.2}")) }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ceasefire_studies::Index;
    use proptest::prelude::*;

    use super::super::group::groups;
    use super::super::testing::{plans, rectangles, report};
    use super::*;
    use crate::results::cases;
    use crate::results::Prediction;

    fn sensitivity(totals: &[f64]) -> Sensitivity {
        let number = |(place, total): (usize, &f64)| Number {
            key: format!("costs.number_{place}"),
            index: Index { first: total - 0.25, first_error: 0.1, total: *total, total_error: 0.125 },
        };
        let prediction = Prediction::of(&report("batched"), "pages_migrated_per_second");
        let numbers = totals.iter().enumerate().map(number).collect();
        Sensitivity { pairs: 8, failed: 0, rows: vec![Influence { prediction, pairs: 7, numbers }] }
    }

    #[test]
    fn numbers_that_matter_have_bars_and_all_are_in_the_data() {
        let reports = [report("batched")];
        let (plans, sensitivity) = (plans(&reports), sensitivity(&[0.75, 0.25, 0.01]));
        let cases = cases(&plans, &reports);
        let figure = figure(&groups(&cases)[0], Some(&sensitivity)).expect("a figure");
        let content = figure.content.clone().into_string();
        assert!(content.contains("pages migrated per second, batched"), "{content}");
        assert_eq!(content.matches("<rect class=\"other\"").count(), 2, "{content}");
        assert!(content.contains("costs.number_1") && !content.contains("costs.number_2"), "{content}");
        // The bar of a whole is as long as the axis, since nothing is above 1.
        assert!(content.contains("width=\"105\""), "three quarters of 140: {content}");
        assert_eq!(figure.rows.len(), 4);
        assert_eq!(
            figure.rows[3][1..],
            ["costs.number_2", "-0.24", "0.1", "0.01", "0.125"].map(str::to_owned)
        );
        assert!(figure.shown("a").into_string().contains("on 7 pairs of machines"));
    }

    #[test]
    fn a_page_without_sensitivity_has_no_such_figure() {
        let reports = [report("batched")];
        let plans = plans(&reports);
        let cases = cases(&plans, &reports);
        let group = &groups(&cases)[0];
        assert!(figure(group, None).is_none());
        let mut of_other = sensitivity(&[0.5]);
        of_other.rows[0].prediction.experiment = "mmap-read";
        assert!(figure(group, Some(&of_other)).is_none());
    }

    proptest! {
        #[test]
        fn every_bar_lies_inside_the_figure(totals in prop::collection::vec(-1e3..1e3f64, 1..9)) {
            let reports = [report("batched")];
            let (plans, sensitivity) = (plans(&reports), sensitivity(&totals));
            let cases = cases(&plans, &reports);
            let figure = figure(&groups(&cases)[0], Some(&sensitivity)).expect("a figure");
            for (x, width) in rectangles(&figure.content.into_string()) {
                prop_assert!(x >= BARS.0 && width >= 0.0 && x + width <= BARS.1 + 0.2, "{x} {width}");
            }
        }
    }
}
