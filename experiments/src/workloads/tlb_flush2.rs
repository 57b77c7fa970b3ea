//! `tlb-flush2`: threads of one program that flush single pages all the time (BROADCAST; will-it-scale `tlb_flush2_threads`).
//!
//! Each thread has a CPU of its own. Again and again it maps 1 MiB of anonymous memory, and for each page of it stores,
//! gives the page back with madvise(DONTNEED), and loads: that must find zero. Then it unmaps the whole. So each loop is
//! two faults, a frame allocated, and a flush of one page on every CPU that runs the program; and a kernel without that
//! flush would be caught by the load.
//!
//! What the threads share is the space: its lock, taken shared three times a loop and exclusively twice in 256 loops, and
//! the lock of the node's lists of pages. How often the latter is taken depends on when new pages are listed, which can be
//! chosen.
//!
//! The paper counts loops of all threads in 5 s, after 5 s of warm-up. The scale is that of both times. So that the threads'
//! rounds do not begin all at once for ever, each begins its first somewhere.
//!
//! `tlb-flush2-processes` is no paper's: many processes of four threads each, more of them than global ASIDs, and more threads
//! than CPUs. Between its loops a thread computes, and the warm-up is twice as long, since all that is shared by the whole machine
//! is asked for by all of them at first. It shows who gets an ASID where not all can, and that nobody starves.

use std::cell::Cell;
use std::rc::Rc;

use ceasefire_machine::config::Machine;
use ceasefire_machine::{Options, Program, Reading, Simulation};
use ceasefire_memory::{Config, FaultError, LruDrain, PAGE_BYTES};

use super::random::Random;
use crate::experiment::Mechanism;
use crate::experiment::{Experiment, Sweep};
use crate::measurement::Verdict;
use crate::run::PerProcess;
use crate::run::{Finished, Plan, RunError, Started};

/// Pages that a thread maps at a time: 1 MiB.
const PAGES: u64 = 256;
/// How long is measured at full size: 5 s, in picoseconds.
const WINDOW: u64 = 5_000_000_000_000;
/// Pages that a CPU of Linux 6.13 collects before it lists them (`PAGEVEC_SIZE`).
const FOLIO_BATCH: usize = 31;

/// Memory that is simulated for each CPU, whatever the scale: the frames that it keeps, and its page tables.
const BYTES_PER_CPU: u64 = 2 << 20;

pub(crate) const EXPERIMENT: Experiment = Experiment {
    name: "tlb-flush2",
    paper: "BROADCAST: R. van Riel, 2025, patch series version 14",
    description: "threads of one program that each flush one page after the other",
    machines: &["milan-36", "milan-72"],
    mechanisms: &[Mechanism::Batched, Mechanism::Broadcast],
    scale: 1.0 / 256.0,
    by_default: true,
    nodes: 1,
    windowed: true,
    sweep: Some(sweep),
    crowded: false,
    // The scale is not that of the memory.
    bytes_per_cpu: 1,
    bytes_per_node: 0,
    contents_bytes: |plan| u64::from(plan.machine.topology.cpu_count()) * BYTES_PER_CPU,
    start: |plan| start(plan, None),
};

pub(crate) const EXPERIMENT_PROCESSES: Experiment = Experiment {
    name: "tlb-flush2-processes",
    paper: "none: the load of BROADCAST in more processes than there are ASIDs for",
    description: "processes of four threads that each flush one page after the other",
    machines: &["milan-8192"],
    mechanisms: &[Mechanism::Batched, Mechanism::Broadcast],
    scale: 1.0 / 64.0,
    by_default: false,
    sweep: Some(|machine| Sweep {
        threads: vec![(u32::from(machine.topology.cpu_count()) * 5 / 2).min(u16::MAX.into()) as u16],
        lru_drains: vec![LruDrain::Batched],
    }),
    crowded: true,
    start: |plan| start(plan, Some(PER_PROCESS)),
    ..EXPERIMENT
};

/// Threads of a process, where there are many.
const PER_PROCESS: u16 = 4;
/// How long they compute between two loops: 200 us, in picoseconds. All CPUs together then make 25 million loops a second, which is
/// more than twice the broadcasts that the interconnect carries, one after the other.
const BETWEEN: u64 = 200_000_000;

/// As in the paper: on the smaller machine all CPUs, with both ways to list pages; on the larger powers of two and all.
fn sweep(machine: &Machine) -> Sweep {
    let cpus = machine.topology.cpu_count();
    if machine.name == "milan-72" && cpus == 72 {
        let threads = vec![1, 2, 4, 8, 16, 32, 64, 72];
        return Sweep { threads, lru_drains: vec![LruDrain::Eager, LruDrain::Batched] };
    }
    Sweep { threads: vec![cpus], lru_drains: vec![LruDrain::Eager, LruDrain::Batched] }
}

/// What the threads share.
struct Test {
    begin: u64,
    end: u64,
    loops: Cell<u64>,
    /// What was read, and how many loops there were, when the first thread came to the beginning and to the end.
    first: Cell<Option<(Reading, u64)>>,
    last: Cell<Option<(Reading, u64)>>,
    verdict: Cell<Verdict>,
    done: Cell<f64>,
    /// How many threads could not go on, and what stopped the first.
    failed: Cell<Option<(u16, FaultError)>>,
}

fn start(plan: &Plan, per_process: Option<u16>) -> Result<Started, RunError> {
    let needed = u64::from(plan.machine.topology.cpu_count()) * BYTES_PER_CPU;
    let part = (needed as f64 / plan.machine.topology.bytes() as f64).min(1.0);
    let machine = plan.machine.scaled(part).map_err(RunError::Machine)?;
    let drain = plan.lru_drain.unwrap_or_default();
    let configure = move |config: &mut Config| {
        (config.lru_batch, config.lru_drain) = (FOLIO_BATCH, drain);
    };
    let simulation =
        Simulation::new(&machine, Options { configure: Box::new(configure), ..plan.options()? })?;
    let window = (WINDOW as f64 * plan.scale) as u64;
    let warm_up = if per_process.is_some() { 2 * window } else { window };
    let test = Rc::new(Test {
        begin: warm_up,
        end: warm_up + window,
        loops: Cell::new(0),
        first: Cell::new(None),
        last: Cell::new(None),
        verdict: Cell::new(Verdict::default()),
        done: Cell::new(0.0),
        failed: Cell::new(None),
    });
    let (threads, cpus) = (plan.thread_count(), machine.topology.cpu_count());
    let members = per_process.unwrap_or(threads);
    let between = per_process.map_or(0, |_| BETWEEN);
    let (contents, scale) = (plan.keeps_contents(), plan.scale);
    let mut processes = Vec::new();
    for number in 0..threads {
        if number % members == 0 {
            processes.push((simulation.memory().new_space()?, Rc::new(Cell::new(0))));
        }
        let Some((space, own)) = processes.last() else { unreachable!("the first thread begins a process") };
        let first = Random::of_thread(plan.seed, number.into()).below(PAGES);
        let thread = Thread { test: test.clone(), own: own.clone(), first, between, contents };
        simulation.spawn(format!("tlb_flush2/{number}"), number % cpus, 0, space, move |program| {
            if let Err(error) = thread.flush_pages(program) {
                let (others, first) = thread.test.failed.get().unwrap_or((0, error));
                thread.test.failed.set(Some((others + 1, first)));
            }
        })?;
    }
    let loops: Vec<Rc<Cell<u64>>> = processes.into_iter().map(|(_, own)| own).collect();
    let done = test.clone();
    Ok(Started {
        simulation,
        starts: vec![0; threads.into()],
        progress: Box::new(move |_| done.done.get()),
        finish: Box::new(move |_| {
            if let Some((failed, error)) = test.failed.get() {
                return Err(RunError::ThreadsFailed { failed, threads, error });
            }
            let window = test.first.get().zip(test.last.get());
            let count = window.map_or(0, |((_, before), (_, after))| after - before);
            if count == 0 {
                return Err(RunError::NothingMeasured { scale });
            }
            Ok(Finished {
                operations: count,
                window: window.map(|((before, _), (after, _))| (before, after)),
                verdict: test.verdict.get(),
                latency: None,
                atomic: None,
                per_process: per_process.map(|_| PerProcess::of(loops.iter().map(|own| own.get()))),
            })
        }),
    })
}

impl Test {
    /// A thread has done a loop; whether it is to go on.
    fn count(&self, program: &Program) -> bool {
        self.loops.set(self.loops.get() + 1);
        let now = program.now();
        self.done.set(now as f64 / self.end as f64);
        if now >= self.begin && self.first.get().is_none() {
            self.first.set(Some((program.reading(), self.loops.get())));
        }
        if now >= self.end && self.last.get().is_none() {
            self.last.set(Some((program.reading(), self.loops.get())));
        }
        now < self.end
    }
}

/// One thread.
struct Thread {
    test: Rc<Test>,
    /// Loops that its process has done while they were counted.
    own: Rc<Cell<u64>>,
    /// The page of its first round at which it begins.
    first: u64,
    /// How long it computes after each loop.
    between: u64,
    contents: bool,
}

impl Thread {
    fn flush_pages(&self, program: &Program) -> Result<(), FaultError> {
        let mut from = self.first;
        loop {
            let base = program.system_call(|memory, space| memory.map_anonymous(space, PAGES));
            let base = base.map_err(|_| FaultError::OutOfMemory)?;
            for page in from..PAGES {
                let address = base + page * PAGE_BYTES;
                program.store(address, 1, 1)?;
                let given_back =
                    program.system_call(|memory, space| memory.discard(space, address, PAGE_BYTES));
                given_back.map_err(|_| FaultError::NotMapped(address))?;
                let found = program.load(address, 1)?;
                if self.contents {
                    let told = self.test.verdict.get();
                    self.test.verdict.set(told + Verdict { compared: 1, wrong: u64::from(found != 0) });
                }
                if !self.test.count(program) {
                    return Ok(());
                }
                if self.test.first.get().is_some() && self.test.last.get().is_none() {
                    self.own.set(self.own.get() + 1);
                }
                if self.between > 0 {
                    program.compute(self.between);
                }
            }
            from = 0;
            let unmapped = program.system_call(|memory, space| memory.unmap(space, base, PAGES * PAGE_BYTES));
            unmapped.map_err(|_| FaultError::OutOfMemory)?;
        }
    }
}

#[cfg(test)]
mod tests {
    use ceasefire::Settle;
    use ceasefire_machine::config::builtin;

    use super::*;
    use crate::run::{compare, Report};

    fn plan(machine: &str, mechanism: Mechanism) -> Plan {
        Plan {
            experiment: Experiment::find("tlb-flush2").expect("an experiment"),
            machine: builtin(machine).expect("a listed name").expect("a valid file"),
            mechanism,
            settle: Settle::Free,
            threads: None,
            lru_drain: None,
            scale: 1.0 / 4096.0,
            seed: 1,
            oracle: false,
            trace: None,
        }
    }

    fn run(plan: &Plan) -> Report {
        plan.run(|_| ()).expect("a run")
    }

    #[test]
    fn no_load_finds_what_was_given_back_and_the_oracle_changes_nothing() {
        for mechanism in Mechanism::ALL {
            for (threads, lru_drain) in [(5, LruDrain::Eager), (9, LruDrain::Batched)] {
                let plan = Plan {
                    threads: Some(threads),
                    lru_drain: Some(lru_drain),
                    ..plan("milan-36", mechanism)
                };
                let watched = run(&Plan { oracle: true, ..plan.clone() });
                assert_eq!((watched.violations, watched.loads_wrong), (0, 0), "{:?}", watched.broken);
                assert!(watched.loads_compared > watched.operations && watched.operations > 100);
                let alone = run(&plan);
                let figures = |report: &Report| {
                    (
                        [report.operations, report.interrupts, report.broadcasts, report.flushes_full],
                        [report.tlb_misses_load, report.tlb_misses_store, report.faults],
                        report.lock_wait_s.to_bits(),
                    )
                };
                assert_eq!(figures(&watched), figures(&alone), "{mechanism} with {threads} threads");
            }
        }
    }

    #[test]
    fn broadcasts_take_the_place_of_interrupts_where_the_mechanism_turns_them_on() {
        for (mechanism, broadcasts) in
            [(Mechanism::Batched, false), (Mechanism::Broadcast, true), (Mechanism::All, true)]
        {
            let report = run(&Plan { threads: Some(16), ..plan("milan-36", mechanism) });
            assert_eq!(report.broadcasts > report.operations / 2, broadcasts, "{mechanism}");
            assert_eq!(report.interrupts < report.operations / 4, broadcasts, "{mechanism}");
        }
        // Hardware that does not broadcast in reality may be asked what it would do.
        let report = run(&Plan { threads: Some(8), ..plan("1-socket", Mechanism::Broadcast) });
        assert!(report.broadcasts > 0 && report.published.is_empty());
    }

    #[test]
    fn what_cannot_run_is_refused_with_the_reason() {
        let mut no_asids = plan("1-socket", Mechanism::Broadcast);
        no_asids.machine.processor.asids = false;
        let mut few_asids = plan("1-socket", Mechanism::All);
        few_asids.machine.processor.asid_space = 8;
        let crowded = Plan { threads: Some(37), ..plan("milan-36", Mechanism::Batched) };
        let nobody = Plan { threads: Some(0), ..crowded.clone() };
        let migrate = Experiment::find("migrate").expect("an experiment");
        let fixed =
            Plan { experiment: migrate, threads: Some(2), ..plan("2-socket-intel", Mechanism::Batched) };
        for (plan, reason) in [
            (
                no_asids,
                "'broadcast' needs TLB entries with ASIDs, which this machine has not (processor.asids)",
            ),
            (few_asids, "processor.asid_space, less the 2 that x86 does not use: 6 ASIDs are too few"),
            (crowded, "37 threads, each on a CPU of its own: must be 1 to 36"),
            (nobody, "0 threads, each on a CPU of its own: must be 1 to 36"),
            (fixed, "the number of threads cannot be chosen for this experiment"),
        ] {
            let Err(error) = plan.run(|_| ()) else { panic!("must be refused: {reason}") };
            assert!(error.to_string().starts_with(reason), "{error}");
        }
    }

    #[test]
    fn a_run_in_which_threads_fail_or_nothing_is_measured_is_no_result() {
        let experiment = Experiment::find("tlb-flush2-processes").expect("an experiment");
        // Two CPUs have 4 MiB here, and 400 processes five frames or more each.
        let crowd =
            Plan { experiment, threads: Some(1600), scale: 0.1, ..plan("small-vm", Mechanism::Batched) };
        let error = crowd.run(|_| ()).expect_err("memory runs out").to_string();
        assert!(error.contains(" of 1600 threads could not go on: "), "{error}");
        // All map their memory first, one after the other under one lock, which takes 512 of them longer than half a millisecond.
        let mut short = Plan { threads: Some(36), ..plan("milan-36", Mechanism::Batched) };
        short.scale = 0.0001;
        short.machine = short.machine.with_cpus(512).expect("allowed");
        short.threads = Some(512);
        let error = short.run(|_| ()).expect_err("too short").to_string();
        assert_eq!(
            error,
            "at scale 0.0001 no operation ended in the time that is measured: choose a larger one"
        );
    }

    #[test]
    fn every_case_is_beside_its_own_published_figure_and_baseline() {
        let mut reports = Vec::new();
        for (threads, lru_drain) in [(2, LruDrain::Batched), (8, LruDrain::Batched), (8, LruDrain::Eager)] {
            for mechanism in [Mechanism::Batched, Mechanism::Broadcast] {
                let (threads, lru_drain) = (Some(threads), Some(lru_drain));
                reports.push(run(&Plan { threads, lru_drain, ..plan("milan-72", mechanism) }));
            }
        }
        compare(&mut reports);
        let figures: Vec<_> = reports
            .iter()
            .map(|report| report.published.get("loops_per_second").map(|row| (row.before, row.after)))
            .collect();
        let (two, eight) = (Some((423e3, 424e3)), Some((652e3, 1267e3)));
        assert_eq!(figures, [two, two, eight, eight, None, None]);
        let ours = reports[3].published["loops_per_second"].ours.expect("a baseline");
        let ratio = reports[3].operations_per_s / reports[2].operations_per_s;
        assert!((ours - ratio).abs() < 1e-9);
    }

    /// The paper's two tables: each figure is within a quarter of the paper's, on 36 cores within a fifth; which mechanism is
    /// faster, where the lines cross and where they are highest is as there.
    #[test]
    fn the_tables_have_the_papers_shape() {
        let mut peaks = [(0.0, 0); 2];
        let rows = ["milan-36", "milan-72"].map(|machine| crate::published::published("tlb-flush2", machine));
        for row in rows.into_iter().flatten() {
            let case = row.case.expect("a case");
            let lru_drain = if case.lru_drain == "eager" { LruDrain::Eager } else { LruDrain::Batched };
            let ours = [Mechanism::Batched, Mechanism::Broadcast].map(|mechanism| {
                let (threads, lru_drain) = (Some(case.threads), Some(lru_drain));
                let scale = 1.0 / 256.0;
                run(&Plan { threads, lru_drain, scale, ..plan(row.machine, mechanism) }).operations_per_s
            });
            let most = if row.machine == "milan-36" { 0.20 } else { 0.25 };
            for (ours, published) in ours.iter().zip([row.before, row.after]) {
                assert!((ours / published - 1.0).abs() < most, "{row:?}: {ours}");
            }
            let gain = ours[1] / ours[0];
            if row.machine == "milan-72" {
                assert!(if case.threads <= 2 { gain < 1.05 } else { gain > 1.3 }, "{row:?}: {gain}");
                for (peak, ours) in peaks.iter_mut().zip(ours) {
                    if ours > peak.0 {
                        *peak = (ours, case.threads);
                    }
                }
            } else {
                assert!(if case.lru_drain == "eager" { gain < 1.1 } else { gain > 1.3 }, "{row:?}: {gain}");
            }
        }
        assert!(peaks.iter().all(|(_, threads)| (8..=32).contains(threads)), "{peaks:?}");
    }

    #[test]
    fn no_process_starves_where_there_are_more_than_cpus_and_asids() {
        let experiment = Experiment::find("tlb-flush2-processes").expect("an experiment");
        let (threads, scale) = (Some(80), 1.0 / 64.0);
        let mut plan = Plan { experiment, threads, scale, ..plan("milan-36", Mechanism::Broadcast) };
        // Four global ASIDs for two dozen processes.
        plan.machine.processor.asid_space = 12;
        plan.machine = plan.machine.with_cpus(32).expect("fewer than it has");
        for mechanism in [Mechanism::Broadcast, Mechanism::All] {
            let report = run(&Plan { mechanism, oracle: true, ..plan.clone() });
            let all = report.per_process.expect("many processes");
            assert_eq!((all.processes, report.threads), (20, 80));
            assert!(all.least > 0 && all.least * 20 > all.most, "{all:?}");
            assert!(report.broadcasts > 0 && report.interrupts > 0);
            assert_eq!((report.violations, report.loads_wrong), (0, 0), "{:?}", report.broken);
        }
    }
}
