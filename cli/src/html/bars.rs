//! CPU time by use: one bar for each mechanism, with its parts laid end to end.
//!
//! The bars show the CPU time of all CPUs together, so a shorter bar is less work. They leave out idle time, which is
//! in the table of numbers. The costs of coherence come first: flushes, waiting for answers to them, and waiting for
//! the locks that flushes hold up.

use ceasefire_experiments::{Report, Time};
use maud::{html, Markup};

use super::figure::{exact, head, Figure, Key};
use super::group::Group;
use super::hatching::{self, Place};
use super::plot::{at, horizontal, Scale, RIGHT};
use crate::number::{compact, time_unit};

/// A part of the time: its CSS class, its name, and its value.
type Part = (&'static str, &'static str, fn(&Time) -> f64);

/// The parts, in their order along the bar.
const PARTS: [Part; 6] = [
    ("flushes", "flushes", |time| time.flushes_s),
    ("answers", "waiting for answers", |time| time.answers_s),
    ("locks", "taking locks, and waiting for them", |time| time.locks_s),
    ("faults", "faults", |time| time.faults_s),
    ("kernel", "other kernel work", |time| time.kernel_s),
    ("program", "programs, TLB misses included", |time| time.user_s + time.walks_s),
];

/// The heights of a mechanism's name, of its bar, and of the gap between two bars; and the start of the bars.
const NAME: f64 = 17.0;
const BAR: f64 = 18.0;
const GAP: f64 = 9.0;
const START: f64 = 6.0;

fn busy(time: &Time) -> f64 {
    PARTS.iter().map(|(.., value)| value(time)).filter(|value| value.is_finite()).sum()
}

/// The figure.
pub(super) fn figure(group: &Group) -> Figure {
    let reports = group.widest();
    let longest = reports.iter().map(|(_, report)| busy(&report.time)).fold(0.0, f64::max);
    let (unit, times) = time_unit(longest);
    let scale = Scale::linear(std::iter::once(longest * times), START, RIGHT);
    let step = NAME + BAR + GAP;
    let bottom = step * reports.len() as f64;
    let of = group.of_the_widest();
    let said = reports.iter().map(|&(variant, report)| {
        let parts = PARTS
            .iter()
            .map(|(_, name, value)| format!("{name} {} {unit}", compact(value(&report.time) * times)));
        format!("{}: {}", group.variants[variant], parts.collect::<Vec<_>>().join(", "))
    });
    let content = html! {
        @for (&(variant, report), number) in reports.iter().zip(0u32..) {
            @let top = f64::from(number) * step;
            text.name x=(at(START)) y=(at(top + 12.0)) {
                (group.variants[variant])
                tspan.quiet { "  " (compact(busy(&report.time) * times)) " " (unit) }
            }
            @for Laid { class, name, from, to } in laid(&report.time) {
                @let (start, end) = (scale.place(from * times), scale.place(to * times));
                @let place = Place { x: start, y: top + NAME, width: end - start, height: BAR };
                (hatching::bar(class, place, &format!(
                    "{}, {name}: {} {unit}, {}% of the bar",
                    group.variants[variant],
                    compact((to - from) * times),
                    compact(100.0 * (to - from) / busy(&report.time)),
                )))
            }
        }
        (horizontal(&scale, bottom, &format!("CPU time, {unit}"), compact))
    };
    let key = |&(class, name, _): &Part| {
        let sample = hatching::sample(class);
        Key { sample, width: 18, name: name.into() }
    };
    Figure {
        file: "cpu-time",
        caption: html! {
            b { "Where the time went." } " CPU time of all CPUs together" (of) ", idle time left out."
            (group.first_of_several())
        },
        legend: PARTS.iter().map(key).collect(),
        title: format!("Where the CPU time went, {} on {}{of}", group.experiment.name, group.machine.name),
        description: said.collect::<Vec<_>>().join("; "),
        height: bottom + 38.0,
        content,
        numbers: numbers(group),
        rows: rows(group),
    }
}

/// A part on its bar: its CSS class, its name, its start and its end.
#[derive(Debug, PartialEq)]
struct Laid {
    class: &'static str,
    name: &'static str,
    from: f64,
    to: f64,
}

/// The parts that are not empty.
fn laid(time: &Time) -> Vec<Laid> {
    let mut end = 0.0;
    let mut laid = Vec::new();
    for (class, name, value) in PARTS {
        let value = value(time);
        if value.is_finite() && value > 0.0 {
            laid.push(Laid { class, name, from: end, to: end + value });
            end += value;
        }
    }
    laid
}

/// The data of all results.
fn rows(group: &Group) -> Vec<Vec<String>> {
    let names = ["mechanism", "threads", "seed", "flushes_s", "answers_s", "locks_s", "faults_s", "kernel_s"];
    let mut rows = vec![head(&names)];
    rows[0].extend(head(&["programs_s", "of_it_tlb_misses_s", "idle_s"]));
    for (variant, report) in group.numbered() {
        let mut row =
            vec![group.variants[variant].clone(), report.threads.to_string(), report.seed.to_string()];
        row.extend(PARTS.iter().map(|(.., value)| exact(value(&report.time))));
        row.extend([report.time.walks_s, report.time.idle_s].map(exact));
        rows.push(row);
    }
    rows
}

/// The table of all results, including those for which the figure has no room, in percent.
fn numbers(group: &Group) -> Markup {
    let swept = group.threads().len() > 1;
    let share = |report: &Report, value: f64| {
        let whole = busy(&report.time) + report.time.idle_s;
        if whole > 0.0 && value.is_finite() {
            format!("{:.1}", 100.0 * value / whole)
        } else {
            "-".into()
        }
    };
    html! {
        table {
            thead {
                tr {
                    th { "% of CPU time" }
                    @if swept { th { "threads" } }
                    @for (_, name, _) in PARTS { th { (name) } }
                    th { "of it TLB misses" } th { "idle" } th { "CPU time, s" }
                }
            }
            tbody {
                @for (variant, report) in group.numbered() {
                    tr {
                        th scope="row" { (group.variants[variant]) }
                        @if swept { td { (report.threads) } }
                        @for (.., value) in PARTS { td { (share(report, value(&report.time))) } }
                        td { (share(report, report.time.walks_s)) }
                        td { (share(report, report.time.idle_s)) }
                        td { (compact(busy(&report.time) + report.time.idle_s)) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::group::groups;
    use super::super::testing::{plans, rectangles, report};
    use super::*;
    use crate::results::cases;

    fn time(parts: [f64; 8]) -> Time {
        let [user_s, walks_s, faults_s, flushes_s, answers_s, locks_s, kernel_s, idle_s] = parts;
        Time { user_s, walks_s, faults_s, flushes_s, answers_s, locks_s, kernel_s, idle_s }
    }

    #[test]
    fn parts_lie_end_to_end_in_order_without_empty_ones() {
        let laid = laid(&time([4.0, 1.0, 0.0, 0.5, 0.25, f64::NAN, 2.0, 9.0]));
        assert_eq!(
            laid.iter().map(|part| (part.class, part.from, part.to)).collect::<Vec<_>>(),
            [("flushes", 0.0, 0.5), ("answers", 0.5, 0.75), ("kernel", 0.75, 2.75), ("program", 2.75, 7.75)]
        );
    }

    proptest! {
        #[test]
        fn every_bar_lies_inside_the_figure(parts in prop::array::uniform8(prop_oneof![Just(0.0), Just(f64::NAN), 0.0..1e9])) {
            let reports = [Report { time: time(parts), ..report("batched") }];
            let figure = figure(&groups(&cases(&plans(&reports), &reports))[0]);
            let shown = figure.shown("a").into_string();
            prop_assert!(!shown.contains("NaN") && !shown.contains("inf"), "{shown}");
            for (x, width) in rectangles(&figure.content.into_string()) {
                prop_assert!(x >= START && width >= 0.0 && x + width <= RIGHT + 0.2, "{x} {width}");
            }
        }
    }
}
