//! The ratios of all published figures: after divided by before, the paper's and ours.
//!
//! A bar begins at 1, which means no change. It goes left for less and right for more, on a logarithmic scale, so a
//! half and a double are equally long. Our bar of the paper's mechanism says by its outline, and by a word beside its
//! number, whether parameters were fitted to it. The bars of other mechanisms are pale: the paper has no figures for
//! them, so they are neither predicted nor fitted.

use std::collections::BTreeSet;

use ceasefire_experiments::{Basis, Caveat, Comparison, Interval, Repeats};
use maud::{html, Markup};

use super::figure::{exact, head, Figure, Key};
use super::group::Group;
use super::hatching::{self, Place};
use super::plot::{at, whisker, Scale, WIDTH};
use crate::number::{self, compact, difference, range, threads};
use crate::results::{listed, metric_name};

/// The heights of a metric's name, of the row of a bar, and of the gap between two metrics.
const NAME: f64 = 19.0;
const ROW: f64 = 15.0;
const BAR: f64 = 9.0;
const GAP: f64 = 12.0;
/// The end of the mechanisms' names, the ends of the bars, and the start of their numbers.
const NAMES: f64 = 62.0;
const BARS: (f64, f64) = (70.0, 214.0);
const NUMBERS: f64 = 222.0;
/// The mark of a number that counts few events.
const FEW: &str = "†";

/// A published figure with ours.
struct Metric<'a> {
    name: String,
    paper: &'a Comparison,
    ours: Vec<Ours<'a>>,
}

/// Our figure under one mechanism.
struct Ours<'a> {
    runs: &'a Repeats<'a>,
    metric: &'static str,
    paper: &'a Comparison,
    ratio: Option<Interval>,
    /// The basis of the ratio. `None`: the paper has no figure for the mechanism, so there is nothing to predict.
    basis: Option<Basis>,
    caveats: Vec<Caveat>,
}

impl Ours<'_> {
    fn mechanism(&self) -> &'static str {
        self.runs.first().mechanism
    }

    /// The median of the ratio.
    fn median(&self) -> Option<f64> {
        self.ratio.map(|ratio| ratio.median)
    }

    /// The published figures, if they are this mechanism's.
    fn published(&self) -> Option<&Comparison> {
        self.runs.first().is_proposal().then_some(self.paper)
    }

    /// Our figures before and after, medians of all runs.
    fn figures(&self) -> [Option<f64>; 2] {
        let after = |report: &ceasefire_experiments::Report| {
            report.published.get(self.metric).map_or(f64::NAN, |paper| paper.measured)
        };
        let before = |report: &ceasefire_experiments::Report| {
            let paper = report.published.get(self.metric);
            let ours = paper.and_then(|paper| Some(paper.measured / paper.ours.filter(|ours| *ours > 0.0)?));
            ours.unwrap_or(f64::NAN)
        };
        [self.runs.interval(before), self.runs.interval(after)]
            .map(|interval| interval.map(|interval| interval.median))
    }

    /// The word for the basis, with the reasons to doubt the ratio.
    fn label(&self) -> String {
        let caveat = |caveat: &Caveat| match caveat {
            Caveat::Few(events) => format!("{} ({events} events)", caveat.word()),
            Caveat::Scale(_) => caveat.word().into(),
        };
        let basis = self.basis.map(|basis| basis.word().to_owned());
        basis.into_iter().chain(self.caveats.iter().map(caveat)).collect::<Vec<_>>().join(", ")
    }

    fn is_few(&self) -> bool {
        self.caveats.iter().any(|caveat| matches!(caveat, Caveat::Few(_)))
    }

    /// The ratio in full, for the description and the hover.
    fn said(&self) -> String {
        let range = self.ratio.map_or(String::new(), |ratio| range(ratio, |value| shown(Some(value))));
        let range = if range.is_empty() { range } else { format!(", range {range}") };
        let label = self.label();
        let label = if label.is_empty() { label } else { format!(" ({label})") };
        format!("{} {}{range}{label}", self.mechanism(), shown(self.median()))
    }
}

/// A ratio. A ratio of 0 is written without digits behind the point, since it is exact.
fn shown(value: Option<f64>) -> String {
    if value == Some(0.0) {
        "0".into()
    } else {
        number::ratio(value)
    }
}

/// The figure. `None` if nothing was published.
pub(super) fn figure(group: &Group) -> Option<Figure> {
    let metrics = metrics(group);
    if metrics.is_empty() {
        return None;
    }
    let ours = || metrics.iter().flat_map(|metric| &metric.ours);
    let ends = |ratio: Interval| [ratio.least, ratio.median, ratio.most];
    let values = metrics
        .iter()
        .map(|metric| metric.paper.ratio)
        .chain(ours().filter_map(|one| one.ratio).flat_map(ends));
    let scale = Scale::ratios(values, BARS.0, BARS.1);
    let said = metrics.iter().map(|metric| {
        let ours: Vec<String> = metric.ours.iter().map(Ours::said).collect();
        format!("{}: published {}, ours {}", metric.name, shown(Some(metric.paper.ratio)), ours.join(", "))
    });
    let has_zero =
        metrics.iter().any(|metric| metric.paper.ratio == 0.0) || ours().any(|one| one.median() == Some(0.0));
    let small = ours().flat_map(|one| &one.caveats).find_map(|caveat| match caveat {
        Caveat::Scale(least) => Some(*least),
        Caveat::Few(_) => None,
    });
    let (height, content) = drawn(&metrics, &scale);
    Some(Figure {
        file: "ratios",
        caption: html! {
            b { "Ratios." } " Each published figure after the change divided by that before it." (group.medians())
            @if has_zero { " A 0 has no place on a logarithmic axis and so no bar." }
            @if let Some(least) = small {
                " This run is small: ratios are known to be those of the paper's size only from scale "
                (number::scale(least)) " on."
            }
            @if ours().any(Ours::is_few) { " " (FEW) " Fewer than " (Caveat::FEW) " events were counted." }
        },
        legend: legend(&metrics),
        title: format!("After divided by before, {} on {}", group.experiment.name, group.machine.name),
        description: said.collect::<Vec<_>>().join("; "),
        height,
        content,
        numbers: numbers(&metrics),
        rows: rows(&metrics),
    })
}

/// The height of the drawing, and the drawing.
fn drawn(metrics: &[Metric], scale: &Scale) -> (f64, Markup) {
    let height = |metric: &Metric| NAME + ROW * (1 + metric.ours.len()) as f64;
    let mut tops = Vec::new();
    let mut bottom = 0.0;
    for metric in metrics {
        tops.push(bottom);
        bottom += height(metric) + GAP;
    }
    let one = scale.place(1.0);
    let content = html! {
        @for (metric, top) in metrics.iter().zip(&tops) {
            // The lines pass beside the bars alone, so that none crosses a name.
            @let lines = (top + NAME, top + height(metric));
            @for tick in scale.ticks() {
                @let x = scale.place(*tick);
                line.grid x1=(at(x)) x2=(at(x)) y1=(at(lines.0)) y2=(at(lines.1)) {}
            }
            line.axis x1=(at(one)) x2=(at(one)) y1=(at(lines.0)) y2=(at(lines.1)) {}
            text.name x="0" y=(at(top + 13.0)) { (metric.name) }
            (row(top + NAME, "published", html! {
                title { (metric.name) ", published: " (shown(Some(metric.paper.ratio))) }
                (bar(scale, top + NAME, Some(metric.paper.ratio), "published"))
                text x=(at(NUMBERS)) y=(at(top + NAME + 11.5)) { (shown(Some(metric.paper.ratio))) }
            }))
            @for (ours, number) in metric.ours.iter().zip(1u32..) {
                @let top = top + NAME + f64::from(number) * ROW;
                (row(top, ours.mechanism(), html! {
                    title { (metric.name) ", " (ours.said()) }
                    (bar(scale, top, ours.median(), &format!("{} {}", class(ours.basis), ours.mechanism())))
                    @if let Some(Interval { least, most, .. }) = ours.ratio.filter(|ratio| ratio.most > 0.0) { (whisker(scale, top + ROW / 2.0, least, most)) }
                    text x=(at(NUMBERS)) y=(at(top + 11.5)) {
                        tspan.number { (shown(ours.median())) }
                        @if ours.is_few() { (FEW) }
                        @match ours.basis { None | Some(Basis::Predicted) => {}, Some(basis) => { " " (basis.word()) } }
                    }
                }))
            }
        }
        @for tick in scale.ticks() {
            text x=(at(scale.place(*tick))) y=(at(bottom + 4.0)) text-anchor="middle" { (compact(*tick)) }
        }
        text.label x=(at(WIDTH / 2.0)) y=(at(bottom + 23.0)) text-anchor="middle" {
            "after divided by before, logarithmic; 1 is no change"
        }
    };
    (bottom + 30.0, content)
}

/// A row: the name of its bar, and its content.
fn row(top: f64, name: &str, content: Markup) -> Markup {
    html! {
        g {
            (content)
            text x=(at(NAMES)) y=(at(top + 11.5)) text-anchor="end" { (name) }
        }
    }
}

/// A bar. A ratio of 0 has no place on a logarithmic axis, so it has none: its number says it.
fn bar(scale: &Scale, top: f64, value: Option<f64>, class: &str) -> Markup {
    let one = scale.place(1.0);
    let Some(end) = value.filter(|value| value.is_normal() && *value > 0.0).map(|value| scale.place(value))
    else {
        return html! {};
    };
    let (x, width) = (one.min(end), (one - end).abs().max(1.0));
    hatching::bar(class, Place { x, y: top + (ROW - BAR) / 2.0, width, height: BAR }, "")
}

/// The CSS class of a bar of ours.
fn class(basis: Option<Basis>) -> &'static str {
    match basis {
        None => "other",
        Some(Basis::Predicted | Basis::Follows | Basis::Altered) => "ours",
        Some(Basis::Tuned) => "tuned",
        Some(Basis::Partly | Basis::Fitted) => "fitted",
        Some(Basis::Unmodelled) => "unmodelled",
    }
}

/// The entries for the kinds of bars that the figure has.
fn legend(metrics: &[Metric]) -> Vec<Key> {
    let ours = || metrics.iter().flat_map(|metric| &metric.ours);
    let mut kinds = vec![("published", "", "published")];
    let names = [
        ("ours", "ours"),
        ("tuned", "ours, tuned"),
        ("fitted", "ours, fitted to it or half so: not a prediction"),
        ("unmodelled", "ours, not modelled"),
        ("other", "ours, of a mechanism without a published figure"),
    ];
    for (kind, name) in names {
        if let Some(one) = ours().find(|one| class(one.basis) == kind) {
            kinds.push((kind, one.mechanism(), name));
        }
    }
    let key = |(kind, mechanism, name): (&str, &str, &str)| {
        let class = format!("{kind} {mechanism}");
        Key { sample: hatching::sample(class.trim()), width: 18, name: name.into() }
    };
    kinds.into_iter().map(key).collect()
}

fn numbers(metrics: &[Metric]) -> Markup {
    html! {
        table {
            thead {
                tr { th {} th {} th colspan="3" { "published" } th colspan="4" { "ours" } th {} th {} }
                tr {
                    th { "figure" } th { "mechanism" } th { "before" } th { "after" } th { "ratio" }
                    th { "before" } th { "after" } th { "ratio" } th { "range" } th { "difference" } th { "basis" }
                }
            }
            tbody {
                @for metric in metrics {
                    @for ours in &metric.ours {
                        @let [before, after] = ours.figures();
                        @let paper = ours.published();
                        tr {
                            th scope="row" {
                                (metric.name)
                                @match metric.paper.unit { "1/s" | "count" => {}, unit => { ", " (unit) } }
                            }
                            td.word { (ours.mechanism()) }
                            td { (compact(metric.paper.before)) }
                            td { (paper.map_or("-".into(), |paper| compact(paper.after))) }
                            td { (shown(paper.map(|paper| paper.ratio))) }
                            td { (before.map_or("-".into(), compact)) }
                            td { (after.map_or("-".into(), compact)) }
                            td { (shown(ours.median())) }
                            td { (ours.ratio.map_or(String::new(), |ratio| range(ratio, |value| shown(Some(value))))) }
                            td { (paper.map_or("-".into(), |paper| difference(ours.median(), paper.ratio))) }
                            td.word { (ours.label()) }
                        }
                    }
                }
            }
        }
    }
}

/// The data.
fn rows(metrics: &[Metric]) -> Vec<Vec<String>> {
    let names = ["figure", "unit", "threads", "mechanism", "runs", "published_before", "published_after"];
    let mut rows = vec![head(&names)];
    rows[0].extend(head(&[
        "published_ratio",
        "before",
        "after",
        "ratio",
        "ratio_least",
        "ratio_most",
        "ours_is",
    ]));
    let number = |value: Option<f64>| value.map_or(String::new(), exact);
    for ours in metrics.iter().flat_map(|metric| &metric.ours) {
        let (first, paper) = (ours.runs.first(), ours.paper);
        let after = |of: fn(&Comparison) -> f64| number(ours.published().map(of));
        let mut row = vec![ours.metric.to_owned(), paper.unit.into(), first.threads.to_string()];
        row.extend([ours.mechanism().into(), ours.runs.all().len().to_string()]);
        row.extend([exact(paper.before), after(|paper| paper.after), after(|paper| paper.ratio)]);
        row.extend(ours.figures().map(number));
        let ratio = ours.ratio.map(|ratio| [ratio.median, ratio.least, ratio.most]);
        row.extend(ratio.map_or([const { String::new() }; 3], |ratio| ratio.map(exact)));
        row.push(ours.label());
        rows.push(row);
    }
    rows
}

/// Every published figure with ours, for each number of threads if these were swept. The mechanism that the paper
/// proposes comes first.
fn metrics<'a>(group: &Group<'a>) -> Vec<Metric<'a>> {
    let swept = group.threads().len() > 1;
    let compared = after(group);
    let drains = compared.iter().any(|(_, runs)| runs.first().lru_drain != compared[0].1.first().lru_drain);
    let mut seen = BTreeSet::new();
    let mut metrics = Vec::new();
    for &(metric, runs) in &compared {
        let report = runs.first();
        let is_of_case = |other: &Repeats| other.first().case() == report.case();
        if !seen.insert((metric, report.case())) {
            continue;
        }
        let mut name = metric_name(metric).0;
        if swept {
            name = format!("{name}, {}", threads(report.threads));
        }
        if let Some(drain) = report.lru_drain.filter(|_| drains) {
            name = format!("{name}, {}", listed(drain));
        }
        let baseline =
            group.runs.iter().copied().find(|other| other.first().is_baseline() && is_of_case(other));
        let same = compared.iter().filter(|(other, of)| *other == metric && is_of_case(of));
        let ours = same.map(|&(_, runs)| Ours {
            runs,
            metric,
            paper: &runs.first().published[metric],
            ratio: runs.published_ratio(metric),
            basis: Some(runs.basis(metric, baseline))
                .filter(|basis| runs.first().is_proposal() || *basis == Basis::Unmodelled),
            caveats: runs.caveats(metric, baseline),
        });
        metrics.push(Metric { name, paper: &report.published[metric], ours: ours.collect() });
    }
    metrics
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
    use ceasefire_experiments::Report;
    use proptest::prelude::*;

    use super::super::group::groups;
    use super::super::testing::{comparison, plans, report};
    use super::*;
    use crate::results::cases;

    fn of(reports: &[Report]) -> Option<Figure> {
        let plans = plans(reports);
        figure(&groups(&cases(&plans, reports))[0])
    }

    fn with(mechanism: &'static str, comparisons: Vec<(&'static str, Comparison)>) -> Report {
        Report { published: comparisons.into_iter().collect(), ..report(mechanism) }
    }

    /// The drawing and the numbers below it.
    fn drawn(comparisons: Vec<(&'static str, Comparison)>) -> Option<[String; 2]> {
        of(&[with("batched", comparisons)])
            .map(|figure| [figure.content.into_string(), figure.numbers.into_string()])
    }

    #[test]
    fn each_figure_has_a_published_bar_and_one_of_ours() {
        let drawn = drawn(vec![
            ("tlb_interrupts", comparison(1.0, 0.009, Some(0.0053), 7.0)),
            ("pages_migrated_per_second", comparison(1.0, 3.917, Some(4.47), 1234.0)),
        ]);
        let [content, numbers] = drawn.expect("two published figures");
        assert_eq!(content.matches("class=\"published\" x=").count(), 2);
        assert_eq!(content.matches("class=\"ours batched\" x=").count(), 2);
        for part in ["0.0053", "3.92", "4.47", "TLB interrupts per second"] {
            assert!(content.contains(part) && numbers.contains(part), "{part} in {content}{numbers}");
        }
        assert!(numbers.contains("-41.1%") && numbers.contains("predicted"), "{numbers}");
    }

    #[test]
    fn a_value_that_is_not_a_number_has_no_bar() {
        let drawn = drawn(vec![
            ("elapsed", comparison(0.0, 0.0, None, 0.0)),
            ("user", comparison(1.0, f64::INFINITY, Some(f64::NAN), f64::NAN)),
        ]);
        let text = drawn.expect("two published figures").concat();
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert!(of(&[with("batched", vec![])]).is_none());
    }

    #[test]
    fn a_ratio_of_zero_is_written_and_not_drawn() {
        let figure = of(&[with("batched", vec![("user", comparison(1.0, 0.5, Some(0.0), 0.0))])]);
        let figure = figure.expect("a published figure");
        let content = figure.content.into_string();
        assert!(content.contains("<tspan class=\"number\">0</tspan>"), "{content}");
        assert_eq!(content.matches("<rect").count(), 1, "the published bar alone");
        assert!(figure.caption.into_string().contains("A 0 has no place"));
    }

    #[test]
    fn another_mechanism_has_a_bar_without_a_label() {
        let published = |ours| vec![("user", comparison(1.0, 0.5, Some(ours), 9.0))];
        let figure = of(&[with("lazy", published(0.25)), with("batched", published(0.6))]);
        let figure = figure.expect("a published figure");
        let content = figure.content.into_string();
        let bars: Vec<&str> = ["class=\"ours batched\"", "class=\"other lazy\""].into();
        let places: Vec<usize> = bars.iter().filter_map(|bar| content.find(bar)).collect();
        assert!(places.len() == 2 && places[0] < places[1], "the paper's mechanism is first: {content}");
        let row = |mechanism| figure.rows.iter().find(|row| row[3] == mechanism).expect("a row");
        assert!(row("batched")[13].starts_with("predicted"), "{:?}", row("batched"));
        assert_eq!((&row("lazy")[6][..], &row("lazy")[7][..], &row("lazy")[10][..]), ("", "", "0.25"));
        assert!(!row("lazy")[13].contains("predicted"), "{:?}", row("lazy"));
    }

    #[test]
    fn figures_that_the_model_does_not_predict_and_rare_events_are_marked() {
        let figure = of(&[Report {
            interrupts: 7,
            ..with(
                "batched",
                vec![
                    ("time_range", comparison(1.0, 0.5, Some(0.25), 9.0)),
                    ("tlb_interrupts", comparison(1.0, 0.5, Some(0.25), 9.0)),
                ],
            )
        }]);
        let figure = figure.expect("two published figures");
        let (content, numbers) = (figure.content.into_string(), figure.numbers.into_string());
        assert!(
            content.contains("class=\"unmodelled batched\"") && content.contains("not modelled"),
            "{content}"
        );
        assert!(content.contains("</tspan>†"), "{content}");
        assert!(numbers.contains("few (7 events)") && numbers.contains("not modelled"), "{numbers}");
        assert!(figure.caption.into_string().contains("Fewer than 100 events"));
    }

    proptest! {
        #[test]
        fn bars_and_ranges_lie_inside_the_frame(ratios in prop::collection::vec(
            prop_oneof![any::<f64>(), 0.0..100.0, Just(0.0)], 1..5,
        )) {
            let reports: Vec<Report> = ratios.iter().zip(1..).map(|(&ours, seed)| Report {
                seed,
                ..with("batched", vec![("user", comparison(1.0, 0.5, Some(ours), 9.0))])
            }).collect();
            let content = of(&reports).expect("a published figure").content.into_string();
            prop_assert!(!content.contains("NaN") && !content.contains("inf"), "{content}");
            for path in content.split(" d=\"M").skip(1) {
                let path = path.split('"').next().unwrap_or_default();
                for x in path.split(['M', 'H']).filter_map(|part| part.split(' ').next()?.parse::<f64>().ok()) {
                    prop_assert!(x >= BARS.0 - 0.1 && x <= BARS.1 + 0.1, "{path}");
                }
            }
            for x in content.split("<rect ").skip(1) {
                let of = |name: &str| x.split(&format!(" {name}=\"")).nth(1).and_then(|x| x.split('"').next()?.parse::<f64>().ok());
                let (x, width) = (of("x").expect("x"), of("width").expect("width"));
                prop_assert!(x >= BARS.0 - 0.1 && x + width <= BARS.1 + 1.1, "{x} {width}");
            }
        }
    }
}
