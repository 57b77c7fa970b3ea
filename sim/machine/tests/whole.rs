//! Whole runs: they are deterministic, lose no frame, and depend little on slack.

use crate::common::{at, machine, run, run_clean, Sink, SCHEDULES, US};
use ceasefire::Schedule;
use ceasefire_machine::config::{Machine, Picoseconds};
use ceasefire_machine::{Options, Outcome, RunError, Simulation, ThreadTime, TraceFormat};
use ceasefire_memory::{ObjectId, Pages};

/// Programs that read, write, discard and exit, each with its own file and memory. Returns the files.
fn mixed(simulation: &Simulation, starts: &[Picoseconds]) -> Vec<ObjectId> {
    let memory = simulation.memory();
    let start = |(cpu, start): (usize, &Picoseconds)| {
        let file = memory.create_file(1500).expect("a free object");
        let space = memory.new_space().expect("a frame");
        let body = move |program: &ceasefire_machine::Program| {
            let shared = program
                .system_call(|memory, space| memory.map_shared(space, file, 0, Pages::new(1500), true))
                .expect("room for the file");
            let own = program
                .system_call(|memory, space| memory.map_private(space, file, 0, Pages::new(64)))
                .expect("room for copies");
            let fresh = program
                .system_call(|memory, space| memory.map_anonymous(space, Pages::new(64)))
                .expect("room");
            for page in 0..1500 {
                program.load(at(shared, page), 16).expect("a mapped page");
                if page % 3 == 0 {
                    program.store(at(shared, page), 1, 0).expect("a mapped page");
                }
                program.store(at(own, page % 64), 1, 0).expect("a mapped page");
                program.store(at(fresh, page % 64), 1, 0).expect("a mapped page");
                if page % 100 == 99 {
                    program
                        .system_call(|memory, space| memory.discard(space, fresh, Pages::new(50)))
                        .expect("in range");
                }
            }
            program.system_call(|memory, space| memory.exit(space.clone()));
        };
        simulation.spawn(format!("mixed/{cpu}"), cpu as u16, *start, &space, body).expect("a stack");
        file
    };
    starts.iter().enumerate().map(start).collect()
}

fn mixed_run(machine: &Machine, options: Options, starts: &[Picoseconds]) -> Outcome {
    let simulation = Simulation::new(machine, options).expect("it fits");
    mixed(&simulation, starts);
    run_clean(&simulation)
}

#[test]
fn the_same_setup_gives_the_same_trace() {
    for schedule in SCHEDULES {
        for slack in [0, 2_000_000] {
            let traced = || {
                let sink = Sink::default();
                let options =
                    Options { slack, trace: Some(sink.output(TraceFormat::Text)), ..Options::new(schedule) };
                (mixed_run(&machine(&[2, 2], 4096), options, &[0, 3 * US, US, 2 * US]), sink.text())
            };
            let (first, second) = (traced(), traced());
            assert!(first.1.lines().count() > 500, "{:?}", first.0);
            assert!(first == second, "{schedule:?} {slack:?}");
        }
    }
}

#[test]
fn another_order_of_starts_gives_another_run() {
    let with = |starts: &[_]| mixed_run(&machine(&[2, 2], 4096), Options::new(Schedule::Batched), starts);
    assert_ne!(with(&[0, 3 * US, US, 2 * US]), with(&[0, US, 3 * US, 2 * US]));
}

#[test]
fn the_oracle_does_not_change_a_run() {
    for schedule in SCHEDULES {
        let with =
            |oracle| mixed_run(&machine(&[4], 4096), Options { oracle, ..Options::new(schedule) }, &[0; 4]);
        let (seen, unseen) = (with(true), with(false));
        assert_eq!(Outcome { stale_hits: 0, ..seen }, unseen);
    }
}

#[test]
fn no_frame_is_lost() {
    for schedule in SCHEDULES {
        for slack in [0, 2_000_000] {
            let options = Options { slack, ..Options::new(schedule) };
            let simulation = Simulation::new(&machine(&[2, 2], 4096), options).expect("it fits");
            let free = simulation.memory().free_frames();
            let files = mixed(&simulation, &[0; 4]);
            let outcome = run_clean(&simulation);
            assert!(
                outcome.reading.statistics.written > 0 && outcome.reading.statistics.reclaimed_background > 0
            );
            for file in files {
                simulation.memory().delete_file(file);
            }
            simulation.memory().list_collected();
            let now = simulation.memory().free_frames();
            assert_eq!(now, free, "{schedule:?} {slack:?}");
        }
    }
}

/// The sums over runs of the same programs with different start times. A single run is a matter of chance.
fn sums(schedule: Schedule, slack: Picoseconds) -> [(&'static str, u64); 5] {
    let mut sums = [("accesses", 0), ("elapsed", 0), ("interrupts", 0), ("misses", 0), ("scanned", 0)];
    for round in 0..8 {
        let starts = [0, 1, 2, 3].map(|cpu| (cpu * round) % 7 * US);
        let options = Options { slack, ..Options::new(schedule) };
        let Outcome { elapsed, reading, .. } = mixed_run(&machine(&[4], 4096), options, &starts);
        let (counters, statistics) = (reading.counters, reading.statistics);
        let figures =
            [reading.accesses, elapsed, counters.interrupts, reading.misses_load, statistics.scanned];
        for ((_, sum), figure) in sums.iter_mut().zip(figures) {
            *sum += figure;
        }
    }
    sums
}

#[test]
fn slack_changes_the_results_little() {
    for schedule in SCHEDULES {
        let precise = sums(schedule, 0);
        for slack in [2_000_000, US / 2] {
            for ((what, rough), (_, precise)) in sums(schedule, slack).into_iter().zip(precise) {
                let ratio = rough as f64 / precise as f64;
                assert!(
                    (0.9..1.1).contains(&ratio),
                    "{what}: {rough} with slack {slack:?}, {precise} without, {schedule:?}"
                );
            }
        }
        assert!(precise.iter().all(|(_, sum)| *sum > 500), "{precise:?}");
    }
}

#[test]
fn setting_up_takes_no_time() {
    let started = |files: u32| {
        let simulation =
            Simulation::new(&machine(&[2], 4096), Options::new(Schedule::Batched)).expect("it fits");
        for _ in 0..files {
            simulation.memory().create_file(10).expect("a free object");
        }
        mixed(&simulation, &[0, 0]);
        run(&simulation).elapsed
    };
    assert_eq!(started(0), started(500));
}

#[test]
fn a_run_can_be_stopped_in_the_middle() {
    let mut stopped = 0;
    for stop_after in 1..6 {
        let simulation =
            Simulation::new(&machine(&[4], 4096), Options::new(Schedule::Batched)).expect("it fits");
        mixed(&simulation, &[0; 4]);
        let mut left = stop_after;
        let goes_on = |_, _| {
            left -= 1;
            left > 0
        };
        let outcome = simulation.run(goes_on).expect("no trace");
        let unfinished = |thread: &ThreadTime| !thread.kernel && thread.ended.is_none();
        stopped += u32::from(outcome.threads.iter().any(unfinished));
    }
    assert!(stopped > 0);
}

#[test]
fn a_run_beyond_the_end_of_simulated_time_is_an_error() {
    let simulation = Simulation::new(&machine(&[4], 4096), Options::new(Schedule::Batched)).expect("it fits");
    let space = simulation.memory().new_space().expect("a frame");
    for cpu in 0..2 {
        let hour = 3_600_000_000 * US;
        let body = move |program: &ceasefire_machine::Program| (0..6).for_each(|_| program.compute(hour));
        simulation.spawn("slow", cpu, 0, &space, body).expect("a stack");
    }
    let error = simulation.run(|_, _| true).expect_err("the limit is five hours");
    assert!(matches!(error, RunError::TooLong), "{error}");
}

#[test]
#[should_panic(expected = "a mistake in a program")]
fn a_panic_in_a_program_ends_the_run() {
    let simulation = Simulation::new(&machine(&[4], 4096), Options::new(Schedule::Batched)).expect("it fits");
    mixed(&simulation, &[0; 3]);
    let space = simulation.memory().new_space().expect("a frame");
    simulation.spawn("panics", 3, 3000 * US, &space, |_| panic!("a mistake in a program")).expect("a stack");
    run(&simulation);
}
