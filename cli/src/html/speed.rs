//! The speed under each mechanism, where nothing was published: a bar for the operations per second, or for the elapsed
//! time where the work is fixed.

use ceasefire_experiments::{Interval, Repeats};
use maud::{html, Markup};

use super::capital;
use super::figure::{exact, head, Figure};
use super::group::Group;
use super::hatching::{self, Place};
use super::plot::{at, horizontal, whisker, Scale, RIGHT};
use crate::number::{compact, range, ratio};
use crate::results::Speed;

/// The heights of a mechanism's name, of its bar, and of the gap between two bars; and the start of the bars.
const NAME: f64 = 17.0;
const BAR: f64 = 12.0;
const GAP: f64 = 9.0;
const START: f64 = 6.0;

/// A bar.
struct Bar<'a> {
    name: &'a str,
    mechanism: &'static str,
    runs: &'a Repeats<'a>,
    value: Option<Interval>,
    /// The ratio to the baseline, or the word for the baseline itself.
    compared: String,
}

impl Bar<'_> {
    fn median(&self) -> f64 {
        self.value.map_or(f64::NAN, |value| value.median)
    }

    fn range(&self) -> String {
        self.value.map_or(String::new(), |value| range(value, compact))
    }

    /// The value and its ratio in words.
    fn said(&self) -> String {
        let compared = if self.compared.is_empty() { String::new() } else { format!(", {}", self.compared) };
        format!("{}{compared}", compact(self.median()))
    }
}

/// The figure. `None` if something was published, or if threads were swept: other figures have the speed then.
pub(super) fn figure(group: &Group) -> Option<Figure> {
    let has_paper = group.reports.iter().any(|report| !report.published.is_empty());
    if has_paper || group.threads().len() > 1 {
        return None;
    }
    let speed = Speed::of(&group.runs);
    let bars: Vec<Bar> =
        group.numbered_runs().map(|(variant, runs)| bar(group, speed, variant, runs)).collect();
    let most = bars.iter().filter_map(|bar| Some(bar.value?.most));
    let scale = Scale::linear(most, START, RIGHT);
    let step = NAME + BAR + GAP;
    let bottom = step * bars.len() as f64;
    let content = html! {
        @for (bar, number) in bars.iter().zip(0u32..) {
            @let top = f64::from(number) * step;
            text.name x=(at(START)) y=(at(top + 12.0)) {
                (bar.name) tspan.quiet { "  " (bar.said()) }
            }
            (drawn(bar, &scale, top + NAME))
        }
        (horizontal(&scale, bottom, speed.name(), compact))
    };
    let medians = match group.repeats() {
        0 | 1 => String::new(),
        many => format!(" Median of {many} runs, range as a thin line."),
    };
    let said = bars.iter().map(|bar| format!("{}: {}", bar.name, bar.said()));
    Some(Figure {
        file: "speed",
        caption: html! { b { "Speed." } " " (capital(speed.name())) "." (medians) },
        legend: Vec::new(),
        title: format!("{}, {} on {}", capital(speed.name()), group.experiment.name, group.machine.name),
        description: said.collect::<Vec<_>>().join("; "),
        height: bottom + 38.0,
        content,
        numbers: numbers(speed, &bars),
        rows: rows(speed, &bars),
    })
}

fn bar<'a>(group: &'a Group<'a>, speed: Speed, variant: usize, runs: &'a Repeats<'a>) -> Bar<'a> {
    let first = runs.first();
    let is_before = |other: &&&Repeats| other.first().is_baseline() && other.first().case() == first.case();
    let compared = match group.runs.iter().find(is_before) {
        _ if group.runs.len() < 2 => String::new(),
        _ if first.is_baseline() => "baseline".into(),
        Some(before) => runs.ratio(before, speed.value()).map_or(String::new(), |own| {
            format!("{} of {}", ratio(Some(own.median)), before.first().mechanism)
        }),
        None => String::new(),
    };
    let value = runs.interval(speed.value());
    Bar { name: &group.variants[variant], mechanism: first.mechanism, runs, value, compared }
}

/// The bar, with its range.
fn drawn(bar: &Bar, scale: &Scale, top: f64) -> Markup {
    let Some(Interval { median, least, most }) = bar.value else { return html! {} };
    let start = scale.place(0.0);
    let place = Place { x: start, y: top, width: scale.place(median) - start, height: BAR };
    html! {
        (hatching::bar(&format!("ours {}", bar.mechanism), place, &format!("{}: {}", bar.name, bar.said())))
        (whisker(scale, top + BAR / 2.0, least, most))
    }
}

fn numbers(speed: Speed, bars: &[Bar]) -> Markup {
    let has_ranges = bars.iter().any(|bar| !bar.range().is_empty());
    let is_compared = bars.len() > 1;
    html! {
        table {
            thead {
                tr {
                    th { "mechanism" } th { (speed.name()) }
                    @if has_ranges { th { "range" } }
                    @if is_compared { th.word { "ratio" } }
                }
            }
            tbody {
                @for bar in bars {
                    tr {
                        th scope="row" { (bar.name) }
                        td { (compact(bar.median())) }
                        @if has_ranges { td { (bar.range()) } }
                        @if is_compared { td.word { (bar.compared) } }
                    }
                }
            }
        }
    }
}

/// The data.
fn rows(speed: Speed, bars: &[Bar]) -> Vec<Vec<String>> {
    let field = match speed {
        Speed::Rate => "operations_per_s",
        Speed::Elapsed => "elapsed_s",
    };
    let mut rows = vec![head(&["mechanism", "runs", field, "least", "most"])];
    for bar in bars {
        let mut row = vec![bar.name.to_owned(), bar.runs.all().len().to_string()];
        let values = bar.value.map_or([f64::NAN; 3], |value| [value.median, value.least, value.most]);
        row.extend(values.map(exact));
        rows.push(row);
    }
    rows
}

#[cfg(test)]
mod tests {
    use ceasefire_experiments::Report;
    use proptest::prelude::*;

    use super::super::group::groups;
    use super::super::testing::{comparison, plans, rectangles, report};
    use super::*;
    use crate::results::cases;

    fn of(reports: &[Report]) -> Option<Figure> {
        figure(&groups(&cases(&plans(reports), reports))[0])
    }

    fn rate(mechanism: &'static str, operations_per_s: f64) -> Report {
        Report { operations_per_s, ..report(mechanism) }
    }

    #[test]
    fn each_mechanism_has_a_bar_and_the_baseline_is_called_so() {
        let figure = of(&[rate("per-page", 100.0), rate("batched", 150.0)]).expect("nothing was published");
        let content = figure.content.into_string();
        let widths: Vec<f64> = rectangles(&content).iter().map(|(_, width)| *width).collect();
        assert!((widths[1] / widths[0] - 1.5).abs() < 0.01, "{widths:?}");
        assert!(content.contains("class=\"ours batched\""), "{content}");
        assert_eq!(figure.description, "per-page: 100, baseline; batched: 150, 1.50 of per-page");
        assert_eq!(figure.rows[2][..3], ["batched", "1", "150"]);
        let alone = of(&[rate("lazy", 100.0)]).expect("nothing was published");
        assert_eq!(alone.description, "lazy: 100");
    }

    #[test]
    fn other_figures_have_the_speed_beside_a_papers_and_of_a_sweep() {
        let published = [("elapsed", comparison(1.0, 0.5, None, 1.0))].into_iter().collect();
        assert!(of(&[Report { published, ..report("batched") }]).is_none());
        let swept = [1, 2].map(|threads| Report { threads, ..report("batched") });
        assert!(of(&swept).is_none());
    }

    proptest! {
        #[test]
        fn every_bar_lies_inside_the_figure(values in prop::collection::vec(
            prop_oneof![Just(0.0), Just(f64::NAN), 0.0..1e12], 1..5,
        )) {
            let reports: Vec<Report> =
                values.iter().zip(1..).map(|(&value, seed)| Report { seed, ..rate("lazy", value) }).collect();
            let content = of(&reports).expect("nothing was published").content.into_string();
            prop_assert!(!content.contains("NaN") && !content.contains("inf"), "{content}");
            for (x, width) in rectangles(&content) {
                prop_assert!(x >= START && width >= 0.0 && x + width <= RIGHT + 0.2, "{x} {width}");
            }
        }
    }
}
