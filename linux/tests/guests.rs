//! Recordings of guests with eight CPUs and two nodes, of several kernels: their counts agree with the kernel's own,
//! and a replay of the recorded kernel's mechanism sends as many interrupts for the cause of the load.

use std::path::PathBuf;

use ceasefire::Schedule;
use ceasefire_linux::recording::{Count, Recording};
use ceasefire_linux::replay::{replay, Mechanism, Replay};
use ceasefire_linux::shootdowns::Cause;

/// The recordings of kernels that tell each interrupt, and the causes of their loads.
const RECORDINGS: [(&str, Cause); 9] = [
    ("6.12-madvise", Cause::Madvise),
    ("6.12-munmap", Cause::Munmap),
    ("6.12-reclaim", Cause::Reclaim),
    ("6.12-migrate-4", Cause::Migration),
    ("6.12-migrate-8", Cause::Migration),
    ("7.2-madvise", Cause::Madvise),
    ("7.2-munmap", Cause::Munmap),
    ("7.2-migrate-4", Cause::Migration),
    ("7.2-migrate-8", Cause::Migration),
];

/// A recording under the mechanism of its own kernel, with which its name begins.
fn replayed(name: &str) -> Replay {
    replayed_with(name, Mechanism::of_linux(name))
}

fn replayed_with(name: &str, mechanism: Mechanism) -> Replay {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("recordings/guests/{name}.parquet"));
    let mut recording = Recording::open(&path).expect("a recording");
    replay(&mut recording, &[mechanism]).expect("a full recording")
}

/// The requests that flushes of a cause sent.
fn observed(replayed: &Replay, cause: Cause) -> u64 {
    replayed.observed.totals.causes[&cause].requests
}

#[test]
fn requests_are_those_of_the_tlb_row() {
    for (name, _) in RECORDINGS {
        let facts = replayed(name).facts;
        assert_eq!(facts.counted, Count::Sent, "{name}");
        assert_eq!(Some(facts.answered), facts.tlb_row, "{name}");
        assert!(facts.tlb_row_unsure == 0 && facts.lost.is_none(), "{name}: {facts:?}");
    }
}

#[test]
fn recordings_have_eight_cpus_on_two_nodes() {
    for (name, _) in RECORDINGS {
        let cpus = replayed(name).facts.cpus;
        assert_eq!(cpus, [0, 1, 2, 3, 4, 5, 6, 7].map(|cpu| (cpu, cpu / 4)), "{name}");
    }
}

/// Linux 6.1 has no events of requests, so the row counts those that were sent. The flushes that its events tell are
/// fewer, on one load by far: the others find that an earlier one did their work.
#[test]
fn a_replay_of_a_kernel_without_such_events_sends_as_many_requests_as_the_tlb_row_has() {
    for (name, told) in [("6.1-migrate-4", 0.99..1.0), ("6.1-madvise", 0.3..0.4)] {
        let replayed = replayed(name);
        let row = replayed.facts.tlb_row.expect("a row");
        assert_eq!(
            (replayed.facts.counted, replayed.observed.asked.requests),
            (Count::Flushed, replayed.facts.answered)
        );
        let part = replayed.facts.answered as f64 / row as f64;
        assert!(replayed.facts.lost.is_none() && told.contains(&part), "{name}: {part}");
        let ratio = replayed.predicted[0].asked.requests as f64 / row as f64;
        assert!((0.98..1.02).contains(&ratio), "{name}: {ratio}");
    }
}

#[test]
fn batches_are_predicted_from_a_kernel_without_them() {
    let flushes = |replayed: &Replay| replayed.observed.totals.causes[&Cause::Migration].flushes;
    let batched = Mechanism::new(Schedule::Batched, false);
    let before = replayed_with("6.1-migrate-4", batched);
    let predicted = before.predicted[0].causes[&Cause::Migration].requests;
    for after in ["6.12-migrate-4", "7.2-migrate-4"] {
        let after = replayed(after);
        assert_eq!((flushes(&before), flushes(&after)), (1977, 8));
        let ratio = predicted as f64 / observed(&after, Cause::Migration) as f64;
        assert!((0.5..2.0).contains(&ratio), "{ratio}");
    }
}
