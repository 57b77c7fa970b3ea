//! The layout of the page: the command line, the contents, the summary of all results, a section for each experiment and
//! machine, and the machines.

use ceasefire_experiments::{Basis, Comparison, Report};
use ceasefire_machine::config::Machine;
use maud::{html, Markup, PreEscaped, DOCTYPE};

use super::contents::{contents, Anchor, Anchors};
use super::figure::{Figure, STYLE};
use super::group::{groups, Group};
use super::{bars, capital, lines, machines, ratios, sensitivity};
use crate::number::{self, compact, ratio};
use crate::results::{conditions, of_own_machine, seeds, Case, Row};
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
    "ours is",
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
        h1 { "The cost of TLB flushes, published and simulated" }
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
    let published = rows.iter().any(|row| row.published.is_some());
    let small = published && reports.iter().any(|report| report.scale < 1.0);
    html! {
        section {
            h2 id=(anchor.id) { (anchor.link(&html! { "All results" })) }
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
                @if published {
                    p {
                        @for basis in Basis::ALL { b { (basis.name()) } ": " (basis.meaning()) " " }
                        @if rows.iter().any(|row| row.other.is_some()) {
                            " " b { "A mechanism's name" } ": our figure after is that mechanism's, for which the paper has none."
                        }
                    }
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
        row.verdict(Basis::name),
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
    let threads = group.threads();
    let threads = match &threads[..] {
        [one] => number::threads(*one),
        [least, .., most] => format!("{least} to {most} threads"),
        [] => String::new(),
    };
    let scale = if first.scale < 1.0 {
        format!("scale {} of the paper's size", number::scale(first.scale))
    } else {
        "the paper's own size".into()
    };
    let figures =
        [lines::throughput(group), ratios::figure(group), lines::over_time(group)].into_iter().flatten();
    let figures = figures.chain([bars::figure(group)]);
    let figures: Vec<Figure> = figures.chain(sensitivity::figure(group, influences)).collect();
    html! {
        section.result {
            h2 id=(anchor.id) { (anchor.link(&html! { (first.experiment) " " span { "on " (first.machine) } })) }
            p { (capital(group.experiment.description)) ". " span.quiet { (group.experiment.paper) "." } }
            p.facts { (first.cpus) " CPUs, " (threads) "; " (scale) "; " (seeds(group.runs[0])) "; "
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
            "scale 1/10000 of the paper's size; seed 1; oracle off: broken rules are not detected",
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
        assert_eq!(count("role=\"img\""), 2);
        assert_eq!((count("<svg viewBox=\"0 0 360"), count("</title><desc>")), (2, 2));
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
