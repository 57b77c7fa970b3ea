//! Traces: their order, their circumstances, and Perfetto's format as an independent reader finds it.

#[path = "../../perfetto/tests/reader/mod.rs"]
mod reader;

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{at, machine, run_clean, Random, Sink, SCHEDULES, US};
use ceasefire::Schedule;
use ceasefire_machine::config::Machine;
use ceasefire_machine::{Options, Outcome, Program, Simulation, TraceFormat};
use ceasefire_memory::Pages;
use reader::{Slice, Trace};

/// The first track of the trace, that of the run.
const RUN: u64 = 1;

/// Three programs of two threads each, on four CPUs. Each thread uses pages of its program and discards some.
fn programs(simulation: &Simulation) {
    for number in 0..6u16 {
        let space = simulation.memory().new_space().expect("a frame");
        for thread in 0..2 {
            let mut random = Random(u64::from(10 * number + thread));
            let body = move |program: &Program| {
                let base = program
                    .system_call(|memory, space| memory.map_anonymous(space, Pages::new(16)))
                    .expect("room");
                for _ in 0..200 {
                    program.store(at(base, random.below(16)), 1, 0).expect("a mapped page");
                    program.compute(random.below(3 * US));
                    if random.below(4) == 0 {
                        let (page, count) = (random.below(8), 1 + random.below(8));
                        program
                            .system_call(|memory, space| {
                                memory.discard(space, at(base, page), Pages::new(count))
                            })
                            .expect("in range");
                    }
                }
            };
            let cpu = (number + thread) % 4;
            simulation.spawn(format!("{number}/{thread}"), cpu, 0, &space, body).expect("a stack");
        }
    }
}

/// The machine of these tests: ticks take time, and threads take turns often.
fn small() -> Machine {
    let mut machine = machine(&[2, 2], 4096);
    (machine.costs.time_slice, machine.tick) = (20 * US, US);
    machine
}

fn traced(format: TraceFormat, options: Options) -> (Outcome, Sink) {
    let sink = Sink::default();
    let options = Options { trace: Some(sink.output(format)), tick: 30 * US, ..options };
    let simulation = Simulation::new(&small(), options).expect("it fits");
    programs(&simulation);
    (run_clean(&simulation), sink)
}

/// All schedules, with and without broadcasts, exact and with CPUs that run ahead.
fn options() -> impl Iterator<Item = Options> {
    let chosen = |schedule, broadcast, slack| Options {
        broadcast,
        slack,
        wide: 1,
        look_every: 1,
        ..Options::new(schedule)
    };
    SCHEDULES.into_iter().flat_map(move |schedule| {
        [(false, 0), (true, 0), (false, US / 2)]
            .map(move |(broadcast, slack)| chosen(schedule, broadcast, slack))
    })
}

#[test]
fn the_lines_of_a_trace_are_in_the_order_of_their_times() {
    for options in options() {
        let case = format!("{options:?}");
        let (outcome, trace) = traced(TraceFormat::Text, options);
        let events = trace.lines("");
        assert!(events.is_sorted_by_key(|&(time, _)| time), "{case}");
        let counters = outcome.reading.counters;
        assert_eq!(trace.lines(" interrupt").len() as u64, counters.interrupts, "{case}");
        assert_eq!(trace.lines("\"remote ipi send\"").len() as u64, counters.shootdowns, "{case}");
        assert_eq!(trace.lines("\"broadcast\"").len() as u64, counters.broadcasts, "{case}");
        assert!(events.len() > 300, "{case}: {}", events.len());
    }
}

#[test]
fn a_trace_begins_with_the_circumstances_of_its_run() {
    let sink = Sink::default();
    let mut output = sink.output(TraceFormat::Text);
    output.about.push(("command".into(), "two\nlines".into()));
    let machine = small();
    let options = Options { trace: Some(output), ..Options::new(Schedule::Batched) };
    let simulation = Simulation::new(&machine, options).expect("it fits");
    programs(&simulation);
    run_clean(&simulation);
    let text = sink.text();
    let about: Vec<&str> = text.lines().take_while(|line| line.starts_with("# ")).collect();
    assert_eq!(
        about[..3],
        [
            &format!("# ceasefire = {}", env!("CARGO_PKG_VERSION"))[..],
            "# command = two lines",
            "# machine = 1-socket"
        ]
    );
    let without = about.iter().find(|line| line.starts_with("# machine.without = "));
    assert!(without.is_some_and(|line| line.contains("far-walks")), "{about:#?}");
    for parameter in &machine.sources {
        let begun = format!("# machine.{} = {}", parameter.key, parameter.value);
        assert!(about.iter().any(|line| line.starts_with(&begun)), "{begun}");
    }
    assert!(text.lines().skip(about.len()).all(|line| !line.starts_with('#')));
}

#[test]
fn perfettos_tracks_are_the_run_and_its_cpus() {
    let (_, sink) = traced(TraceFormat::Perfetto, Options::new(Schedule::Batched));
    let trace = Trace::of(&sink.bytes());
    assert_eq!(trace.tracks[&RUN], ("run".to_owned(), None));
    for (number, (name, parent)) in trace.tracks.iter().skip(1) {
        let parent = &trace.tracks[&parent.expect("it belongs to another track")].0;
        let expected = match name.rsplit_once(' ').expect("several words") {
            (cpu, "requests" | "flushes" | "interrupts") => cpu,
            _ => "run",
        };
        assert_eq!(parent, expected, "{number}: {name}");
    }
    let run = trace.slices.iter().find(|slice| slice.track == RUN).expect("a slice of the run");
    assert_eq!(run.begins, 0);
    assert_eq!(run.ends, trace.slices.iter().filter_map(|slice| slice.ends).max());
    for parameter in &small().sources {
        let argument = run.arguments.get(&format!("machine.{}", parameter.key));
        assert!(argument.is_some_and(|value| value.contains(&parameter.source)), "{}", parameter.key);
    }
}

#[test]
fn a_flow_leads_from_each_request_to_each_of_its_interrupts() {
    for options in options() {
        let case = format!("{options:?}");
        let (outcome, sink) = traced(TraceFormat::Perfetto, options);
        let (trace, counters) = (Trace::of(&sink.bytes()), outcome.reading.counters);
        let (requests, interrupts) = (trace.on("requests"), trace.on("interrupts"));
        assert_eq!(requests.len() as u64, counters.shootdowns, "{case}");
        let handlers: Vec<_> = interrupts.iter().filter(|(_, slice)| slice.name == "interrupt").collect();
        assert_eq!(handlers.len() as u64, counters.interrupts, "{case}");
        let mut senders = BTreeMap::new();
        for &(cpu, request) in &requests {
            assert_eq!(request.name, "remote ipi send");
            assert_eq!(request.arguments["interrupts"], request.flows_out.len().to_string());
            for flow in &request.flows_out {
                assert!(senders.insert(*flow, (cpu, request)).is_none(), "{case}: flow {flow} begins twice");
            }
        }
        for (victim, interrupt) in handlers {
            assert!(!interrupt.flows_in.is_empty(), "{case}: {interrupt:?}");
            for flow in &interrupt.flows_in {
                let (sender, request) = senders.remove(flow).expect("a flow that begins and has not ended");
                assert_ne!(sender, *victim, "{case}");
                let answered = request.ends.unwrap_or(u64::MAX);
                assert!(
                    request.begins < interrupt.begins && interrupt.begins < answered,
                    "{case}: {request:?} {interrupt:?}"
                );
            }
        }
        assert!(senders.is_empty(), "{case}: {senders:?}");
    }
}

#[test]
fn the_flows_of_one_request_lead_to_the_cpus_that_it_interrupts() {
    let (sink, machine) = (Sink::default(), machine(&[4], 4096));
    let options =
        Options { trace: Some(sink.output(TraceFormat::Perfetto)), ..Options::new(Schedule::Batched) };
    let simulation = Simulation::new(&machine, options).expect("it fits");
    let space = simulation.memory().new_space().expect("a frame");
    let discards = |program: &Program| {
        let base =
            program.system_call(|memory, space| memory.map_anonymous(space, Pages::new(3))).expect("room");
        for page in 0..3 {
            program.load(at(base, page), 1).expect("a mapped page");
        }
        program.compute(20 * US);
        program.system_call(|memory, space| memory.discard(space, base, Pages::new(3))).expect("in range");
    };
    simulation.spawn("discards", 2, 0, &space, discards).expect("a stack");
    for cpu in [0, 3] {
        let computes = |program: &Program| (0..100).for_each(|_| program.compute(US));
        simulation.spawn("computes", cpu, 0, &space, computes).expect("a stack");
    }
    let outcome = run_clean(&simulation);
    let trace = Trace::of(&sink.bytes());
    let &[(2, request)] = &trace.on("requests")[..] else { panic!("{trace:#?}") };
    assert_eq!((&request.arguments["pages"][..], &request.arguments["space"][..]), ("3", "2"));
    // The slice lasts for the time in which the sender waits, and sends and flushes before that.
    let costs = &machine.costs;
    let busy = 2 * costs.interrupt_send + 3 * costs.invalidate_page;
    assert_eq!(
        request.ends.expect("it is answered") - request.begins,
        (outcome.reading.answer_wait + busy) / 1000
    );
    let interrupts = trace.on("interrupts");
    let victims: BTreeSet<_> = interrupts.iter().map(|&(cpu, _)| cpu).collect();
    assert_eq!(victims, BTreeSet::from([0, 3]));
    for (cpu, number) in [(0, 0), (3, 1)] {
        let [interrupt, flush] =
            interrupts.iter().filter(|slice| slice.0 == cpu).map(|slice| slice.1).collect::<Vec<_>>()[..]
        else {
            panic!("{interrupts:#?}")
        };
        assert_eq!(interrupt.flows_in, [request.flows_out[number]]);
        // The flush is part of the handler, which then answers.
        assert_eq!((&flush.name[..], &flush.arguments["pages"][..]), ("remote shootdown", "3"));
        let length = |slice: &Slice| 1000 * (slice.ends.expect("it ended") - slice.begins);
        assert_eq!(flush.begins - interrupt.begins, costs.interrupt_handle / 1000);
        assert_eq!(length(flush), 3 * costs.invalidate_page);
        assert_eq!(
            length(interrupt),
            costs.interrupt_handle + 3 * costs.invalidate_page + crate::common::FAR
        );
    }
}

#[test]
fn all_slices_nest_and_end_unless_the_run_ends_in_them() {
    for options in options() {
        let case = format!("{options:?}");
        let (outcome, sink) = traced(TraceFormat::Perfetto, options);
        let trace = Trace::of(&sink.bytes());
        let elapsed = outcome.elapsed / 1000;
        for slice in &trace.slices {
            // The reader ends the slice of a track that began last. If that were another one, the flush that a handler
            // makes would end after it, or the reasons of two flushes would be swapped.
            let ends = slice.ends.unwrap_or(elapsed);
            let nested =
                trace.slices.iter().filter(|other| other.track == slice.track && other.begins > slice.begins);
            for other in nested.filter(|other| other.begins < ends) {
                assert!(other.ends.is_some_and(|end| end <= ends), "{case}: {slice:?} {other:?}");
                assert!(
                    slice.name == "interrupt" && other.name != "interrupt",
                    "{case}: {slice:?} {other:?}"
                );
            }
        }
        let unfinished = trace.slices.iter().filter(|slice| slice.ends.is_none());
        assert!(unfinished.count() <= 4, "{case}");
        assert!(!trace.on("flushes").is_empty(), "{case}");
    }
}

#[test]
fn the_same_setup_gives_the_same_perfetto_trace() {
    let bytes = || traced(TraceFormat::Perfetto, Options::new(Schedule::Lazy)).1.bytes();
    assert!(bytes() == bytes());
}
