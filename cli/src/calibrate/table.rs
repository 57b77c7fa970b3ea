//! The table of a calibration.

use ceasefire_linux::calibrate::{Computer, Distance, Failed, Figure, Notes, Part, Quantity, Quartiles};

use crate::number::compact;
use crate::tables::grid::{wrapped, Column, Grid};

/// The most pairs of CPUs that have a row each.
const FEW_PAIRS: usize = 6;

/// What a part measures, and how.
const fn meaning(part: Part) -> &'static str {
    match part {
        Part::Latency => "half the round trip of a cache line between two CPUs",
        Part::Switch => "kernel entries and switches of threads",
        Part::Fault => "pages of 4 KiB",
        Part::Flush => "the own TLB, from mprotect of 1 to 66 pages",
        Part::Shootdown => "one page, beside threads on other CPUs",
        Part::Tlb => "sizes, and what loads cost more that miss",
    }
}

/// All figures, part by part, and what could not be measured.
pub(super) fn text(computer: &Computer, notes: &Notes, width: usize) -> String {
    let mut grid = Grid::new(&[
        Column::words("", 0),
        Column::numbers("median", 0),
        Column::words("", 0),
        Column::numbers("quartiles", 0),
        Column::numbers("rounds", 1),
    ]);
    for part in Part::ALL {
        let mut figures: Vec<&Figure> =
            notes.figures.iter().filter(|figure| figure.quantity.part() == part).collect();
        figures.sort_by_key(|figure| figure.quantity);
        if figures.is_empty() {
            continue;
        }
        grid.heading(format!("{}: {} (--only {})", part.name(), meaning(part), part.name()));
        if part == Part::Latency && figures.len() > FEW_PAIRS {
            for (name, spread) in by_distance(computer, &figures) {
                grid.row(row(&name, spread, "ns"));
            }
            continue;
        }
        for figure in figures {
            let quantity = figure.quantity;
            grid.row(row(&quantity.name(), figure.spread, quantity.unit()));
        }
    }
    let mut text = if notes.figures.is_empty() { String::new() } else { grid.text(width) };
    for Failed { what, why } in &notes.missing {
        for line in wrapped(&format!("Not measured: {what}: {why}"), width) {
            text.push_str(&line);
            text.push('\n');
        }
    }
    text
}

fn row(name: &str, spread: Quartiles, unit: &str) -> [String; 5] {
    let Quartiles { median, low, high, rounds } = spread;
    let range = format!("{}-{}", compact(low), compact(high));
    [format!("  {name}"), compact(median), unit.to_owned(), range, rounds.to_string()]
}

/// The medians of the pairs, over all pairs of each distance.
fn by_distance(computer: &Computer, figures: &[&Figure]) -> Vec<(String, Quartiles)> {
    let medians = |distance: Distance| {
        let pairs = figures.iter().filter(|figure| match figure.quantity {
            Quantity::Latency { a, b } => computer.distance(a, b) == distance,
            _ => false,
        });
        Quartiles::of(pairs.map(|figure| figure.spread.median).collect())
    };
    let distances = [Distance::Core, Distance::Cache, Distance::Node, Distance::Nodes];
    let rows = distances.into_iter().filter_map(|distance| Some((distance, medians(distance)?)));
    rows.map(|(distance, spread)| (format!("{} pairs {}", spread.rounds, distance.meaning()), spread))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes(pairs: u32) -> Notes {
        let spread = |median| Quartiles { median, low: median, high: median + 1.0, rounds: 9 };
        let pair = |b| Figure { quantity: Quantity::Latency { a: 0, b }, spread: spread(f64::from(b)) };
        let mut notes = Notes::default();
        notes.figures.extend((1..=pairs).map(pair));
        for threads in [0, 1, 8191] {
            notes.figures.push(Figure { quantity: Quantity::Advise { threads }, spread: spread(123_456.7) });
            notes.figures.push(Figure { quantity: Quantity::Unmap { threads }, spread: spread(123_456.7) });
        }
        let why = "the program may use only one CPU, as it seems from what Linux says about all of them";
        notes.missing.push(Failed { what: "latency".into(), why: why.into() });
        notes
    }

    #[test]
    fn the_table_fits_and_says_what_is_missing() {
        let computer = Computer::read().expect("Linux says which CPUs may be used");
        let text = text(&computer, &notes(2), 80);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        for part in [
            "latency: ",
            "  CPU 0 to CPU 2 ",
            "--only shootdown",
            "123.5k-123.5k",
            "Not measured: latency: the",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(!text.contains("--only tlb"), "{text}");
    }

    #[test]
    fn many_pairs_have_a_row_for_each_distance() {
        let computer = Computer::read().expect("Linux says which CPUs may be used");
        let text = text(&computer, &notes(300), 80);
        assert!(text.contains(" pairs within a ") && !text.contains("CPU 0 to"), "{text}");
    }
}
