//! The ratios of all published figures: after divided by before, the paper's and ours.
//!
//! A bar begins at 1, which means no change. It goes left for less and right for more, on a logarithmic scale, so a
//! half and a double are equally long. A bar of ours that parameters were fitted to, or chosen in sight of, is only an
//! outline, and is labelled so.

use std::collections::BTreeSet;

use ceasefire_experiments::{Basis, Comparison, Interval, Repeats};
use maud::{html, Markup};

use super::group::Group;
use super::plot::{at, drawing, Scale, WIDTH};
use crate::number::{compact, difference, range, ratio, threads};
use crate::results::metric_name;

/// The heights of a metric's name, of a bar, and of the gap between two metrics.
const NAME: f64 = 16.0;
const BAR: f64 = 11.0;
const GAP: f64 = 12.0;
/// The ends of the bars, and the start of their numbers.
const BARS: (f64, f64) = (16.0, 232.0);
const NUMBERS: f64 = 240.0;

/// One published figure beside ours.
struct Pair<'a> {
    name: String,
    paper: &'a Comparison,
    /// Our ratio.
    ours: Option<Interval>,
    /// The mechanism of our figure.
    mechanism: &'static str,
    basis: Basis,
}

impl Pair<'_> {
    /// The median of our ratio.
    fn median(&self) -> Option<f64> {
        self.ours.map(|ours| ours.median)
    }

    /// Our figures before and after, of the first run.
    fn figures(&self) -> [Option<f64>; 2] {
        let before = self.paper.ours.filter(|ours| *ours > 0.0).map(|ours| self.paper.measured / ours);
        [before, Some(self.paper.measured)]
    }
}

/// The figure and its table of numbers. `None` if nothing was published.
pub(super) fn figure(group: &Group) -> Option<Markup> {
    let pairs = pairs(group);
    if pairs.is_empty() {
        return None;
    }
    let scale = Scale::ratios(
        pairs.iter().flat_map(|pair| [Some(pair.paper.ratio), pair.median()]).flatten(),
        BARS.0,
        BARS.1,
    );
    let step = NAME + 2.0 * BAR + GAP;
    let bottom = step * pairs.len() as f64;
    let one = scale.place(1.0);
    let title = format!("After divided by before, {} on {}", group.experiment.name, group.machine.name);
    let said = pairs.iter().map(|pair| {
        let ours = ratio(pair.median());
        format!(
            "{}: published {}, ours {ours} ({})",
            pair.name,
            ratio(Some(pair.paper.ratio)),
            pair.basis.name()
        )
    });
    let description = said.collect::<Vec<_>>().join("; ");
    let content = html! {
        @for tick in scale.ticks() {
            @let x = scale.place(*tick);
            line.grid x1=(at(x)) x2=(at(x)) y1="2" y2=(at(bottom)) {}
            text x=(at(x)) y=(at(bottom + 14.0)) text-anchor="middle" { (compact(*tick)) }
        }
        line.axis x1=(at(one)) x2=(at(one)) y1="2" y2=(at(bottom)) {}
        @for (pair, number) in pairs.iter().zip(0u32..) {
            @let top = f64::from(number) * step;
            @let middle = top + NAME + BAR;
            text.name x=(at(BARS.0)) y=(at(top + 12.0)) { (pair.name) }
            (bar(&scale, top + NAME, Some(pair.paper.ratio), "published"))
            (bar(&scale, middle, pair.median(), class(pair.basis)))
            text x=(at(NUMBERS)) y=(at(middle - 1.5)) { (ratio(Some(pair.paper.ratio))) }
            text x=(at(NUMBERS)) y=(at(middle + BAR - 0.5)) {
                tspan.ours { (ratio(pair.median())) }
                @if pair.basis != Basis::Predicted { " " (pair.basis.short_name()) }
            }
        }
        text.label x=(at(WIDTH / 2.0)) y=(at(bottom + 30.0)) text-anchor="middle" {
            "after divided by before; 1 is no change"
        }
    };
    Some(html! {
        figure {
            figcaption { b { "Ratios." } " Each published figure after the change divided by that before it." }
            div.legend aria-hidden="true" {
                span { (swatch("published")) "published" }
                span { (swatch("ours")) "ours" }
                @if pairs.iter().any(|pair| matches!(pair.basis, Basis::Fitted | Basis::Partly)) {
                    span { (swatch("fitted")) "ours, fitted to it: not a prediction" }
                }
                @if pairs.iter().any(|pair| pair.basis == Basis::Tuned) {
                    span { (swatch("tuned")) "ours, tuned in sight of it" }
                }
            }
            (drawing(bottom + 36.0, &title, &description, content))
            (numbers(&pairs))
        }
    })
}

/// The CSS class of a bar of ours.
fn class(basis: Basis) -> &'static str {
    match basis {
        Basis::Predicted | Basis::Follows | Basis::Unmodelled | Basis::Altered => "ours",
        Basis::Tuned => "tuned",
        Basis::Partly | Basis::Fitted => "fitted",
    }
}

fn swatch(class: &str) -> Markup {
    html! { svg.swatch viewBox="0 0 18 10" { rect class=(class) x="1" y="1" width="16" height="8" {} } }
}

/// A bar. A ratio of 0 has no place on a logarithmic axis, so it has none: its number says it.
fn bar(scale: &Scale, top: f64, value: Option<f64>, class: &str) -> Markup {
    let one = scale.place(1.0);
    let Some(end) = value.filter(|value| value.is_normal() && *value > 0.0).map(|value| scale.place(value))
    else {
        return html! {};
    };
    html! {
        rect class=(class) x=(at(one.min(end))) width=(at((one - end).abs().max(1.0)))
            y=(at(top + 1.0)) height=(at(BAR - 2.0)) {}
    }
}

fn numbers(pairs: &[Pair]) -> Markup {
    html! {
        details {
            summary { "numbers" }
            div.scroll {
                table {
                    thead {
                        tr { th {} th {} th colspan="3" { "published" } th colspan="4" { "ours" } th {} th {} }
                        tr {
                            th { "figure" } th { "mechanism" } th { "before" } th { "after" } th { "ratio" }
                            th { "before" } th { "after" } th { "ratio" } th { "range" } th { "difference" } th { "ours is" }
                        }
                    }
                    tbody {
                        @for pair in pairs {
                            @let [before, after] = pair.figures();
                            tr {
                                th scope="row" {
                                    (pair.name)
                                    @match pair.paper.unit { "1/s" | "count" => {}, unit => { ", " (unit) } }
                                }
                                td.word { (pair.mechanism) }
                                td { (compact(pair.paper.before)) }
                                td { (compact(pair.paper.after)) }
                                td { (ratio(Some(pair.paper.ratio))) }
                                td { (before.map_or("-".into(), compact)) }
                                td { (after.map_or("-".into(), compact)) }
                                td { (ratio(pair.median())) }
                                td { (pair.ours.map_or(String::new(), |ours| range(ours, |value| ratio(Some(value))))) }
                                td { (difference(pair.median(), pair.paper.ratio)) }
                                td.word { (pair.basis.name()) }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Every published figure beside ours, for each number of threads if these were swept. Ours is of the proposed
/// mechanism, or of the first that was run if the proposed one was not.
fn pairs<'a>(group: &Group<'a>) -> Vec<Pair<'a>> {
    let swept = group.threads().len() > 1;
    let compared = after(group);
    let drains = compared.iter().any(|(_, runs)| runs.first().lru_drain != compared[0].1.first().lru_drain);
    let mut seen = BTreeSet::new();
    let mut pairs = Vec::new();
    for (metric, runs) in compared {
        let report = runs.first();
        if !seen.insert((metric, report.threads, report.lru_drain)) {
            continue;
        }
        let mut name = metric_name(metric).0;
        if swept {
            name = format!("{name}, {}", threads(report.threads));
        }
        if let Some(drain) = report.lru_drain.filter(|_| drains) {
            name = format!("{name}, lru drain {drain}");
        }
        if !report.is_proposal() {
            // The paper has no figures for that mechanism.
            name = format!("{name}, ours {}", report.mechanism);
        }
        let baseline = group.runs.iter().copied().find(|other| {
            let other = other.first();
            other.is_baseline() && (other.threads, other.lru_drain) == (report.threads, report.lru_drain)
        });
        let (mechanism, basis) = (report.mechanism, runs.basis(metric, baseline));
        let ours = runs.published_ratio(metric);
        pairs.push(Pair { name, paper: &report.published[metric], ours, mechanism, basis });
    }
    pairs
}

/// The published figures of all results except the baseline's.
fn after<'a>(group: &Group<'a>) -> Vec<(&'static str, &'a Repeats<'a>)> {
    let mut after: Vec<(&str, &Repeats)> = group
        .runs
        .iter()
        .filter(|runs| !runs.first().is_baseline())
        .flat_map(|&runs| runs.first().published.keys().map(move |metric| (*metric, runs)))
        .collect();
    after.sort_by_key(|(_, runs)| (runs.first().threads, !runs.first().is_proposal()));
    after
}

#[cfg(test)]
mod tests {
    use super::super::group::groups;
    use super::super::testing::{comparison, plans, report};
    use ceasefire_experiments::Report;

    use super::*;
    use crate::results::cases;

    fn drawn(comparisons: Vec<(&'static str, Comparison)>) -> Option<String> {
        let reports = [Report { published: comparisons.into_iter().collect(), ..report("batched") }];
        let plans = plans(&reports);
        figure(&groups(&cases(&plans, &reports))[0]).map(maud::PreEscaped::into_string)
    }

    #[test]
    fn each_figure_has_a_published_bar_and_one_of_ours() {
        let text = drawn(vec![
            ("tlb_interrupts", comparison(1.0, 0.009, Some(0.0053), 7.0)),
            ("pages_migrated_per_second", comparison(1.0, 3.917, Some(4.47), 1234.0)),
        ]);
        let text = text.expect("two published figures");
        assert_eq!(text.matches("class=\"published\" x=").count(), 3, "two bars and one in the legend");
        for part in ["0.0053", "3.92", "4.47", "-41.1%", "TLB interrupts per second", "predicted"] {
            assert!(text.contains(part), "{part} in {text}");
        }
    }

    #[test]
    fn a_value_that_is_not_a_number_has_no_bar() {
        let text = drawn(vec![
            ("elapsed", comparison(0.0, 0.0, None, 0.0)),
            ("user", comparison(1.0, f64::INFINITY, Some(f64::NAN), f64::NAN)),
        ]);
        let text = text.expect("two published figures");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert_eq!(drawn(vec![]), None);
    }
}
