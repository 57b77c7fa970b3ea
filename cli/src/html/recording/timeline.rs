//! Interrupts per second over time, a line for each cause.

use std::cmp::Reverse;

use ceasefire_linux::replay::Replay;
use ceasefire_linux::shootdowns::Cause;
use maud::html;

use super::super::figure::{exact, head, Figure};
use super::super::lines::{figure as of_lines, Kind, Line, Point, BOTTOM};
use super::super::plot::{horizontal, vertical, Scale, LEFT, RIGHT};
use crate::number::{compact, time_unit};

/// The colours of the lines: no line of a recording is a mechanism's.
const COLOURS: [&str; 5] = ["batched", "lazy", "broadcast", "all", "per-page"];

/// The figure. The causes beyond the colours have no line. `None` if there was no interrupt.
pub(super) fn figure(replayed: &Replay) -> Option<Figure> {
    let timeline = &replayed.observed.timeline;
    let total = |counts: &[u64]| counts.iter().sum::<u64>();
    let mut causes: Vec<(Cause, &[u64])> =
        timeline.causes().filter(|(_, counts)| total(counts) > 0).collect();
    causes.sort_by_key(|(cause, counts)| (Reverse(total(counts)), *cause));
    causes.truncate(COLOURS.len());
    if causes.is_empty() {
        return None;
    }
    let step_s = timeline.step_s();
    let (unit, times) = time_unit(replayed.facts.seconds());
    let rates = |counts: &[u64]| -> Vec<(f64, f64)> {
        let rate = |(at, count): (u32, &u64)| ((f64::from(at) + 0.5) * step_s, *count as f64 / step_s);
        (0..).zip(counts).map(rate).collect()
    };
    let line = |(variant, (cause, counts)): (usize, &(Cause, &[u64]))| Line {
        name: cause.name().to_owned(),
        variant,
        mechanism: COLOURS[variant],
        kind: Kind::OverTime,
        points: rates(counts).into_iter().map(|(middle, rate)| Point::new(middle * times, rate)).collect(),
    };
    let lines: Vec<Line> = causes.iter().enumerate().map(line).collect();
    let x = Scale::until(replayed.facts.seconds() * times, LEFT, RIGHT);
    let label = format!("time, {unit}");
    let frame = |y: &Scale| {
        html! { (vertical(y, "requests per second")) (horizontal(&x, BOTTOM, &label, compact)) }
    };
    let mut rows = vec![head(&["cause", "time_s", "per_s"])];
    for (cause, counts) in &causes {
        let row = |(middle, rate)| vec![cause.name().to_owned(), exact(middle), exact(rate)];
        rows.extend(rates(counts).into_iter().map(row));
    }
    Some(Figure {
        file: "timeline",
        caption: html! { b { "Over time." } " Observed requests per second by cause." },
        numbers: html! {
            table {
                thead { tr { th { "cause" } th { "mean, 1/s" } th { "most, 1/s" } } }
                tbody { @for (cause, counts) in &causes { tr {
                    th scope="row" { (cause.name()) }
                    td { (compact(total(counts) as f64 / replayed.facts.seconds())) }
                    td { (compact(counts.iter().max().copied().unwrap_or(0) as f64 / step_s)) }
                } } }
            }
        },
        rows,
        ..of_lines("Interrupts per second by cause".to_owned(), &lines, &x, frame)
    })
}
