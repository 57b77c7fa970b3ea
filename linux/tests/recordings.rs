//! Recordings of real machines: their counts agree with the kernel's own, every flush has its cause, and a replay of the
//! recorded kernel's mechanism sends as many interrupts.

use std::path::PathBuf;

use ceasefire_linux::events::LockKind;
use ceasefire_linux::locks::{Place, Waited};
use ceasefire_linux::recording::Recording;
use ceasefire_linux::replay::{replay, Calls, Mechanism, Predicted, Replay};
use ceasefire_linux::shootdowns::Cause;

/// Each recording, the cause of its program's flushes, their number, and that of their interrupts.
const RECORDINGS: [(&str, Cause, u64, u64); 6] = [
    ("madvise", Cause::Madvise, 400, 400),
    ("purge", Cause::Madvise, 400, 400),
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
fn requests_are_those_of_the_tlb_row() {
    for (name, ..) in RECORDINGS {
        let facts = replayed(name, &[]).facts;
        assert_eq!(Some(facts.answered), facts.tlb_row, "{name}");
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
        let sums: Vec<(u64, u64)> = sums.map(|(_, sum)| (sum.flushes, sum.requests)).collect();
        assert_eq!(sums, [(flushes, interrupts)], "{name}");
    }
}

#[test]
fn calls_that_are_flushed_together_send_fewer_interrupts() {
    let linux = Mechanism::of_linux("6.18.44");
    for (name, cause, flushes, _) in RECORDINGS {
        let batched =
            replayed(name, &[Mechanism { calls: Calls::Together(40), ..linux }]).predicted.remove(0);
        let most = match cause {
            Cause::Munmap | Cause::Madvise => flushes / 40,
            // A program cannot put these off.
            _ => flushes,
        };
        assert!(batched.causes.get(&cause).map_or(0, |of| of.requests) <= most, "{name}: {batched:?}");
    }
}

#[test]
fn calls_back_to_back_are_one_call_of_process_madvise_unless_their_pages_are_used_between_them() {
    let linux = Mechanism::of_linux("6.18.44");
    for (name, left) in [("purge", 10), ("madvise", 400), ("mprotect", 0)] {
        let replayed = replayed(name, &[Mechanism { calls: Calls::ProcessMadvise, ..linux }]);
        assert_eq!(
            replayed.predicted[0].causes.get(&Cause::Madvise).map_or(0, |of| of.requests),
            left,
            "{name}"
        );
    }
}

#[test]
fn pages_that_are_used_again_in_time_are_not_given_back() {
    let linux = Mechanism::of_linux("6.18.44");
    for name in ["purge", "madvise"] {
        let later = |ns| Mechanism { calls: Calls::Later(ns), ..linux };
        let replayed = replayed(name, &[linux, later(1), later(10_000_000_000)]);
        let [now, soon, late] = &replayed.predicted[..] else { panic!("three mechanisms") };
        let madvise =
            |predicted: &Predicted| predicted.causes.get(&Cause::Madvise).map_or(0, |of| of.requests);
        assert!(madvise(now).abs_diff(madvise(soon)) <= 1, "{name}: {now:?} {soon:?}");
        // The last pages go with the process.
        assert_eq!((madvise(late), now.most_kept_pages), (0, 0), "{name}");
        assert!(late.most_kept_pages >= 1, "{name}: {late:?}");
    }
}

#[test]
fn every_breakdown_of_a_prediction_has_all_of_it() {
    // Debts of the last are paid by ticks.
    for name in RECORDINGS.map(|(name, ..)| name).into_iter().chain(["guests/6.12-reclaim"]) {
        let lazy = Mechanism::new(ceasefire::Schedule::Lazy, false);
        for predicted in replayed(name, &[Mechanism::of_linux("6.18.44"), lazy]).predicted {
            let sums = [
                predicted.causes.values().map(|of| of.requests).sum::<u64>(),
                predicted.processes.values().sum(),
                predicted.sent.iter().sum(),
                predicted.received.iter().sum(),
                predicted.parts.iter().map(|of| of.requests).sum(),
            ];
            assert_eq!(sums, [predicted.asked.requests; 5], "{name}: {predicted:?}");
            let sums = [
                predicted.causes.values().map(|of| of.interrupts).sum::<u64>(),
                predicted.parts.iter().map(|of| of.interrupts).sum(),
            ];
            assert_eq!(sums, [predicted.asked.interrupts; 2], "{name}: {predicted:?}");
        }
    }
}

#[test]
fn waits_have_their_lock_their_cause_and_the_part_during_flushes() {
    let replayed = replayed("waits", &[]);
    assert_eq!(Some(replayed.facts.answered), replayed.facts.tlb_row);
    let rows = replayed.observed.locks.rows();
    let is_of_load = |row: &&Waited| replayed.names.get(row.process.program) == "guest_loads";
    let semaphores: Vec<&Waited> = rows
        .iter()
        .filter(is_of_load)
        .filter(|row| matches!(row.kind, LockKind::SleepRead | LockKind::SleepWrite))
        .collect();
    let told: Vec<_> =
        semaphores.iter().map(|row| (row.kind, row.cause, row.sum.waits, row.sum.ns / 1_000_000)).collect();
    assert_eq!(
        told,
        [
            (LockKind::SleepRead, Cause::Fault, 63, 25),
            (LockKind::SleepWrite, Cause::Mprotect, 32, 1),
            (LockKind::SleepWrite, Cause::Munmap, 21, 21),
            (LockKind::SleepWrite, Cause::Mmap, 6, 21),
            (LockKind::SleepWrite, Cause::Madvise, 18, 8),
        ]
    );
    // All for one lock: the process's `mmap_lock`.
    let is_of_space = |row: &&Waited| row.locks == 1 && row.place == Place::MmapLock;
    assert!(semaphores.iter().all(is_of_space), "{semaphores:?}");
    assert!(semaphores.iter().all(|row| row.lock == semaphores[0].lock), "{semaphores:?}");
    let protect = semaphores[1].sum;
    assert!(10 * protect.flush_ns < protect.ns && protect.ns < 12 * protect.flush_ns, "{protect:?}");
    for row in &rows {
        assert!(row.sum.flush_ns <= row.sum.ns && row.sum.longest_ns <= row.sum.ns, "{row:?}");
    }
}

#[test]
fn recordings_without_events_of_locks_have_no_waits() {
    for (name, ..) in RECORDINGS {
        let replayed = replayed(name, &[]);
        assert!(!replayed.facts.tells_waits() && replayed.observed.locks.rows().is_empty(), "{name}");
    }
}
