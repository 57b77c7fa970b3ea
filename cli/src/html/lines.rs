//! Figures with lines: operations per second against the number of threads, and interrupts over time.
//!
//! Against threads, each mechanism has a colour and a mark. The paper's line is dashed with hollow marks; ours is
//! solid, with the range of each median as a thin upright line. Over time, for which nothing was published, each
//! mechanism has a colour and a dash pattern.

use std::fmt::Write as _;

use ceasefire_experiments::{Interval, Repeats, Report, Series, Side};
use maud::{html, Markup};

use super::capital;
use super::figure::{exact, head, Figure, Key};
use super::group::Group;
use super::plot::{at, horizontal, vertical, Scale, LEFT, RIGHT};
use crate::number::{compact, range, time_unit};

/// The upper and the lower end of the vertical axis.
const TOP: f64 = 26.0;
pub(super) const BOTTOM: f64 = 176.0;
const HEIGHT: f64 = 212.0;
/// The number of dash patterns and marks. Further variants repeat them.
const STYLES: usize = 6;

/// The style of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Dashed, with hollow marks.
    Published,
    /// Solid, with marks.
    Ours,
    /// With its variant's dash pattern, without marks.
    OverTime,
}

pub(super) struct Line {
    pub(super) name: String,
    pub(super) variant: usize,
    /// The class of its colour.
    pub(super) mechanism: &'static str,
    pub(super) kind: Kind,
    pub(super) points: Vec<Point>,
}

/// A point of a line, with the range of its value if there is one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    across: f64,
    up: f64,
    range: Option<Interval>,
}

impl Point {
    pub(super) fn new(across: f64, up: f64) -> Self {
        Self { across, up, range: None }
    }

    fn is_known(&self) -> bool {
        self.across.is_finite() && self.up.is_finite()
    }

    /// The values that the vertical axis has to hold.
    fn values(&self) -> [f64; 2] {
        [self.up, self.range.map_or(self.up, |range| range.most)]
    }

    /// The range in words, if there is one.
    fn range(&self) -> String {
        self.range.map_or(String::new(), |interval| range(interval, compact))
    }
}

impl Line {
    fn class(&self) -> String {
        let kind = match self.kind {
            Kind::Published => "published-line",
            Kind::Ours => "ours-line",
            Kind::OverTime => "dashes",
        };
        format!("line {kind} {} v{}", self.mechanism, self.variant % STYLES)
    }

    fn key(&self) -> Key {
        let sample = html! {
            g class=(self.class()) {
                path d="M1 5H33" {}
                @if self.kind != Kind::OverTime { (mark(self.variant, 17.0, 5.0, "")) }
            }
        };
        Key { sample, width: 34, name: self.name.clone() }
    }

    /// The line through its points. A point that is not a number breaks it.
    fn drawn(&self, x: &Scale, y: &Scale) -> Markup {
        let mut path = String::new();
        let mut command = 'M';
        for point in &self.points {
            if point.is_known() {
                // Writing to a string does not fail.
                let _ = write!(path, "{command}{} {}", at(x.place(point.across)), at(y.place(point.up)));
                command = 'L';
            } else {
                command = 'M';
            }
        }
        let known = || self.points.iter().filter(|point| point.is_known());
        html! {
            g class=(self.class()) {
                path d=(path) { title { (self.said()) } }
                @if self.kind != Kind::OverTime {
                    @for point in known() {
                        @let (across, up) = (x.place(point.across), y.place(point.up));
                        @if let Some(Interval { least, most, .. }) = point.range {
                            @let (low, high) = (y.place(least), y.place(most));
                            @if low - high >= 1.0 {
                                path.range d=(format!("M{} {}H{}M{} {}V{}M{} {}H{}",
                                    at(across - 2.5), at(low), at(across + 2.5), at(across), at(low), at(high),
                                    at(across - 2.5), at(high), at(across + 2.5))) {}
                            }
                        }
                        @let range = point.range();
                        @let range = if range.is_empty() { range } else { format!(", range {range}") };
                        (mark(self.variant, across, up, &format!("{}, at {}: {}{range}", self.name, compact(point.across), compact(point.up))))
                    }
                }
            }
        }
    }

    /// The least, the greatest and the last value.
    fn said(&self) -> String {
        let known = || self.points.iter().filter(|point| point.is_known());
        let (least, most) = known().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), point| {
            (least.min(point.up), most.max(point.up))
        });
        match known().next_back() {
            None => format!("{}: no values", self.name),
            Some(end) => {
                format!(
                    "{}: {} to {}, at the end {}",
                    self.name,
                    compact(least),
                    compact(most),
                    compact(end.up)
                )
            }
        }
    }
}

/// The mark of a variant: a circle, a square, a triangle, a diamond, an inverted triangle, a cross.
fn mark(variant: usize, x: f64, y: f64, said: &str) -> Markup {
    let path = match variant % STYLES {
        0 => "m-3.2 0a3.2 3.2 0 1 0 6.4 0a3.2 3.2 0 1 0-6.4 0z",
        1 => "m-3-3h6v6h-6z",
        2 => "m0-4l4 7h-8z",
        3 => "m0-4l4 4l-4 4l-4-4z",
        4 => "m0 4l4-7h-8z",
        _ => "m-3-3l6 6m0-6l-6 6",
    };
    html! { path.mark d=(format!("M{} {}{path}", at(x), at(y))) { @if !said.is_empty() { title { (said) } } } }
}

/// Throughput against threads, with the paper's if it published one. `None` if threads were not swept.
pub(super) fn throughput(group: &Group) -> Option<Figure> {
    let threads = group.threads();
    if threads.len() < 2 {
        return None;
    }
    let mut lines = Vec::new();
    let mut sides = Vec::new();
    let proposed = group.reports.iter().any(|report| report.is_proposal());
    for (number, name) in group.variants.iter().enumerate() {
        let of_it = group.numbered_runs().filter(|(variant, _)| *variant == number);
        let mut runs: Vec<&Repeats> = of_it.map(|(_, runs)| runs).collect();
        runs.sort_by_key(|runs| runs.first().threads);
        let reports: Vec<&Report> = runs.iter().map(|runs| runs.first()).collect();
        let ours = |runs: &&Repeats| {
            let range = runs.interval(|report| report.operations_per_s);
            let median = range.map_or(f64::NAN, |range| range.median);
            Point {
                range: range.filter(|range| !range.is_point()),
                ..Point::new(runs.first().threads as f64, median)
            }
        };
        let ours = runs.iter().map(ours).collect();
        // The paper has one line before its change and one after it. The second goes with the proposed mechanism, or
        // with the first that is not the baseline if the proposed one was not run.
        let is_before = reports.iter().any(|report| report.is_baseline());
        let side = if is_before { Side::Before } else { Side::After };
        let goes_with = |report: &Report| is_before || report.is_proposal() || !proposed;
        let paper: Vec<Point> = reports
            .iter()
            .filter(|report| goes_with(report))
            .filter_map(|report| Some(Point::new(report.threads as f64, rate(report, side)?)))
            .collect();
        if !paper.is_empty() && !sides.contains(&side) {
            sides.push(side);
            let its = if is_before { group.experiment.baseline() } else { group.experiment.proposal() };
            let name = format!("{}, published", name.replacen(reports[0].mechanism, its.name(), 1));
            let (mechanism, kind) = (its.name(), Kind::Published);
            lines.push(Line { name, variant: number, mechanism, kind, points: paper });
        }
        let (mechanism, kind) = (group.mechanisms[number], Kind::Ours);
        lines.push(Line { name: name.clone(), variant: number, mechanism, kind, points: ours });
    }
    let counts: Vec<f64> = threads.iter().map(|threads| *threads as f64).collect();
    let x = Scale::doubling(&counts, LEFT, RIGHT);
    let title =
        format!("Operations per second by threads, {} on {}", group.experiment.name, group.machine.name);
    let content = |y: &Scale| {
        html! { (vertical(y, "operations per second")) (horizontal(&x, BOTTOM, "threads, logarithmic", compact)) }
    };
    Some(Figure {
        file: "throughput",
        caption: html! { b { "Throughput." } " Operations per second against threads." (group.medians()) },
        numbers: by_threads(&threads, &lines),
        rows: threads_rows(&lines),
        ..figure(title, &lines, &x, content)
    })
}

/// The paper's operations per second of that side, from the metric that corresponds to ours.
fn rate(report: &Report, side: Side) -> Option<f64> {
    let same = |measured: f64| measured.to_bits() == report.operations_per_s.to_bits();
    report.published.values().find(|paper| paper.unit == "1/s" && same(paper.measured))?.figure(side)
}

fn by_threads(threads: &[usize], lines: &[Line]) -> Markup {
    let value = |line: &Line, threads: usize| {
        let found = line.points.iter().find(|point| point.across.total_cmp(&(threads as f64)).is_eq());
        found.map_or("-".into(), |point| match point.range() {
            range if range.is_empty() => compact(point.up),
            range => format!("{} ({range})", compact(point.up)),
        })
    };
    html! {
        table {
            thead { tr { th { "threads" } @for line in lines { th { (line.name) } } } }
            tbody {
                @for &threads in threads {
                    tr { th scope="row" { (threads) } @for line in lines { td { (value(line, threads)) } } }
                }
            }
        }
    }
}

/// The data of the throughput.
fn threads_rows(lines: &[Line]) -> Vec<Vec<String>> {
    let mut rows = vec![head(&["line", "threads", "operations_per_s", "least", "most"])];
    for line in lines {
        for point in &line.points {
            let (least, most) = point.range.map_or((point.up, point.up), |range| (range.least, range.most));
            let mut row = vec![line.name.clone()];
            row.extend([point.across, point.up, least, most].map(exact));
            rows.push(row);
        }
    }
    rows
}

/// The counts of a series.
type Count = fn(&Series) -> &[u64];

/// Interrupts over time, or broadcasts if there are no interrupts. `None` if there are neither.
pub(super) fn over_time(group: &Group) -> Option<Figure> {
    let reports = group.widest();
    let counted =
        |count: Count| reports.iter().any(|(_, report)| count(&report.series).iter().any(|&count| count > 0));
    let interrupts: Count = |series| &series.interrupts;
    let broadcasts: Count = |series| &series.broadcasts;
    let (what, count) = if counted(interrupts) {
        ("TLB interrupts", interrupts)
    } else if counted(broadcasts) {
        ("broadcasts", broadcasts)
    } else {
        return None;
    };
    let shown: Vec<Shown> = reports.iter().map(|(_, report)| Shown::of(&report.series, count)).collect();
    let longest = shown.iter().map(Shown::length).fold(0.0, f64::max);
    let (unit, times) = time_unit(longest);
    let lines: Vec<Line> = reports
        .iter()
        .zip(&shown)
        .map(|(&(variant, _), shown)| Line {
            name: group.variants[variant].clone(),
            variant,
            mechanism: group.mechanisms[variant],
            kind: Kind::OverTime,
            points: shown.rates().map(|(middle, rate)| Point::new(middle * times, rate)).collect(),
        })
        .collect();
    let x = Scale::until(longest * times, LEFT, RIGHT);
    let of = group.of_the_widest();
    let title =
        format!("{} over time, {} on {}{of}", capital(what), group.experiment.name, group.machine.name);
    let windowed = reports.iter().any(|(_, report)| report.series.measured_s.is_some());
    let since = if windowed { ", from the start of measuring" } else { "" };
    let label = format!("simulated time, {unit}{since}");
    let content = |y: &Scale| {
        html! { (vertical(y, &format!("{what} per second"))) (horizontal(&x, BOTTOM, &label, compact)) }
    };
    let numbers = html! {
        table {
            thead {
                tr {
                    th { "mechanism" } th { "mean, 1/s" } th { "least, 1/s" } th { "most, 1/s" }
                    th { "from, " (unit) } th { "to, " (unit) } th { "in steps of, " (unit) }
                }
            }
            tbody {
                @for (line, shown) in lines.iter().zip(&shown) {
                    @let rates = || line.points.iter().map(|point| point.up);
                    tr {
                        th scope="row" { (line.name) }
                        td { (compact(rates().sum::<f64>() / line.points.len() as f64)) }
                        td { (compact(rates().fold(f64::INFINITY, f64::min))) }
                        td { (compact(rates().fold(f64::NEG_INFINITY, f64::max))) }
                        td { (compact(shown.from_s * times)) }
                        td { (compact((shown.from_s + shown.length()) * times)) }
                        td { (compact(shown.step_s * times)) }
                    }
                }
            }
        }
    };
    let mut rows = vec![head(&["line", "time_s", "step_s", "per_s"])];
    for (line, shown) in lines.iter().zip(&shown) {
        rows.extend(
            shown.rates().map(|(middle, rate)| {
                vec![line.name.clone(), exact(middle), exact(shown.step_s), exact(rate)]
            }),
        );
    }
    Some(Figure {
        file: "over-time",
        caption: html! {
            b { "Over time." } " " (capital(what)) " per second of simulated time" (of) "." (group.first_of_several())
        },
        numbers,
        rows,
        ..figure(title, &lines, &x, content)
    })
}

/// The steps of a series that are shown: those within the measured time.
struct Shown<'a> {
    counts: &'a [u64],
    step_s: f64,
    /// The start of the first step.
    from_s: f64,
}

impl<'a> Shown<'a> {
    fn of(series: &'a Series, count: Count) -> Self {
        let (counts, step_s) = (count(series), series.step_s);
        let (from, to) = series.measured_s.unwrap_or((0.0, f64::INFINITY));
        let first = ((from / step_s).ceil() as usize).min(counts.len());
        let end = ((to / step_s) as usize).clamp(first, counts.len());
        // A short measurement may lie within one step. That step is then shown.
        let (first, end) = if first == end && end > 0 { (end - 1, end) } else { (first, end) };
        Self { counts: &counts[first..end], step_s, from_s: first as f64 * step_s }
    }

    /// The length of all steps together.
    fn length(&self) -> f64 {
        self.counts.len() as f64 * self.step_s
    }

    /// For each step, its middle relative to the start of the first, and its count per second.
    fn rates(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        let step = self.step_s;
        self.counts
            .iter()
            .zip(0u32..)
            .map(move |(&count, number)| ((f64::from(number) + 0.5) * step, count as f64 / step))
    }
}

/// A figure with the lines over the frame that `frame` draws for the vertical scale.
pub(super) fn figure(title: String, lines: &[Line], x: &Scale, frame: impl Fn(&Scale) -> Markup) -> Figure {
    let values = lines.iter().flat_map(|line| line.points.iter().flat_map(Point::values));
    let y = Scale::linear(values, BOTTOM, TOP);
    Figure {
        file: "lines",
        caption: html! {},
        legend: lines.iter().map(Line::key).collect(),
        title,
        description: lines.iter().map(Line::said).collect::<Vec<_>>().join("; "),
        height: HEIGHT,
        content: html! { (frame(&y)) @for line in lines { (line.drawn(x, &y)) } },
        numbers: html! {},
        rows: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::group::groups;
    use super::super::testing::{comparison, plans, report};
    use super::*;
    use crate::results::cases;

    fn swept(threads: usize, mechanism: &'static str, rate: f64, paper: Option<(f64, f64)>) -> Report {
        let published =
            paper.map(|(before, after)| ("loops_per_second", comparison(before, after, None, rate)));
        let published = published.into_iter().collect();
        Report { threads, operations_per_s: rate, published, ..report(mechanism) }
    }

    /// The figure without its files.
    fn draw(reports: &[Report], figure: fn(&Group) -> Option<Figure>) -> Option<String> {
        let shown = figure(&groups(&cases(&plans(reports), reports))[0])?.shown("a").into_string();
        shown.split_once("<p class=\"downloads\">").map(|(figure, _)| figure.to_owned())
    }

    #[test]
    fn a_sweep_has_two_published_lines_and_one_of_ours_for_each_mechanism() {
        let mut reports = Vec::new();
        for (threads, before, after) in [(1, 315e3, 304e3), (8, 652e3, 1267e3), (72, 609e3, 993e3)] {
            for (mechanism, rate) in [("per-page", 5e5), ("batched", 9e5), ("lazy", 9.5e5)] {
                reports.push(swept(threads, mechanism, rate, Some((before, after))));
            }
        }
        let text = draw(&reports, throughput).expect("a sweep");
        let lines = |class: &str| text.matches(&format!("<g class=\"line {class} ")).count();
        // Each line is in the legend too.
        assert_eq!((lines("published-line"), lines("ours-line")), (4, 6), "{text}");
        for part in
            ["per-page, published", "batched, published", "1.267M", "315k", "<th scope=\"row\">72</th>"]
        {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("lazy, published"));
        assert_eq!(draw(&reports[..3], throughput), None, "one number of threads is no sweep");
    }

    #[test]
    fn a_value_that_is_not_a_number_breaks_a_line_and_is_not_printed() {
        let rates = [1e6, f64::NAN, 0.0, f64::INFINITY];
        let reports: Vec<Report> =
            rates.iter().zip(1..).map(|(rate, threads)| swept(threads, "batched", *rate, None)).collect();
        let text = draw(&reports, throughput).expect("a sweep");
        assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
        assert_eq!(text.matches("class=\"mark\"").count(), 2 + 1, "two numbers, and one in the legend");
    }

    #[test]
    fn ranges_over_seeds_are_drawn_inside_the_frame() {
        let rates = [(1, 1, 5e5), (1, 2, 7e5), (1, 3, 6e5), (2, 1, 8e5), (2, 2, 8e5), (2, 3, 8e5)];
        let reports: Vec<Report> = rates
            .into_iter()
            .map(|(threads, seed, rate)| Report { seed, ..swept(threads, "batched", rate, None) })
            .collect();
        let text = draw(&reports, throughput).expect("a sweep");
        let ranges: Vec<&str> = text.split("class=\"range\" d=\"").skip(1).collect();
        assert_eq!(ranges.len(), 1, "three equal rates have no range: {text}");
        let numbers = ranges[0].split('"').next().unwrap_or_default().split(['M', 'H', 'V', ' ']);
        let numbers: Vec<f64> = numbers.filter_map(|number| number.parse().ok()).collect();
        assert_eq!(numbers.len(), 9);
        let (across, up) = ([0, 2, 3, 6, 8], [1, 4, 5, 7]);
        assert!(across.iter().all(|&at| (LEFT - 2.5..=RIGHT + 2.5).contains(&numbers[at])), "{numbers:?}");
        assert!(up.iter().all(|&at| (TOP..=BOTTOM).contains(&numbers[at])), "{numbers:?}");
        assert!(text.contains("Ours: median of 3 runs") && text.contains("600k, range 500k-700k"), "{text}");
    }

    #[test]
    fn an_empty_series_has_no_figure_and_broadcasts_replace_missing_interrupts() {
        let with = |interrupts: Vec<u64>, broadcasts: Vec<u64>| {
            let series = Series { step_s: 1e-3, interrupts, broadcasts, measured_s: None };
            draw(&[Report { series, ..report("batched") }], over_time)
        };
        assert_eq!(with(vec![], vec![]), None);
        assert_eq!(with(vec![0, 0], vec![0, 0]), None);
        assert!(with(vec![0, 0], vec![7, 0]).is_some_and(|text| text.contains("Broadcasts per second")));
        let text = with(vec![5], vec![7]).expect("a figure of one point");
        assert!(text.contains("TLB interrupts per second") && text.contains("5000"), "{text}");
        assert!(!text.contains("NaN"), "{text}");
    }

    #[test]
    fn only_the_measured_time_is_shown() {
        let shown = |measured_s| {
            let series =
                Series { step_s: 1.0, interrupts: (0..10).collect(), broadcasts: vec![0; 10], measured_s };
            let shown = Shown::of(&series, |series| &series.interrupts);
            (shown.from_s, shown.counts.to_vec())
        };
        assert_eq!(shown(None), (0.0, (0..10).collect()));
        assert_eq!(shown(Some((2.5, 7.5))), (3.0, vec![3, 4, 5, 6]));
        assert_eq!(shown(Some((8.0, 30.0))), (8.0, vec![8, 9]));
        assert_eq!(shown(Some((20.0, 30.0))), (9.0, vec![9]));
    }

    proptest! {
        #[test]
        fn every_point_of_every_line_is_inside_the_frame(
            interrupts in prop::collection::vec(any::<u32>().prop_map(u64::from), 1..200),
            step_s in 1e-9..10.0,
        ) {
            let broadcasts = vec![0; interrupts.len()];
            let series = Series { step_s, interrupts, broadcasts, measured_s: None };
            let text = draw(&[Report { series, ..report("batched") }], over_time);
            for path in text.iter().flat_map(|text| text.split(" d=\"M").skip(2)) {
                let path = path.split('"').next().unwrap_or_default();
                for point in path.split('L') {
                    let (x, y) = point.split_once(' ').expect("two numbers");
                    let (x, y): (f64, f64) = (x.parse().expect("x"), y.parse().expect("y"));
                    prop_assert!((LEFT..=RIGHT).contains(&x) && (TOP..=BOTTOM).contains(&y), "{x} {y}");
                }
            }
        }
    }
}
