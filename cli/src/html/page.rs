//! The layout of the page: the command line, the contents, the summary of all results, a section for each experiment and
//! machine, and the machines.

use std::collections::BTreeSet;

use ceasefire_experiments::{Basis, Comparison, Interval, Repeats, Report};
use ceasefire_machine::config::Machine;
use maud::{html, Markup, PreEscaped, DOCTYPE};

use super::contents::{contents, Anchor, Anchors};
use super::figure::{Figure, STYLE};
use super::group::{groups, Group};
use super::{bars, capital, lines, machines, ratios, sensitivity, speed};
use crate::number::{self, compact, range, ratio};
use crate::results::{conditions, costs, listed, of_own_machine, seeds, Case, Own, Row};
use crate::results::{Sensitivity, Sure};

/// The names of the summary's columns. The table has a row above them with the names `published` and `ours`.
const COLUMNS: [&str; 12] = [
    "experiment",
    "machine",
    "figure",
    "before",
    "after",
    "ratio",
    "before",
    "after",
    "ratio",
    "range",
    "difference",
    "basis",
];

/// The page of all results. `command` is the command line that produced them, and `rows` is their summary.
pub(crate) fn of(command: &str, cases: &[Case], rows: &[Row], sure: &Sure) -> String {
    let groups = groups(cases);
    let reports: Vec<&Report> = cases.iter().flat_map(|case| case.runs.all().iter().copied()).collect();
    let mut machines: Vec<&Machine> = Vec::new();
    for group in &groups {
        if !machines.contains(&group.machine) {
            machines.push(group.machine);
        }
    }
    let mut anchors = Anchors::default();
    let all = anchors.of("All results");
    let sections: Vec<Anchor> = groups
        .iter()
        .map(|group| anchors.of(&format!("{} on {}", group.experiment.name, group.reports[0].machine)))
        .collect();
    let last = anchors.of("Machines");
    let of_machines: Vec<Anchor> =
        machines.iter().map(|machine| anchors.of(&format!("Machine {}", machine.name))).collect();
    let header = html! {
        h1 {
            "The cost of TLB flushes, "
            @if rows.iter().any(|row| row.published.is_some()) { "published and " } "simulated"
        }
        p {
            "Made by ceasefire " (env!("CARGO_PKG_VERSION"))
            @if let Some(case) = cases.first() { ", with " (seeds(&case.runs)) } ":"
        }
        pre { code { (command) } }
        (verdict(&reports))
        (contents(std::iter::once(&all).chain(&sections).chain([&last]).chain(&of_machines)))
    };
    let main = html! {
        (summary(rows, &reports, &all))
        @for (group, anchor) in groups.iter().zip(&sections) { (section(group, anchor, sure.sensitivity.as_ref())) }
        section {
            h2 id=(last.id) { (last.link(&html! { "Machines" })) }
            @for (machine, anchor) in machines.iter().zip(&of_machines) { (machines::described(machine, anchor)) }
        }
    };
    document("Ceasefire: results", &header, &main)
}

/// A page of one file.
pub(super) fn document(title: &str, header: &Markup, main: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content=(concat!("ceasefire ", env!("CARGO_PKG_VERSION")));
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(include_str!("style.css"))) }
            }
            body { header { (header) } main { (main) } }
        }
    };
    page.into_string()
}

/// A statement on whether rules were broken or loads were wrong.
fn verdict(reports: &[&Report]) -> Markup {
    let sum = |count: fn(&Report) -> u64| reports.iter().copied().map(count).sum::<u64>();
    let (broken, wrong, compared) = (
        sum(|report| report.violations),
        sum(|report| report.loads_wrong.unwrap_or(0)),
        sum(|report| report.loads_compared.unwrap_or(0)),
    );
    let unwatched = reports.iter().filter(|report| !report.oracle).count();
    html! {
        @if broken + wrong > 0 {
            p.alarm role="alert" {
                b { "Errors: " }
                "coherence rules were broken " (broken) " times, and " (wrong) " loads returned wrong values."
            }
        } @else if unwatched < reports.len() {
            p { "The oracle checked "
                @if unwatched == 0 { "all" } @else { (reports.len() - unwatched) " of " (reports.len()) }
                " runs: no coherence rule was broken"
                @if compared > 0 { ", and none of the " (compact(compared as f64)) " compared loads was wrong" } "." }
        } @else {
            p { "The oracle was off: broken rules were not detected." }
        }
    }
}

fn summary(rows: &[Row], reports: &[&Report], anchor: &Anchor) -> Markup {
    let (own, published): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| row.own.is_some());
    html! {
        section {
            h2 id=(anchor.id) { (anchor.link(&html! { "All results" })) }
            @if !published.is_empty() { (beside_papers(&published, reports)) }
            @for (row, own) in own.iter().filter_map(|row| Some((row, row.own.as_ref()?))) {
                (by_mechanism(row, own))
            }
        }
    }
}

/// The table of a case for which nothing was published: a row for each mechanism.
fn by_mechanism(row: &Row, own: &Own) -> Markup {
    let is_compared = own.mechanisms.len() > 1;
    let median = |value: Option<Interval>| value.map_or("-".into(), |value| compact(value.median));
    let compared = |value: Option<Interval>, is_baseline: bool| match value {
        Some(value) => {
            let range = range(value, |value| ratio(Some(value)));
            let range = if range.is_empty() { range } else { format!(" ({range})") };
            format!("{}{range}", ratio(Some(value.median)))
        }
        None if is_baseline => "baseline".into(),
        None => String::new(),
    };
    let has_interrupts = own.sends_differently();
    html! {
        h3 { (row.experiment) " on " (row.place()) }
        div.scroll {
            table {
                thead {
                    tr {
                        th { "mechanism" } th { (own.speed.name()) } @if is_compared { th { "ratio" } }
                        @if has_interrupts { th { "TLB interrupts per second" } @if is_compared { th { "their ratio" } } }
                    }
                }
                tbody {
                    @for one in &own.mechanisms {
                        tr {
                            th scope="row" { (one.name) }
                            td { (median(one.speed)) }
                            @if is_compared { td { (compared(one.speed_ratio, one.is_baseline)) } }
                            @if has_interrupts {
                                td { (median(one.interrupts)) }
                                @if is_compared { td { (compared(one.interrupts_ratio, one.is_baseline)) } }
                            }
                        }
                    }
                }
            }
        }
        @if row.wrong > 0 { p.note { "BROKEN" } }
    }
}

/// The table of the results beside published figures.
fn beside_papers(rows: &[&Row], reports: &[&Report]) -> Markup {
    let small = reports.iter().any(|report| report.scale < 1.0 && !report.published.is_empty());
    html! {
            table.summary role="table" {
                thead role="rowgroup" {
                    tr role="row" {
                        th colspan="3" {} th colspan="3" { "published" } th colspan="4" { "ours" } th colspan="2" {}
                    }
                    tr role="row" { @for column in COLUMNS { th role="columnheader" { (column) } } }
                }
                tbody role="rowgroup" {
                    @for row in rows {
                        tr role="row" {
                            @for (number, cell) in cells(row).into_iter().enumerate() {
                                @if number == 0 {
                                    th scope="row" role="rowheader" { (cell) }
                                } @else {
                                    td role="cell" data-label=(label(number)) { (cell) }
                                }
                            }
                        }
                    }
                }
            }
            div.note {
                p { "'Before' is the paper's baseline, 'after' its mechanism. The ratios are comparable"
                    @if small { "; times and counts are not, since ours shrink with the scale and the published are for scale 1" }
                    "." }
                p {
                    @for basis in Basis::ALL { b { (basis.word()) } ": " (basis.meaning()) " " }
                    @if rows.iter().any(|row| row.other.is_some()) {
                        " " b { "A mechanism's name" } ": our figure after is that mechanism's, for which the paper has none."
                    }
                }
            }
    }
}

/// The row's cells.
fn cells(row: &Row) -> [String; 12] {
    let metric = match row.published {
        Some(paper) if paper.is_relative() => format!("{} (ratio)", row.metric.0),
        Some(paper) if !["1/s", "count"].contains(&paper.unit) => format!("{}, {}", row.metric.0, paper.unit),
        _ => row.metric.0.clone(),
    };
    let [before, after, our_before, our_after] = row.figures();
    [
        row.experiment.into(),
        row.place(),
        metric,
        before,
        after,
        ratio(row.published.map(|paper| paper.ratio)),
        our_before,
        our_after,
        ratio(row.median()),
        row.range(),
        row.difference(),
        row.verdict(),
    ]
}

/// The label of a cell on screens that hide the column's head.
fn label(column: usize) -> String {
    let of = match column {
        3..=5 => "published, ",
        6..=9 => "ours, ",
        _ => "",
    };
    format!("{of}{}", COLUMNS[column])
}

fn section(group: &Group, anchor: &Anchor, influences: Option<&Sensitivity>) -> Markup {
    let first = group.reports[0];
    let end = group.runs[group.runs.len() - 1].first().case();
    let of_end: Vec<&Repeats> =
        group.runs.iter().copied().filter(|runs| runs.first().case() == end).collect();
    let threads = group.threads();
    let threads = match &threads[..] {
        [one] => number::threads(*one),
        [least, .., most] => format!("{least} to {most} threads"),
        [] => String::new(),
    };
    let drains: BTreeSet<&str> = group.runs.iter().filter_map(|runs| runs.first().lru_drain).collect();
    let drains = match &Vec::from_iter(drains).join(" or ")[..] {
        "" => String::new(),
        drains => format!("; {}", listed(drains)),
    };
    let scale = match (first.scale < 1.0, first.published.is_empty()) {
        (true, true) => format!("; scale {}", number::scale(first.scale)),
        (true, false) => format!("; scale {} of the paper's size", number::scale(first.scale)),
        (false, true) => String::new(),
        (false, false) => "; the paper's own size".into(),
    };
    let figures =
        [lines::throughput(group), speed::figure(group), ratios::figure(group), lines::over_time(group)];
    let figures = figures.into_iter().flatten().chain([bars::figure(group)]);
    let figures: Vec<Figure> = figures.chain(sensitivity::figure(group, influences)).collect();
    html! {
        section.result {
            h2 id=(anchor.id) { (anchor.link(&html! { (first.experiment) " " span { "on " (first.machine) } })) }
            p {
                (capital(group.experiment.description)) "."
                @if group.experiment.paper != "none" { " " span.quiet { (group.experiment.paper) "." } }
            }
            @for cost in costs(&of_end) { p { (cost) "." } }
            p.facts { (first.cpus) " CPUs, " (threads) (drains) (scale) "; " (seeds(group.runs[0])) "; "
                (conditions(group.runs[0])) }
            div.figures {
                @for figure in &figures { (figure.shown(&anchor.id)) }
            }
            @if let Some(line) = of_own_machine(group.machine) {
                p.note { (line) }
            }
            @if first.published.values().any(Comparison::is_relative) {
                p.note { "If the published figure before is 1, the paper gives only the ratio." }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ceasefire_experiments::Influences;

    use super::super::testing::{comparison, plans, report};
    use super::*;
    use crate::results::{cases, rows};

    fn page(command: &str, reports: &[Report]) -> String {
        let plans = plans(reports);
        let cases = cases(&plans, reports);
        of(command, &cases, &rows(&cases), &Sure::default())
    }

    #[test]
    fn the_page_is_one_file_with_the_command_line_and_the_settings() {
        let text = page("ceasefire compare <migrate> --seed 1", &[report("per-page"), report("batched")]);
        for part in [
            "<html lang=\"en\">",
            "name=\"viewport\"",
            "compare &lt;migrate&gt; --seed 1",
            concat!("ceasefire ", env!("CARGO_PKG_VERSION")),
            "migrate <span>on 2-socket-intel",
            "<a href=\"#migrate-on-2-socket-intel\">migrate on 2-socket-intel</a>",
            "3 threads; scale 1/10000; seed 1; oracle off: broken rules are not detected",
            "parameters 0 were fitted to a published figure",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        for outside in ["http:", "https:", "src=", "<script", "@import", "url(\""] {
            assert!(!text.contains(outside), "{outside}");
        }
        // Links lead to sections of the page or hold their data.
        for link in text.split("href=\"").skip(1) {
            let link = link.split('"').next().unwrap_or_default();
            assert!(link.starts_with("data:") || text.contains(&format!(" id=\"{}\"", &link[1..])), "{link}");
        }
        // Each figure has a title and a description for screen readers.
        let count = |part: &str| text.matches(part).count();
        assert_eq!(count("role=\"img\""), 3);
        assert_eq!((count("<svg viewBox=\"0 0 360"), count("</title><desc>")), (3, 3));
    }

    #[test]
    fn a_page_without_published_figures_says_nothing_of_a_paper() {
        let slow = Report { operations_per_s: 100.0, interrupts_per_s: 1.0, ..report("lazy") };
        let fast = Report { operations_per_s: 150.0, interrupts_per_s: 9.0, ..report("per-page") };
        let text = page("", &[fast, slow]);
        let (main, _) = text.split_once("<h2 id=\"machines\"").expect("the machines");
        for word in ["published and", ">published<", "the paper", ">before<", ">difference<", ">basis<"] {
            assert!(!main.contains(word), "{word} in {main}");
        }
        for part in [
            "<h1>The cost of TLB flushes, simulated</h1>",
            "<th scope=\"row\">per-page</th><td>150</td><td>baseline</td><td>9</td><td>baseline</td>",
            "<th scope=\"row\">lazy</th><td>100</td><td>0.667</td><td>1</td><td>0.111</td>",
            "<p>lazy: 89% fewer interrupts than per-page, 33% slower",
            "<b>Speed.</b> Operations per second.",
        ] {
            assert!(main.contains(part), "{part} in {main}");
        }
        let published = [("elapsed", comparison(1.0, 0.5, Some(0.5), 1.0))].into_iter().collect();
        let text = page("", &[report("per-page"), Report { published, ..report("batched") }]);
        assert!(text.contains("published and simulated") && text.contains("'Before' is"), "{text}");
    }

    #[test]
    fn the_facts_say_when_new_pages_are_listed() {
        let of = |drain| Report { lru_drain: Some(drain), ..report("batched") };
        assert!(page("", &[of("eager")]).contains("3 threads; new pages listed eager; scale"));
        let text = page("", &[of("eager"), of("batched")]);
        assert!(text.contains("3 threads; new pages listed batched or eager; scale"), "{text}");
    }

    #[test]
    fn markup_in_names_and_sources_is_escaped() {
        let reports = [Report { machine: "<b>\"&'".into(), ..report("batched") }];
        let mut plans = plans(&reports);
        plans[0].machine.name = "</style><script>".into();
        plans[0].machine.description = "<i>".into();
        let cases = cases(&plans, &reports);
        let text = of("</pre><img>", &cases, &rows(&cases), &Sure::default());
        for markup in ["<b>\"", "<script", "<i>", "<img"] {
            assert!(!text.contains(markup), "{markup}");
        }
        assert!(text.contains("&lt;b&gt;&quot;&amp;"), "{text}");
    }

    #[test]
    fn broken_rules_are_reported_at_the_top() {
        let broken = Report { violations: 3, ..report("batched") };
        assert!(page("", &[broken]).contains("were broken 3 times"));
        let watched = Report { oracle: true, ..report("batched") };
        assert!(page("", &[watched]).contains("no coherence rule was broken"));
        assert!(page("", &[report("batched")]).contains("The oracle was off: broken rules"));
        let half = [Report { oracle: true, ..report("batched") }, Report { seed: 2, ..report("batched") }];
        assert!(page("", &half).contains("checked 1 of 2 runs"));
    }

    #[test]
    fn a_fitted_figure_is_never_shown_as_a_prediction() {
        let published = [("system", comparison(5804.93, 4111.76, Some(0.74), 4.0))].into_iter().collect();
        let machine = ceasefire_machine::config::builtin("4-node-48-cpu").expect("a listed name");
        let machine = machine.expect("a valid file");
        let influences = Influences::new(&machine, |_| true).expect("known figures");
        let reports = [Report {
            published,
            influences,
            experiment: "mmap-read",
            kernel: "4.2",
            machine: machine.name.clone(),
            built_in: Some("4-node-48-cpu"),
            ..report("batched")
        }];
        let mut plans = plans(&reports);
        plans[0].machine = machine;
        let cases = cases(&plans, &reports);
        let text = of("", &cases, &rows(&cases), &Sure::default());
        assert!(text.contains("class=\"fitted batched\" x="), "{text}");
        assert!(!text.contains("\">predicted") && text.contains("\">fitted, small</td>"), "{text}");
        assert!(text.contains("fitted to mmap-read 4-node-48-cpu system after"), "{text}");
        assert!(text.contains("tuned in sight of mmap-read 4-node-48-cpu<"), "{text}");
    }

    #[test]
    fn values_that_are_not_finite_are_not_printed() {
        let nothing = comparison(0.0, f64::NAN, Some(f64::INFINITY), f64::NAN);
        let published = [("elapsed", nothing), ("system", nothing)].into_iter().collect();
        let reports = [1, 2].map(|threads| Report {
            published: std::collections::BTreeMap::clone(&published),
            operations_per_s: f64::NAN,
            threads,
            ..report("lazy")
        });
        let text = page("", &reports);
        assert!(!text.contains("NaN") && !text.contains("inf<") && !text.contains(">inf"), "{text}");
    }
}
