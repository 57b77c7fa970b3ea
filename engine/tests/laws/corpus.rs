//! Histories as bytes. The fuzzer in `check/fuzz/` searches for bytes whose history breaks a rule, and those that it kept are
//! played with every `cargo test`.

use ceasefire::{Payment, Schedule};

use crate::random::{play, Step};
use crate::script::{
    broadcasting, hybrid, lazy, lazy_broadcasting, lazy_hybrid, lazy_until, machine, Carried,
};

/// The bytes of a step.
const STEP: usize = 5;
/// The most steps of a history.
const MOST: usize = 200;

/// Plays the history: three bytes for the machine, then one step after the other.
///
/// # Errors
/// The rule that it broke.
pub(crate) fn play_bytes(bytes: &[u8]) -> Result<(), String> {
    let [kind, size, asids, steps @ ..] = bytes else { return Ok(()) };
    let (cpus, spaces, asids) =
        (2 + usize::from(size & 3) % 3, 2 + usize::from(size >> 2) % 3, u32::from(*asids));
    let steps: Vec<Step> = steps.chunks_exact(STEP).take(MOST).map(step).collect();
    let (machine, schedule) = match kind % 9 {
        0 => (machine(cpus), Schedule::Batched),
        1 => (lazy(cpus), Schedule::Lazy),
        2 => (lazy_until(cpus, Payment::Demand), Schedule::Lazy),
        3 => (broadcasting(cpus, 2 + asids % 3), Schedule::Batched),
        4 => (lazy_broadcasting(cpus, 2 + asids % 3), Schedule::Lazy),
        5 => (hybrid(cpus, 1 + asids % 2), Schedule::Batched),
        6 => (lazy_hybrid(cpus, 1 + asids % 2), Schedule::Lazy),
        7 => {
            let carried = if asids & 4 == 0 { Carried::AtOnce } else { Carried::ToHolders };
            (broadcasting(cpus, 2 + asids % 3).carrying(carried), Schedule::Lazy)
        }
        _ => (lazy(cpus).flushing_for(asids as usize % 4..cpus), Schedule::Lazy),
    };
    play(&machine, schedule, cpus, spaces, &steps)
}

fn step(bytes: &[u8]) -> Step {
    let number = |at: usize| usize::from(bytes[at]);
    let (cpu, space, page) = (number(1) % 4, number(2) % 4, number(3) as u64 % 4);
    let is = bytes[4] & 1 == 1;
    // No history that was kept has these bytes: all play as they did.
    if matches!(bytes[0], 218 | 233) {
        return Step::Flush { cpu, space, page };
    }
    match bytes[0] % 15 {
        0 => Step::Switch { cpu, space },
        1 => Step::Lazy { cpu },
        2 => Step::Unload { cpu },
        3 => Step::Fill { cpu, page },
        4 => Step::Unmap { cpu, space, first: page, pages: 1 + number(4) as u64 / 2 % 4, tables: is },
        5 => Step::Reclaim { cpu, space, page, dirty: is },
        6 => Step::ReleaseInDebt { cpu, space, page, writable: bytes[4] % 5 == 0 },
        7 => Step::Tick { cpu, time: number(4) as u64 * 4 },
        8 => Step::PayAll { cpu },
        9 => Step::FlushHere { cpu },
        10 => Step::SettleBatch { cpu },
        11 => Step::SettleSpace { cpu, space },
        12 => Step::Protect { cpu, space, page, strict: is },
        13 => Step::DeviceFill { page },
        _ => Step::Renew { cpu, space },
    }
}

// Miri is isolated from files.
#[cfg(not(miri))]
#[test]
fn kept_histories_keep_every_rule() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/histories");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).expect("histories").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "histories are kept");
    for file in files {
        let bytes = std::fs::read(&file).expect("a history");
        assert_eq!(play_bytes(&bytes), Ok(()), "{}", file.display());
    }
}
