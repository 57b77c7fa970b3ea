//! Traces of recordings for Perfetto, as an independent reader finds them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;

use crate::reader::{Slice, Trace};
use ceasefire_linux::events::{Event, FlushReason, Kind, Name, Names, Spelled, SystemCall, Work};
use ceasefire_linux::export::export;
use ceasefire_linux::kernel::threads::Threads;
use ceasefire_linux::observer::{Observer, Sink};
use ceasefire_linux::recording::{Facts, Recording, RecordingError, Row, Writer};
use ceasefire_linux::shootdowns::Shootdown;

/// The tracks of the run and of the rate of interrupts.
const RUN: u64 = 1;
const RATE: u64 = 2;

/// Recordings with two CPUs and with eight, of kernels that tell each interrupt.
const RECORDINGS: [&str; 10] = [
    "madvise",
    "munmap",
    "mprotect",
    "mremap",
    "copy-on-write",
    "waits",
    "guests/6.12-reclaim",
    "guests/6.12-migrate-4",
    "guests/7.2-madvise",
    "guests/7.2-migrate-8",
];

fn kept(name: &str) -> Recording {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("recordings/{name}.parquet"));
    Recording::open(&path).expect("a recording")
}

fn traced(recording: &mut Recording) -> Trace {
    let mut bytes = Vec::new();
    export(recording, &mut bytes).expect("memory");
    let trace = Trace::of(&bytes);
    assert!(trace.slices.iter().all(|slice| slice.ends.is_some()), "a slice does not end");
    trace
}

/// The counts of a recording: handlers, those whose interrupts were seen, calls, interrupts sent, and waits for
/// locks.
#[derive(Debug, Default, PartialEq, Eq)]
struct Counts {
    handlers: usize,
    paired: usize,
    calls: usize,
    sent: usize,
    waits: usize,
}

/// Counts requests whose handlers were seen.
struct Paired(usize);

impl Sink for Paired {
    fn shootdown(&mut self, shootdown: &Shootdown) {
        self.0 += shootdown.requests.iter().filter(|request| request.victim.is_some()).count();
    }
}

fn counts(recording: &mut Recording) -> Counts {
    let (mut counts, mut names) = (Counts::default(), Names::default());
    let mut observer = Observer::new(Threads::default(), Paired(0));
    let each = recording.each::<RecordingError>(&mut names, |row, names| {
        match row.event.kind {
            Kind::Sent { .. } => counts.sent += 1,
            Kind::HandlerBegan { .. } => counts.handlers += 1,
            Kind::CallBegan { .. } => counts.calls += 1,
            Kind::WaitBegan { .. } if row.event.thread != 0 => counts.waits += 1,
            _ => {}
        }
        observer.add(&row, names);
        Ok(())
    });
    each.expect("a whole recording");
    let (Paired(paired), _) = observer.finish();
    Counts { paired, ..counts }
}

fn is_call(slice: &Slice) -> bool {
    SystemCall::of_word(&slice.name).is_some() && slice.arguments.contains_key("address")
}

#[test]
fn a_flow_leads_from_each_interrupt_to_its_handler() {
    for name in RECORDINGS {
        let counts = counts(&mut kept(name));
        assert!(counts.paired > 20, "{name}: {counts:?}");
        let trace = traced(&mut kept(name));
        let (threads, interrupts) = (trace.on("threads"), trace.on("interrupts"));
        let mut sent = BTreeMap::new();
        for (cpu, slice) in threads.iter().filter(|(_, slice)| slice.name == "request sent") {
            let &[flow] = &slice.flows_out[..] else { panic!("{name}: {slice:?}") };
            assert!(sent.insert(flow, (*cpu, *slice)).is_none(), "{name}: flow {flow} begins twice");
        }
        assert_eq!(sent.len(), counts.sent, "{name}");
        let handlers: Vec<_> = interrupts.iter().filter(|(_, slice)| !slice.is_instant).collect();
        assert_eq!(handlers.len(), counts.handlers, "{name}");
        let mut flows = 0;
        for (cpu, handler) in handlers {
            for flow in &handler.flows_in {
                let (sender, instant) = sent.remove(flow).expect("a flow that begins and has not ended");
                assert_eq!(instant.arguments["target"], cpu.to_string(), "{name}");
                assert_eq!(handler.arguments["sender"], sender.to_string(), "{name}");
                let delivery = handler.begins - instant.begins;
                assert_eq!(handler.arguments["delivery_ns"], delivery.to_string(), "{name}");
                flows += 1;
            }
        }
        assert_eq!(flows, counts.paired, "{name}");
    }
}

#[test]
fn every_call_is_in_a_lane_and_every_thread_in_one_at_a_time() {
    for name in RECORDINGS {
        let counts = counts(&mut kept(name));
        let trace = traced(&mut kept(name));
        let threads = trace.on("threads");
        let calls =
            threads.iter().filter(|(_, slice)| is_call(slice) && !slice.arguments.contains_key("part"));
        assert_eq!(calls.count(), counts.calls, "{name}");
        let waits = threads.iter().filter(|(_, slice)| slice.name.starts_with("waits: "));
        assert_eq!(
            waits.filter(|(_, slice)| !slice.arguments.contains_key("part")).count(),
            counts.waits,
            "{name}"
        );
        let mut runs: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
        for (_, slice) in &threads {
            if let Some(thread) = slice.arguments.get("thread") {
                assert_eq!(slice.depth, 0, "{name}: {slice:?}");
                runs.entry(thread).or_default().push((slice.begins, slice.ends.expect("an end")));
            }
        }
        assert!(runs.len() > 2, "{name}");
        for (thread, times) in runs {
            let apart = times.windows(2).all(|pair| pair[0].1 <= pair[1].0);
            assert!(apart, "{name}: thread {thread} runs on two CPUs");
        }
    }
}

#[test]
fn the_run_carries_the_facts_and_the_rate_has_the_interrupts() {
    for name in RECORDINGS {
        let facts = kept(name).facts().clone();
        let trace = traced(&mut kept(name));
        let run = trace.slices.iter().find(|slice| slice.track == RUN).expect("a slice of the run");
        // Events that came while tracing ended are part of the run.
        assert!(run.begins == facts.began_ns && run.ends >= Some(facts.ended_ns), "{name}: {run:?}");
        assert_eq!(run.ends, trace.slices.iter().filter_map(|slice| slice.ends).max(), "{name}");
        let expected = [
            ("kernel", facts.kernel.clone()),
            ("cpus", facts.cpus.len().to_string()),
            ("requests", facts.answered.to_string()),
            ("tlb_row", facts.tlb_row.expect("a row").to_string()),
            ("lost", "0".to_owned()),
            ("unreadable", "0".to_owned()),
        ];
        for (argument, value) in expected {
            assert_eq!(run.arguments[argument], value, "{name}: {argument}");
        }
        let rates = &trace.counters[&RATE];
        let lasts = |pair: &[(u64, u64)]| u128::from(pair[1].0 - pair[0].0) * u128::from(pair[0].1);
        let counted = rates.windows(2).map(lasts).sum::<u128>() / 1_000_000_000;
        let handled = counts(&mut kept(name)).handlers as u128;
        assert!(counted <= handled && 2 * counted > handled, "{name}: {counted} of {handled}");
    }
}

/// A recording of these events.
struct Script {
    names: Names,
    rows: Vec<Row>,
}

impl Script {
    fn new() -> Self {
        Self { names: Names::default(), rows: Vec::new() }
    }

    fn name(&mut self) -> Name {
        self.names.add("program")
    }

    fn at(&mut self, time_ns: u64, cpu: u32, thread: u32, kind: Kind) {
        let program = self.name();
        self.rows.push(Row { event: Event { time_ns, cpu, thread, kind }, process: 7, program });
    }

    fn traced(mut self, events: &[&str]) -> Trace {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        let mut writer = Writer::new(Vec::new()).expect("memory");
        for row in &self.rows {
            writer.add(row, &mut self.names).expect("memory");
        }
        let events = events.iter().map(|event| (*event).to_owned()).collect();
        let facts = Facts { began_ns: 50, ended_ns: 1000, events, ..Facts::default() };
        file.write_all(&writer.finish(&facts, &self.names).expect("memory")).expect("room");
        traced(&mut Recording::open(file.path()).expect("a recording"))
    }
}

const SWITCHES: &str = "sched:sched_switch";

const MUNMAP: Kind = Kind::CallBegan { call: SystemCall::Munmap, address: 0x1000, bytes: 4096, flags: 0 };

/// The name, the CPU, the beginning, the end and the depth of each slice that is no instant.
fn lane(trace: &Trace) -> Vec<(&str, u16, u64, u64, usize)> {
    let slices = trace.on("threads").into_iter().filter(|(_, slice)| !slice.is_instant);
    slices
        .map(|(cpu, slice)| {
            (slice.name.as_str(), cpu, slice.begins, slice.ends.expect("an end"), slice.depth)
        })
        .collect()
}

#[test]
fn a_call_goes_on_where_its_thread_runs_again() {
    let mut script = Script::new();
    script.at(100, 0, 10, MUNMAP);
    script.at(110, 0, 10, Kind::ReclaimBegan);
    script.at(120, 0, 10, Kind::Switch { next: 0 });
    script.at(130, 1, 0, Kind::Switch { next: 10 });
    script.at(140, 1, 10, Kind::ReclaimEnded { frames: 3 });
    script.at(150, 1, 10, Kind::CallEnded { call: SystemCall::Munmap, result: -12 });
    script.at(160, 1, 10, Kind::Switch { next: 0 });
    let trace = script.traced(&[SWITCHES]);
    assert_eq!(
        lane(&trace),
        [
            ("program", 0, 100, 120, 0),
            ("munmap", 0, 100, 120, 1),
            ("reclaim", 0, 110, 120, 2),
            ("program", 1, 130, 160, 0),
            ("munmap", 1, 130, 150, 1),
            ("reclaim", 1, 130, 140, 2),
        ]
    );
    let arguments: Vec<_> = trace.on("threads").into_iter().map(|(_, slice)| &slice.arguments).collect();
    assert_eq!((&*arguments[3]["thread"], &*arguments[3]["process"]), ("10", "7"));
    assert_eq!((&*arguments[4]["part"], &*arguments[4]["result"]), ("2", "-12"));
    assert_eq!((&*arguments[5]["part"], &*arguments[5]["frames"]), ("2", "3"));
    assert!(!arguments[1].contains_key("part") && !arguments[1].contains_key("result"));
}

#[test]
fn without_switches_calls_are_shown_and_threads_are_not() {
    let mut script = Script::new();
    script.at(100, 0, 10, MUNMAP);
    script.at(110, 0, 11, MUNMAP);
    script.at(120, 1, 10, Kind::CallEnded { call: SystemCall::Munmap, result: 0 });
    let trace = script.traced(&[]);
    assert_eq!(
        lane(&trace),
        [("munmap", 0, 100, 110, 0), ("munmap", 0, 110, 1000, 0), ("munmap", 1, 120, 120, 0)]
    );
}

#[test]
fn a_shootdown_has_the_name_of_its_process() {
    let mut script = Script::new();
    let (site, first) = (script.name(), script.names.add("first"));
    script.at(90, 0, 7, Kind::ThreadNamed { thread: 7, name: first });
    script.at(100, 0, 10, Kind::Sent { target: 1, work: Work::Flush, call: 5, site });
    script.at(110, 1, 11, Kind::HandlerEnded { work: Work::Flush, call: 5 });
    let trace = script.traced(&[SWITCHES]);
    let shootdown = trace.slices.iter().find(|slice| slice.name == "shootdown").expect("a shootdown");
    assert_eq!(shootdown.arguments["program"], "first");
}

#[test]
fn a_shootdown_lasts_from_its_first_interrupt_to_the_end_of_its_last_handler() {
    let mut script = Script::new();
    let site = script.name();
    let sent = |target, call| Kind::Sent { target, work: Work::Flush, call, site };
    let began = |call| Kind::HandlerBegan { work: Work::Flush, call };
    let ended = |call| Kind::HandlerEnded { work: Work::Flush, call };
    script.at(90, 0, 10, MUNMAP);
    script.at(100, 0, 10, Kind::Flush { reason: FlushReason::RemoteSend, pages: Some(3) });
    script.at(101, 0, 10, sent(1, 5));
    script.at(102, 0, 10, sent(2, 6));
    script.at(110, 1, 11, began(5));
    script.at(111, 1, 11, Kind::Flush { reason: FlushReason::RemoteShootdown, pages: None });
    script.at(115, 1, 11, ended(5));
    script.at(120, 2, 0, began(6));
    script.at(130, 2, 0, ended(6));
    // Without an interrupt there is nothing to wait for.
    script.at(140, 0, 10, Kind::Flush { reason: FlushReason::RemoteSend, pages: Some(1) });
    script.at(150, 0, 10, Kind::CallEnded { call: SystemCall::Munmap, result: 0 });
    let trace = script.traced(&[SWITCHES]);
    let shootdowns: Vec<_> = trace.slices.iter().filter(|slice| slice.name == "shootdown").collect();
    let &[shootdown] = &shootdowns[..] else { panic!("{shootdowns:#?}") };
    assert_eq!((shootdown.begins, shootdown.ends, shootdown.depth), (101, Some(130), 2));
    for (argument, value) in
        [("cause", "munmap"), ("pages", "3"), ("interrupts", "2"), ("program", "program")]
    {
        assert_eq!(shootdown.arguments[argument], value);
    }
    let interrupts: Vec<_> = trace
        .on("interrupts")
        .into_iter()
        .map(|(cpu, slice)| (cpu, slice.name.as_str(), slice.depth, slice.begins, slice.ends))
        .collect();
    assert_eq!(
        interrupts,
        [
            (1, "flush_tlb_func", 0, 110, Some(115)),
            (1, "remote shootdown", 1, 111, Some(111)),
            (2, "flush_tlb_func", 0, 120, Some(130)),
        ]
    );
}

#[test]
fn lost_events_end_what_was_under_way() {
    let mut script = Script::new();
    let site = script.name();
    script.at(100, 0, 10, MUNMAP);
    script.at(101, 0, 10, Kind::Sent { target: 1, work: Work::Flush, call: 5, site });
    script.at(110, 1, 11, Kind::HandlerBegan { work: Work::Flush, call: 5 });
    script.at(200, 1, 11, Kind::Lost { events: 9 });
    script.at(201, 0, 10, Kind::Lost { events: 4 });
    script.at(300, 0, 12, Kind::Switch { next: 0 });
    let trace = script.traced(&[SWITCHES]);
    assert_eq!(
        lane(&trace),
        [
            ("program", 0, 100, 201, 0),
            ("munmap", 0, 100, 201, 1),
            ("shootdown", 0, 101, 201, 2),
            ("program", 1, 110, 200, 0),
            ("program", 0, 300, 300, 0),
        ]
    );
    let lost: Vec<_> = trace
        .on("threads")
        .into_iter()
        .filter(|(_, slice)| slice.name == "lost")
        .map(|(cpu, slice)| (cpu, slice.begins, slice.arguments["events"].clone()))
        .collect();
    assert_eq!(lost, [(1, 200, "9".to_owned()), (0, 201, "4".to_owned())]);
    assert_eq!(trace.on("interrupts")[0].1.ends, Some(200));
}

#[test]
fn a_recording_without_events_is_a_run() {
    let trace = Script::new().traced(&[]);
    let &[run] = &trace.slices.iter().collect::<Vec<_>>()[..] else { panic!("{trace:#?}") };
    assert_eq!((run.track, run.begins, run.ends), (RUN, 50, Some(1000)));
}
