//! Recordings of real machines: their counts agree with the kernel's own, every flush has its cause, and a replay of the
//! recorded kernel's mechanism sends as many interrupts.

use std::path::PathBuf;

use ceasefire_linux::recording::Recording;
use ceasefire_linux::replay::{replay, Mechanism, Replay};
use ceasefire_linux::shootdowns::Cause;

/// Each recording, the cause of its program's flushes, their number, and that of their interrupts.
const RECORDINGS: [(&str, Cause, u64, u64); 5] = [
    ("madvise", Cause::Madvise, 400, 400),
    ("munmap", Cause::Munmap, 400, 400),
    ("mprotect", Cause::Mprotect, 400, 400),
    ("mremap", Cause::Mremap, 387, 387),
    ("copy-on-write", Cause::CopyOnWrite, 400, 398),
];

fn replayed(name: &str, mechanisms: &[Mechanism]) -> Replay {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings").join(format!("{name}.parquet"));
    let mut recording = Recording::open(&path).expect("a recording");
    replay(&mut recording, mechanisms).expect("a full recording")
}

#[test]
fn interrupts_are_those_of_the_tlb_row() {
    for (name, ..) in RECORDINGS {
        let facts = replayed(name, &[]).facts;
        assert_eq!(Some(facts.interrupts), facts.tlb_row, "{name}");
        assert!(facts.tlb_row_unsure == 0 && facts.lost.is_none(), "{name}: {facts:?}");
    }
}

#[test]
fn every_flush_is_attributed_to_its_process_and_cause() {
    for (name, cause, flushes, interrupts) in RECORDINGS {
        let replayed = replayed(name, &[]);
        let totals = &replayed.observed.totals;
        let sums = totals.processes.iter().filter(|((process, of), _)| {
            let program = totals.names.get(process).map(|name| replayed.names.get(*name));
            program == Some("shootdowns") && *of == cause
        });
        let sums: Vec<(u64, u64)> = sums.map(|(_, sum)| (sum.flushes, sum.interrupts)).collect();
        assert_eq!(sums, [(flushes, interrupts)], "{name}");
    }
}

#[test]
fn a_replay_of_the_recorded_kernel_sends_as_many_interrupts_to_a_tenth() {
    for (name, ..) in RECORDINGS {
        let replayed = replayed(name, &[Mechanism::of_linux("6.18.44")]);
        let ratio = replayed.predicted[0].interrupts as f64 / replayed.observed.interrupts as f64;
        assert!((0.9..1.1).contains(&ratio), "{name}: {ratio}");
    }
}

#[test]
fn calls_that_are_flushed_together_send_fewer_interrupts() {
    let linux = Mechanism::of_linux("6.18.44");
    for (name, cause, flushes, _) in RECORDINGS {
        let batched = replayed(name, &[Mechanism { batch: 40, ..linux }]).predicted.remove(0);
        let most = match cause {
            Cause::Munmap | Cause::Madvise => flushes / 40,
            // A program cannot put these off.
            _ => flushes,
        };
        assert!(batched.causes.get(&cause).copied().unwrap_or(0) <= most, "{name}: {batched:?}");
    }
}
