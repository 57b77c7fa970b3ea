//! The map of senders and victims: a row for each CPU that sends, a column for each that is interrupted.
//!
//! If there are more CPUs than room, as many neighbours as needed share a row and a column.

use std::collections::HashMap;

use crate::number::compact;
use crate::top::sample::Sample;

/// Shades from the greatest on: each with the least part of the greatest rate that has it.
const SHADES: [(f64, char); 4] = [(0.75, '█'), (0.5, '▓'), (0.25, '▒'), (0.0, '░')];

/// The width of a row's head, and of cells with numbers and with shades.
const HEAD: usize = 10;
const NUMBER: usize = 8;
const SHADE: usize = 2;

/// The lines of the map in so much room.
pub(super) fn lines(sample: &Sample, width: usize, height: usize) -> Vec<String> {
    let cpus: Vec<u32> = sample.per_cpu.iter().map(|cpu| cpu.cpu).collect();
    let room = |cell: usize| (width.saturating_sub(HEAD) / cell).min(height.saturating_sub(2)).max(1);
    let has_numbers = cpus.len() <= room(NUMBER);
    let cell = if has_numbers { NUMBER } else { SHADE };
    // A power of two: groups then begin where cores, caches and sockets do.
    let group = cpus.len().div_ceil(room(cell)).max(1).next_power_of_two();
    let groups: Vec<&[u32]> = cpus.chunks(group).collect();
    let group_of: HashMap<u32, usize> = groups
        .iter()
        .enumerate()
        .flat_map(|(number, cpus)| cpus.iter().map(move |cpu| (*cpu, number)))
        .collect();
    let mut rates: HashMap<(usize, usize), f64> = HashMap::new();
    for pair in &sample.pairs {
        if let (Some(sender), Some(victim)) = (group_of.get(&pair.sender), group_of.get(&pair.victim)) {
            *rates.entry((*sender, *victim)).or_default() += pair.requests_per_s;
        }
    }
    let greatest = rates.values().copied().fold(0.0, f64::max);
    let shade = |rate: f64| {
        let shade = SHADES.iter().find(|(part, _)| rate >= part * greatest);
        shade.map_or(' ', |(_, shade)| *shade)
    };
    let right = |text: &str| format!("{text:>NUMBER$}");
    let name = |cpus: &[u32]| match (cpus.first(), cpus.last()) {
        (Some(first), Some(last)) if first != last => format!("{first}-{last}"),
        (Some(first), _) => first.to_string(),
        _ => String::new(),
    };
    let legend = if has_numbers {
        "requests/s from CPU (row) to CPU (column)".to_owned()
    } else {
        let together = if group > 1 { format!(", {group} CPUs each") } else { String::new() };
        format!("from CPU (row) to CPU (column){together}; █ {}/s", compact(greatest))
    };
    let mut lines = vec![legend];
    let mut heads = " ".repeat(HEAD);
    for (number, cpus) in groups.iter().enumerate() {
        let head = cpus.first().map_or_else(String::new, u32::to_string);
        if has_numbers {
            heads.push_str(&right(&head));
        } else if HEAD + number * SHADE >= heads.chars().count() {
            // The names of narrow columns stand where there is room.
            heads.push_str(&" ".repeat(HEAD + number * SHADE - heads.chars().count()));
            heads.push_str(&head);
            heads.push(' ');
        }
    }
    lines.push(heads.trim_end().to_owned());
    for (sender, cpus) in groups.iter().enumerate() {
        let mut line = format!("{:>1$} ", name(cpus), HEAD - 1);
        for victim in 0..groups.len() {
            match (rates.get(&(sender, victim)).copied(), has_numbers) {
                (Some(rate), true) => line.push_str(&right(&compact(rate))),
                (None, true) => line.push_str(&right("·")),
                (Some(rate), false) => line.extend([shade(rate); SHADE]),
                (None, false) => line.push_str("· "),
            }
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::top::testing::sample;

    #[test]
    fn a_map_of_any_number_of_cpus_fits_its_room() {
        for cpus in [2, 4, 48, 512, 8192] {
            let sample = sample(cpus);
            for (width, height) in [(80, 18), (120, 34), (40, 4)] {
                let lines = lines(&sample, width, height);
                assert!(lines.len() <= height, "{cpus} CPUs, {height} lines: {lines:#?}");
                for line in &lines[1..] {
                    assert!(line.chars().count() <= width + 4, "{cpus} CPUs, {width} columns: {line}");
                }
            }
        }
    }

    #[test]
    fn the_greatest_rate_has_the_darkest_shade() {
        let lines = lines(&sample(48), 80, 30);
        let has = |shade| lines.iter().skip(2).any(|line| line.contains(shade));
        assert!(has('█') && has('░') && has('·'), "{lines:#?}");
    }
}
