//! CPU time by use: one bar for each mechanism, with its parts laid end to end.
//!
//! The bars show the CPU time of all CPUs together, so a shorter bar is less work. They leave out idle time, which is
//! in the table of numbers. The costs of coherence come first: flushes, waiting for answers to them, and waiting for
//! the locks that flushes hold up.

use ceasefire_experiments::{Report, Time};
use maud::{html, Markup};

use super::group::Group;
use super::plot::{at, drawing, horizontal, Scale, RIGHT};
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

/// The figure and its table of numbers.
pub(super) fn figure(group: &Group) -> Markup {
    let reports = group.widest();
    let longest = reports.iter().map(|(_, report)| busy(&report.time)).fold(0.0, f64::max);
    let (unit, times) = time_unit(longest);
    let scale = Scale::linear(std::iter::once(longest * times), START, RIGHT);
    let step = NAME + BAR + GAP;
    let bottom = step * reports.len() as f64;
    let of = group.of_the_widest();
    let title = format!("Where the CPU time went, {} on {}{of}", group.experiment.name, group.machine.name);
    let said = reports.iter().map(|&(variant, report)| {
        let parts = PARTS
            .iter()
            .map(|(_, name, value)| format!("{name} {} {unit}", compact(value(&report.time) * times)));
        format!("{}: {}", group.variants[variant], parts.collect::<Vec<_>>().join(", "))
    });
    let description = said.collect::<Vec<_>>().join("; ");
    let content = html! {
        @for (&(variant, report), number) in reports.iter().zip(0u32..) {
            @let top = f64::from(number) * step;
            text.name x=(at(START)) y=(at(top + 12.0)) {
                (group.variants[variant])
                tspan.quiet { "  " (compact(busy(&report.time) * times)) " " (unit) }
            }
            @for (class, from, to) in laid(&report.time) {
                rect class=(class) x=(at(scale.place(from * times)))
                    width=(at(scale.place(to * times) - scale.place(from * times)))
                    y=(at(top + NAME)) height=(at(BAR)) {}
            }
        }
        (horizontal(&scale, bottom, &format!("CPU time, {unit}"), compact))
    };
    html! {
        figure {
            figcaption { b { "Where the time went." } " CPU time of all CPUs together" (of) ", idle time left out." }
            div.legend aria-hidden="true" {
                @for (class, name, _) in PARTS {
                    span { svg.swatch viewBox="0 0 18 10" { rect class=(class) x="1" y="1" width="16" height="8" {} } (name) }
                }
            }
            (drawing(bottom + 38.0, &title, &description, content))
            details { summary { "numbers" } div.scroll { (numbers(group)) } }
        }
    }
}

/// The parts that are not empty, each with its CSS class, its start and its end.
fn laid(time: &Time) -> Vec<(&'static str, f64, f64)> {
    let mut end = 0.0;
    let mut laid = Vec::new();
    for (class, _, value) in PARTS {
        let value = value(time);
        if value.is_finite() && value > 0.0 {
            laid.push((class, end, end + value));
            end += value;
        }
    }
    laid
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
    use super::super::testing::{plans, report};
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
            laid,
            [("flushes", 0.0, 0.5), ("answers", 0.5, 0.75), ("kernel", 0.75, 2.75), ("program", 2.75, 7.75)]
        );
    }

    proptest! {
        #[test]
        fn every_bar_lies_inside_the_figure(parts in prop::array::uniform8(prop_oneof![Just(0.0), Just(f64::NAN), 0.0..1e9])) {
            let reports = [Report { time: time(parts), ..report("batched") }];
            let text = figure(&groups(&cases(&plans(&reports), &reports))[0]).into_string();
            prop_assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
            for rect in text.split("<rect ").skip(1 + PARTS.len()) {
                let number = |name: &str| -> f64 {
                    let rest = rect.split(&format!(" {name}=\"")).nth(1).expect("the attribute");
                    rest.split('"').next().and_then(|text| text.parse().ok()).expect("a number")
                };
                let (x, width) = (number("x"), number("width"));
                prop_assert!(x >= START && width >= 0.0 && x + width <= RIGHT + 0.2, "{x} {width}");
            }
        }
    }
}
