//! Random scripts. Memories are small, so reclaim, swap and migration owe flushes all the time, right beside
//! operations that promise a result to programs.

use crate::common::Random;
use crate::operation::{Operation, Step};
use crate::script::{NodeSetup, Script, Setup};

/// The number of steps of a script.
pub(crate) const STEPS: usize = 200;

/// The weight of each operation.
const WEIGHTS: &[(&str, u32)] = &[
    ("load", 110),
    ("store", 110),
    ("sweep", 110),
    ("wild", 4),
    ("map-anonymous", 22),
    ("map-shared", 22),
    ("map-private", 16),
    ("unmap", 24),
    ("discard", 30),
    ("protect", 36),
    ("remap", 24),
    ("advise-free", 24),
    ("advise-cold", 10),
    ("advise-page-out", 30),
    ("advise-huge", 4),
    ("lock", 6),
    ("unlock", 8),
    ("fork", 10),
    ("exit", 4),
    ("collapse", 4),
    ("migrate-space", 10),
    ("move-pages", 16),
    ("hint", 12),
    ("read", 14),
    ("write", 18),
    ("truncate", 12),
    ("invalidate", 10),
    ("sync", 8),
    ("wrong", 8),
];

/// The random sequence of a number.
fn random(number: u64) -> Random {
    Random(number.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5eed)
}

/// A script of bytes, for a fuzzer: the number of its machine, and the number of each step.
pub(crate) fn of_bytes(bytes: &[u8]) -> Script {
    let mut numbers =
        bytes.chunks_exact(4).map(|word| u64::from(u32::from_le_bytes([word[0], word[1], word[2], word[3]])));
    let setup = setup(&mut random(numbers.next().unwrap_or(0)));
    let steps =
        numbers.take(STEPS).enumerate().map(|(at, number)| step(&mut random(number), &setup, at)).collect();
    Script { setup, steps }
}

/// The script of a number.
pub(crate) fn script(number: u64) -> Script {
    let mut random = random(number);
    let setup = setup(&mut random);
    let steps = (0..STEPS).map(|at| step(&mut random, &setup, at)).collect();
    Script { setup, steps }
}

fn one_of<T: Copy>(random: &mut Random, choices: &[T]) -> T {
    choices[random.below(choices.len() as u64) as usize]
}

fn setup(random: &mut Random) -> Setup {
    let cpus = 2 + random.below(7) as u32;
    let near = if cpus > 2 { 1 + random.below(2) as u32 } else { 1 };
    let mut nodes = Vec::new();
    for node in 0..near {
        let share = cpus / near + u32::from(node < cpus % near);
        nodes.push(NodeSetup { cpus: share, frames: (128 + 16 * random.below(9) as u32) / near, tier: 0 });
    }
    if random.below(3) == 0 {
        nodes.push(NodeSetup { cpus: 0, frames: 48 + 16 * random.below(4) as u32, tier: 1 });
    }
    // Sometimes a huge page fits.
    if random.below(24) == 0 {
        nodes[0].frames += 1024;
    }
    let threads = cpus + if random.below(4) == 0 { 1 + random.below(2) as u32 } else { 0 };
    // Drawn last, from a random sequence of its own, so that the other parts of older programs do not change.
    let mut processor = Random(random.0 ^ 0xa51d);
    Setup {
        drain: one_of(&mut processor, &[0, 1]),
        untagged: one_of(&mut processor, &[0, 0, 0, 0, 0, 0, 0, 1]),
        asids: one_of(&mut processor, &[9, 10, 4096]),
        every: one_of(&mut processor, &[0, 0, 0, 0, 0, 0, 0, 1, 3, 256]),
        at_once: one_of(&mut processor, &[1, 8, 65_536]),
        look_every: one_of(&mut processor, &[1, 3, 32]),
        wide: one_of(&mut processor, &[1, 2, 4]),
        speculate: one_of(&mut processor, &[0, 0, 20, 500]),
        nodes,
        files: (0..2 + random.below(2)).map(|_| 8 + random.below(56) as u32).collect(),
        schedule: one_of(random, &[0, 1, 1, 2, 2, 2, 3, 3, 4, 5, 5]),
        tick: one_of(random, &[20_000, 100_000, 4_000_000]),
        swap: one_of(random, &[0, 32, 128, 512]),
        fault_around: one_of(random, &[1, 4, 16]),
        read_ahead: one_of(random, &[1, 4, 32]),
        lru_batch: one_of(random, &[1, 4, 15]),
        demote: random.below(2) as u32,
        slack: one_of(random, &[0, 0, 2000]),
        slice: one_of(random, &[20_000, 100_000]),
        threads,
        spaces: (2 + random.below(2) as u32).min(threads),
    }
}

fn step(random: &mut Random, setup: &Setup, at: usize) -> Step {
    let total: u32 = WEIGHTS.iter().map(|(_, weight)| weight).sum();
    let mut left = random.below(u64::from(total)) as u32;
    let drawn = WEIGHTS.iter().find(|(_, weight)| {
        let here = left < *weight;
        left = left.wrapping_sub(*weight);
        here
    });
    let mut verb = drawn.map_or("load", |(verb, _)| *verb);
    if at < 3 * setup.threads as usize && at.is_multiple_of(3) {
        verb = one_of(random, &["map-anonymous", "map-shared", "map-private"]);
    }
    let threads = u64::from(setup.threads);
    let thread = if at < 3 * threads as usize { at as u64 / 3 } else { random.below(threads) } as u32;
    let pause = if random.below(2) == 0 { 0 } else { random.below(4000) as u32 };
    let operation = Operation::new(verb, |name| Ok(number(random, name)));
    Step { thread, pause, operation: operation.expect("a verb of the list") }
}

/// A number for each name.
fn number(random: &mut Random, name: &str) -> u32 {
    let drawn = match name {
        "area" => random.below(16),
        "page" | "first" => random.below(64),
        "pages" | "size" => match random.below(3) {
            0 => random.below(2),
            1 => random.below(8),
            _ => random.below(40),
        },
        "word" => random.below(6),
        "inside" => one_of(random, &[0, 0, 0, 8, 2045, 4088, 4093]),
        "bytes" => one_of(random, &[8, 8, 3, 4096, 4100, 9000]),
        "to" => random.below(4),
        "writable" => u64::from(random.below(4) > 0),
        "threads" => random.below(256),
        _ => random.below(8),
    };
    drawn as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_is_drawn() {
        let mut listed: Vec<&str> = WEIGHTS.iter().map(|(verb, _)| *verb).collect();
        let mut verbs = Operation::VERBS.to_vec();
        listed.sort_unstable();
        verbs.sort_unstable();
        assert_eq!(listed, verbs);
    }

    #[test]
    fn a_script_reads_as_it_was_written() {
        for number in 0..200 {
            let script = script(number);
            assert_eq!(script.to_string().parse(), Ok(script));
        }
    }
}
