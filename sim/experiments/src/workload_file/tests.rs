//! Runs of small workload files: the counts that each operation makes. And any text as a file.

use ceasefire_machine::config::{builtin, Linux, Machine};
use proptest::prelude::*;

use super::*;
use crate::experiment::Mechanism;
use crate::run::{Plan, Report};
use crate::workloads::files;

/// A machine with enough memory for all of these workloads.
fn machine(cpus: u32) -> Machine {
    let machine = builtin("1-socket").expect("a listed name").expect("a valid file");
    machine.with_cpus(cpus).expect("an allowed number")
}

/// Runs the workload on a machine of four CPUs under every check.
fn run_with(text: &str, mechanism: Mechanism) -> Report {
    run_planned(&Plan { mechanism, ..plan(text, machine(4)) })
}

/// The plan of the workload on a machine.
fn plan(text: &str, machine: Machine) -> Plan {
    let text = format!("memory = '32 MiB'\n{text}");
    let experiments = experiments("f", "f", &text, &[], None).unwrap_or_else(|error| panic!("{error}"));
    let [experiment] = experiments.try_into().expect("one variant");
    Plan::new(Box::leak(Box::new(experiment)), machine)
}

fn run_planned(plan: &Plan) -> Report {
    plan.check().expect("it fits");
    let report = plan.run(|_| ()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((report.violations, report.loads_wrong.unwrap_or(0)), (0, 0), "{:?}", report.broken);
    report
}

fn run(text: &str) -> Report {
    run_with(text, Mechanism::Batched)
}

/// One process of one thread with these mappings or allocators, and one phase.
fn process(memory: &str, times: u32, operations: &str) -> String {
    format!("[[process]]\nname = 'p'\n{memory}\n[[process.phase]]\ntimes = {times}\ndo = [{operations}]\n")
}

fn error_of(text: &str) -> String {
    match variants::read_all("f", text, &[]) {
        Ok(_) => panic!("must be refused: {text}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn each_page_that_is_mapped_anew_faults_once() {
    let operations = "{ mmap = 'm' }, { store = 'm', pages = 16, words = 3 }, { load = 'm', pages = 16 }, { munmap = 'm' }";
    let report = run(&process("mapping.m = { size = '64 KiB', mapped = false }", 10, operations));
    assert_eq!((report.operations, report.faults, report.accesses), (10, 160, 10 * 16 * 4));
    assert_eq!(report.loads_compared, Some(160));
}

#[test]
fn a_renewed_mapping_is_all_zeros_again() {
    let memory = "mapping.m = { size = '64 KiB', of = 'thread', renew = true }";
    let report = run(&process(memory, 160, "{ store = 'm' }, { load = 'm', pattern = 'same' }"));
    assert_eq!((report.faults, report.accesses), (160, 320));
}

#[test]
fn a_striped_access_divides_the_pages_among_threads() {
    let memory = "threads = 4\nmapping.m = { size = '256 KiB' }";
    for times in [16, 48] {
        let report = run(&process(memory, times, "{ store = 'm', striped = true }"));
        assert_eq!(
            (report.operations, report.faults),
            (u64::from(times) * 4, 64),
            "each comes back to its own pages"
        );
    }
}

/// A thread that gives pages back in batches, beside one that computes on another CPU.
fn batches(batch: u32) -> Report {
    let giver = process(
        "mapping.m = { size = '256 KiB' }",
        10,
        &format!("{{ store = 'm', pages = 64 }}, {{ madvise = 'm', pattern = 'sequential', pages = 64, batch = {batch} }}"),
    );
    let other = "[[process]]\nname = 'other'\ninside = 'p'\ncpus = [1]\n[[process.phase]]\nuntil = 'p'\n\
                 do = [{ compute = '1 us' }]";
    run(&format!("{giver}{other}"))
}

#[test]
fn a_call_for_a_batch_of_pages_interrupts_once() {
    for batch in [1, 4, 64] {
        let report = batches(batch);
        assert_eq!((report.operations, report.faults), (10, 640), "the other thread counts no rounds");
        // The end of the process interrupts once more.
        assert_eq!(report.shootdowns, 640 / u64::from(batch) + 1, "batches of {batch}");
        assert!(report.interrupts <= report.shootdowns);
    }
}

#[test]
fn accesses_keep_to_their_share_of_stores() {
    for (stores, expected) in [("0", 0.0), ("'1/4'", 0.25), ("0.5", 0.5), ("1", 1.0)] {
        let memory = "mapping.m = { size = '64 MiB' }\nmapping.file = { size = '64 KiB', file = 'sparse' }";
        let touch = format!("{{ touch = 'm', stores = {stores}, pattern = 'random' }}");
        let report = run(&process(memory, 4000, &touch));
        // A page that is loaded first has no frame of its own, so each store to one misses.
        let misses =
            report.tlb_misses_store as f64 / (report.tlb_misses_store + report.tlb_misses_load) as f64;
        assert_eq!(report.accesses, 4000);
        assert!((misses - expected).abs() < 0.05, "{stores}: {misses}");
    }
}

#[test]
fn a_choice_is_drawn_by_weight_and_counts_only_where_it_says_so() {
    let choose =
        "{ choose = [{ weight = 3, store = 'm', counts = false }, { weight = 1, load = 'm', words = 100 }] }";
    let report = run(&process("mapping.m = { size = '16 KiB' }", 4000, choose));
    let loads = (report.accesses - 4000) as f64 / 99.0;
    assert!(
        (loads - report.operations as f64).abs() < 0.5 && (loads / 4000.0 - 0.25).abs() < 0.03,
        "{loads}"
    );
}

#[test]
fn a_forked_child_copies_each_page_that_it_stores_to() {
    let child =
        "[[process]]\nname = 'child'\nforked_by = 'p'\n[[process.phase]]\ntimes = 1\ncounts = false\n\
                 do = [{ load = 'm', pages = 16 }, { store = 'm', pages = 4 }, { load = 'm', pages = 16 }]";
    let forks = "{ fork = 'child' }, { load = 'm', pages = 16 }";
    let parent = process("mapping.m = { size = '64 KiB' }", 1, "{ store = 'm', pages = 16 }");
    let parent = format!("{parent}[[process.phase]]\ntimes = 5\ndo = [{forks}]\n");
    let report = run(&format!("{parent}{child}"));
    // The child finds the pages mapped, except those whose table entries a store changes.
    assert_eq!((report.operations, report.faults), (1 + 5, 16 + 5 * 4));
    assert_eq!(report.threads, 1, "children are not among the threads at the start");
}

/// The faults of a thread that takes an object of four pages and frees it, again and again, 20 us apart.
fn faults_of_allocator(purge: &str) -> u64 {
    let memory = format!("allocator.heap = {{ size = '256 KiB', object = '16 KiB', purge = '{purge}' }}");
    let operations =
        "{ allocate = 'heap' }, { touch = 'heap', stores = '1/2' }, { free = 'heap' }, { compute = '20 us' }";
    let report = run(&process(&memory, 100, operations));
    assert_eq!(report.accesses, 500);
    report.faults
}

#[test]
fn an_allocator_keeps_pages_for_as_long_as_it_says() {
    assert_eq!(faults_of_allocator("at once"), 400);
    assert_eq!(faults_of_allocator("10 us"), 400, "old when the next object is taken");
    assert_eq!(faults_of_allocator("1 s"), 4);
    assert_eq!(faults_of_allocator("never"), 4);
}

#[test]
fn a_pool_gives_slots_back_in_batches_and_hands_out_none_before() {
    for batch in [1u32, 8, 16] {
        let memory = format!(
            "allocator.slots = {{ size = '256 KiB', object = '16 KiB', used = '8 KiB', batch = {batch} }}"
        );
        let beside =
            "[[process]]\nname = 'other'\ninside = 'p'\ncpus = [1]\n[[process.phase]]\nuntil = 'p'\n\
                      do = [{ compute = '1 us' }]";
        let text = process(&memory, 160, "{ allocate = 'slots' }, { free = 'slots' }");
        let report = run(&format!("{text}{beside}"));
        assert_eq!(
            (report.faults, report.shootdowns),
            (320, 160 / u64::from(batch) + 1),
            "batches of {batch}, and the end"
        );
    }
}

#[test]
fn a_scavenger_gives_back_what_it_is_told_to() {
    let memory = "allocator.heap = { size = '256 KiB', object = '16 KiB', purge = 'never', batch = 2 }";
    let operations =
        "{ allocate = 'heap', objects = 8 }, { free = 'heap', objects = 8 }, { purge = 'heap', objects = 6 }";
    let report = run(&process(memory, 10, operations));
    assert_eq!(report.faults, 32 + 9 * 24, "two of eight objects keep their pages");
}

#[test]
fn an_empty_allocator_fails_the_run() {
    let memory = "allocator.heap = { size = '16 KiB', object = '16 KiB' }";
    let text = process(memory, 2, "{ allocate = 'heap' }");
    let experiments = experiments("f", "f", &text, &[], None).expect("valid");
    let [experiment] = experiments.try_into().expect("one variant");
    let plan = Plan { scale: 0.01, ..Plan::new(Box::leak(Box::new(experiment)), machine(1)) };
    let error = plan.run(|_| ()).expect_err("no object is left").to_string();
    assert_eq!(error, "the machine ran out of memory after 1 of 2 operations");
}

#[test]
fn pages_that_programs_dropped_are_compared_with_zeros_even_beside_other_threads() {
    let text = "[[process]]\nname = 'p'\nthreads = 4\nmapping.m = { size = '128 KiB' }\n[[process.phase]]\ntimes = 500\n\
                do = [{ touch = 'm', stores = 0.5, pattern = 'random', pages = 4 }, { madvise = 'm', pattern = 'random' }]";
    for mechanism in [Mechanism::Batched, Mechanism::Lazy, Mechanism::All] {
        assert!(run_with(text, mechanism).loads_compared > Some(1000));
    }
    for advice in ["free", "cold", "pageout"] {
        let text =
            text.replace("pattern = 'random' }]", &format!("pattern = 'zipf', advice = '{advice}' }}]"));
        assert!(run_with(&text, Mechanism::Lazy).loads_compared > Some(1000), "{advice}");
    }
}

#[test]
fn rounds_start_at_their_rate_and_their_times_are_measured() {
    let text =
        process("", 10, "{ compute = '30 us' }").replace("times", "latency = true\nevery = '100 us'\ntimes");
    let report = run(&text);
    assert!(report.elapsed_s >= 1e-3 && report.elapsed_s < 1.1e-3, "{}", report.elapsed_s);
    let latency = report.latency.expect("measured");
    assert_eq!(latency.count, 10);
    assert!((latency.p50_s - 30e-6).abs() < 1e-6, "{}", latency.p50_s);
}

#[test]
fn protecting_a_range_faults_on_the_next_stores() {
    let operations =
        "{ store = 'm', pages = 16 }, { mprotect = 'm', to = 'read' }, { mprotect = 'm', to = 'write' }";
    let report = run(&process("mapping.m = { size = '64 KiB' }", 4, operations));
    assert_eq!((report.operations, report.faults), (4, 64));
}

#[test]
fn a_stored_file_that_is_stored_to_begins_with_its_bytes() {
    let memory = "mapping.f = { size = '256 KiB', file = 'stored', writable = true }";
    let report = run(&process(memory, 500, "{ touch = 'f', stores = 0.5, pattern = 'random' }"));
    assert!(report.loads_compared > Some(200));
}

#[test]
fn rounds_without_any_work_end_too() {
    let text = "[measure]\ntime = '10 us'\n[[process]]\nname = 'p'\nthreads = 2\n\
                allocator.a = { size = '16 KiB', object = '16 KiB' }\n[[process.phase]]\n\
                do = [{ free = 'a' }, { do = [{ load = 'a' }], times = 10 }]";
    assert!(run(text).operations > 0);
}

#[test]
fn a_child_of_a_parent_without_mappings_ends() {
    let child = "[[process]]\nname = 'child'\nforked_by = 'p'\n[[process.phase]]\ntimes = 1\ndo = [{ sleep = '1 us' }]";
    let parent = process("mapping.m = { size = '64 KiB' }", 3, "{ munmap = 'm' }, { fork = 'child' }");
    assert_eq!(run(&format!("{parent}{child}")).operations, 3 + 3);
}

#[test]
fn the_kernel_of_a_machine_comes_before_that_of_the_workload() {
    let text = |kernel: &str| format!("[kernel]\n{kernel}\n{}", process("", 1, "{ sleep = '1 us' }"));
    let of = |kernel: &str, linux| plan(&text(kernel), Machine { linux, ..machine(4) }).kernel;
    let new = Some(Linux::V6_13);
    assert_eq!(
        [of("", None), of("", new), of("linux = '6.9'", None), of("linux = '6.9'", new)],
        [Linux::V7_2, Linux::V6_13, Linux::V6_9, Linux::V6_13]
    );
    let known = r#""4.2", "6.3", "6.9", "6.12", "6.13", "6.18", "7.2""#;
    let expected = format!("f:2: kernel.linux: \"6.10\": must be one of {known}");
    assert_eq!(error_of(&text("linux = '6.10'")), expected);
    assert_eq!(error_of(&text("linux = 6.10")), "f:2: kernel.linux: 6.10: must be a text: \"6.10\"");
    let top = format!("linux = '6.9'\n{}", process("", 1, "{ sleep = '1 us' }"));
    assert_eq!(error_of(&top), "f:1: linux: unknown key; did you mean 'kernel.linux'?");
}

#[test]
fn mistakes_are_answered_with_the_place_and_the_bound() {
    let of = |memory: &str, operations: &str| error_of(&process(memory, 1, operations));
    let heap = "mapping.heap = { size = '1 MiB' }";
    for (memory, operations, expected) in [
        (heap, "{ laod = 'heap' }", "f:6: process[0].phase[0].do[0].laod: unknown key; did you mean 'load'?"),
        (heap, "{ load = 'heep' }", "f:6: process[0].phase[0].do[0].load: \"heep\": must be one of heap; did you mean 'heap'?"),
        (heap, "{ load = 'heap', patern = 'random' }", "f:6: process[0].phase[0].do[0].patern: unknown key; did you mean 'pattern'?"),
        (heap, "{ load = 'heap', words = 513 }", "f:6: process[0].phase[0].do[0].words: 513: must be 1 to 512"),
        (heap, "{ touch = 'heap', stores = 1.5 }", "f:6: process[0].phase[0].do[0].stores: \"1.5\": must be 0 to 1, such as 0.5 or \"1/3\""),
        (heap, "{ write = 'heap' }", "f:6: process[0].phase[0].do[0].write: \"heap\": must be a file of the process with writable = true"),
        (heap, "{ weight = 1 }", "f:6: process[0].phase[0].do[0].weight: unknown key"),
        (heap, "{ }", "f:6: process[0].phase[0].do[0]: an operation without a kind: must be one of load, store, touch, write, mmap, munmap, madvise, mprotect, fork, allocate, free, purge, compute, sleep, choose, do"),
        (heap, "{ free = 'heap' }", "f:6: process[0].phase[0].do[0].free: \"heap\": must be declared first"),
        ("mapping.f = { size = '1 MiB', file = 'sparse' }", "{ store = 'f' }", "f:6: process[0].phase[0].do[0].store: a store to f: must be to a mapping with writable = true"),
        ("mapping.m = { size = 'heap / 2' }", "{ load = 'm' }", "f:3: process[0].mapping.m.size: \"heap / 2\": must be made of numbers and memory, page, CPUs, processes, threads"),
        ("mapping.m = { }", "{ load = 'm' }", "f:3: process[0].mapping.m.size: missing"),
        ("threads = 2\nmapping.m = { size = '1 MiB' }", "{ munmap = 'm' }", "f:7: process[0].phase[0].do[0].munmap: \"m\": must be a mapping of the thread (of = \"thread\")"),
        ("processes = 2\nthreads_in_all = 4", "{ sleep = '1 us' }", "f:1: process[0]: threads_in_all: must be left out with processes"),
        ("threads = '$threads'", "{ sleep = '1 us' }", "f:3: process[0].threads: \"$threads\": must be a parameter: [sweep] has no threads"),
    ] {
        assert_eq!(of(memory, operations), expected);
    }
    let endless = "[[process]]\nname = 'p'\n[[process.phase]]\ndo = [{ sleep = '1 us' }]";
    let expected = "f:3: process[0].phase[0]: a phase without end: must be limited by times or until, or the run by [measure]";
    assert_eq!(error_of(endless), expected);
    assert_eq!(error_of("procces = 1"), "f: process: missing");
}

#[test]
fn a_workload_that_does_not_fit_the_machine_is_refused_before_it_runs() {
    for (memory, expected) in [
        ("cpus = [4]", "f:4: process[0].cpus[0]: \"4\": must be below 4, the number of CPUs"),
        ("processes = 70000", "f:4: process[0].processes: \"70000\": must be at most 65535"),
        (
            "mapping.m = { size = '100 TiB' }",
            "f:4: process[0].mapping.m.size: \"100 TiB\": must be at most 4294967295 pages",
        ),
    ] {
        let plan = plan(&process(memory, 1, "{ compute = '1 us' }"), machine(4));
        assert_eq!(plan.check().expect_err("does not fit").to_string(), expected);
    }
}

#[test]
fn every_file_in_the_tree_is_valid_and_has_its_own_name() {
    for (name, text) in files() {
        let all = experiments(name, name, text, &[], None).unwrap_or_else(|error| panic!("{error}"));
        for experiment in all {
            for machine in experiment.machines.iter().filter(|name| **name != "host") {
                let machine = ceasefire_machine::config::builtin(machine)
                    .expect("a listed name")
                    .expect("a valid file");
                let plan = Plan::new(Experiment::find(experiment.name).expect("listed"), machine);
                assert!(plan.check().is_ok(), "{}", experiment.name);
            }
        }
    }
}

/// A piece of a workload file, valid or not.
fn piece() -> impl Strategy<Value = String> {
    const WORDS: &[&str] = &[
        "[[process]]\n",
        "[[process.phase]]\n",
        "name",
        "p",
        "do",
        "=",
        "'p'",
        "'heap'",
        "[",
        "]",
        "{",
        "}",
        ",",
        "\n",
        "times",
        "3",
        "0",
        "-1",
        "1.5",
        "'64 KiB'",
        "'1/4 of memory'",
        "'CPUs'",
        "mapping.heap",
        "allocator.pool",
        "size",
        "object",
        "batch",
        "store",
        "load",
        "touch",
        "madvise",
        "stores",
        "pattern",
        "'zipf'",
        "skew",
        "fork",
        "forked_by",
        "inside",
        "until",
        "cpus",
        "'rest'",
        "[sweep]\n",
        "[measure]\n",
        "[kernel]\n",
        "linux",
        "'$x'",
        "x",
        "'10 us'",
        "think",
        "choose",
        "true",
    ];
    prop_oneof![prop::sample::select(WORDS).prop_map(str::to_owned), "[ -~\n]{0,6}"]
}

proptest! {
    #[test]
    fn no_text_panics(pieces in prop::collection::vec(piece(), 0..60)) {
        let _ = variants::read_all("f", &pieces.join(" "), &[]);
    }

    #[test]
    fn no_change_to_a_valid_file_panics(
        file in any::<prop::sample::Index>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0usize..12, piece()), 1..6),
        cpus in 1u32..9,
    ) {
        let mut text: Vec<char> = file.get(&files()).1.chars().collect();
        for (at, length, piece) in changes {
            let at = at.index(text.len() + 1);
            let end = (at + length).min(text.len());
            text.splice(at..end, piece.chars());
        }
        let text: String = text.into_iter().collect();
        for (_, workload) in variants::read_all("f", &text, &[]).into_iter().flatten() {
            let _ = Layout::new(&workload, &machine(cpus).topology, cpus.into());
        }
    }
}
