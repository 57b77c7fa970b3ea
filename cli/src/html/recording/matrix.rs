//! The requests from each CPU to each: a square is the darker the more there were.

use ceasefire_linux::replay::Replay;
use maud::html;

use super::super::figure::{head, Figure};
use super::super::plot::{at, LEFT, RIGHT};

/// The upper end of the squares.
const TOP: f64 = 26.0;
/// The longest side of a square.
const SIDE: f64 = 40.0;
/// The room for the number of a CPU.
const LABEL: f64 = 18.0;

/// The figure.
pub(super) fn figure(replayed: &Replay) -> Figure {
    let cpus: Vec<u32> = replayed.facts.cpus.iter().map(|(cpu, _)| *cpu).collect();
    let pairs = &replayed.observed.totals.pairs;
    let most = pairs.values().copied().max().unwrap_or(0).max(1);
    let side = ((RIGHT - LEFT) / cpus.len().max(1) as f64).min(SIDE);
    let every = (LABEL / side).ceil() as usize;
    let at_of = |cpu: u32| cpus.iter().position(|of| *of == cpu);
    let cell = |((sender, victim), count): (&(u32, u32), &u64)| {
        Some((at_of(*sender)?, at_of(*victim)?, *sender, *victim, *count))
    };
    let mut cells: Vec<_> = pairs.iter().filter_map(cell).collect();
    cells.sort_unstable();
    let bottom = TOP + side * cpus.len() as f64;
    let place = |at: usize| at as f64 * side;
    let content = html! {
        text.label x="0" y="12" { "sender, down; victim, across" }
        g.batched {
            @for (row, column, sender, victim, count) in &cells {
                rect.cell x=(at(LEFT + place(*column))) y=(at(TOP + place(*row))) width=(at(side)) height=(at(side))
                    fill-opacity=(format!("{:.3}", *count as f64 / most as f64)) {
                    title { "from CPU " (sender) " to CPU " (victim) ": " (count) }
                }
            }
        }
        path.axis fill="none" d=(format!("M{0} {1}H{2}V{3}H{0}Z", at(LEFT), at(TOP), at(LEFT + place(cpus.len())), at(bottom))) {}
        @for (number, cpu) in cpus.iter().enumerate().step_by(every.max(1)) {
            text x=(at(LEFT - 6.0)) y=(at(TOP + place(number) + side / 2.0 + 4.0)) text-anchor="end" { (cpu) }
            text x=(at(LEFT + place(number) + side / 2.0)) y=(at(bottom + 14.0)) text-anchor="middle" { (cpu) }
        }
    };
    let mut listed: Vec<(u64, u32, u32)> =
        pairs.iter().map(|((sender, victim), count)| (*count, *sender, *victim)).collect();
    listed.sort_by_key(|(count, sender, victim)| (std::cmp::Reverse(*count), *sender, *victim));
    let said =
        listed.iter().take(5).map(|(count, sender, victim)| format!("CPU {sender} to {victim}: {count}"));
    let description = said.collect::<Vec<_>>().join("; ");
    let mut rows = vec![head(&["sender", "victim", "requests"])];
    rows.extend(listed.iter().map(|(count, sender, victim)| {
        [*sender, *victim].map(|cpu| cpu.to_string()).into_iter().chain([count.to_string()]).collect()
    }));
    Figure {
        file: "matrix",
        caption: html! { b { "Senders and victims." } " Observed requests from each CPU to each; the darkest square has " (most) "." },
        legend: Vec::new(),
        title: "Requests from each CPU to each".to_owned(),
        description,
        height: bottom + 22.0,
        content,
        numbers: html! {
            table {
                thead { tr { th { "sender" } th { "victim" } th { "requests" } } }
                tbody { @for (count, sender, victim) in &listed { tr {
                    th scope="row" { (sender) } td { (victim) } td { (count) }
                } } }
            }
        },
        rows,
    }
}
