//! The time that shared lines take.

use ceasefire::{Flush, PageSize, Schedule, PLACES};

use super::*;
use crate::testing::{machine, FAR, US};
use crate::{Options, Simulation};

/// A machine of `cpus` that runs no thread, and as many spaces as `spaces`. Time passes.
fn set_up(cpus: u16, spaces: usize) -> (Simulation, Vec<SpaceHandle<Sim>>) {
    let options = Options::new(Schedule::Batched);
    let simulation = Simulation::new(&machine(cpus), options).expect("it fits");
    let spaces = (0..spaces).map(|_| simulation.memory().new_space().expect("a frame")).collect();
    simulation.sim.standing.set(false);
    (simulation, spaces)
}

/// The time that a CPU takes for `body`.
fn timed(sim: &Sim, cpu: usize, body: impl FnOnce(&Sim)) -> Picoseconds {
    sim.cpus.turn_to(cpu);
    let before = sim.cpu().clock.get();
    body(sim);
    sim.cpu().clock.get() - before
}

/// The time that a switch of a CPU takes beyond the loading of the root and the flush that may come with it.
fn lines(sim: &Sim, cpu: usize, space: &SpaceHandle<Sim>) -> Picoseconds {
    let flushes = sim.cpus[cpu].engine.counters().flushes_full;
    let time = timed(sim, cpu, |sim| sim.run_space(space));
    let full = sim.cpus[cpu].engine.counters().flushes_full - flushes;
    time - sim.machine.costs.root_load - full * sim.machine.costs.invalidate_asid
}

/// The same, long after all other CPUs were at any line.
fn lines_alone(sim: &Sim, cpu: usize, space: &SpaceHandle<Sim>) -> Picoseconds {
    let latest = sim.cpus.iter().map(|cpu| cpu.clock.get()).max().unwrap_or(0);
    sim.cpus[cpu].clock.set(latest + US);
    lines(sim, cpu, space)
}

#[test]
fn a_cpu_that_takes_a_place_waits_for_two_lines() {
    let (simulation, spaces) = set_up(2, 1);
    let sim = &simulation.sim;
    assert_eq!(lines_alone(sim, 0, &spaces[0]), 0, "no CPU has touched the lines");
    assert_eq!(lines_alone(sim, 1, &spaces[0]), 2 * FAR, "the line of the set, and that of the count");
}

#[test]
fn a_switch_between_kept_places_waits_for_no_line() {
    let (simulation, spaces) = set_up(2, PLACES);
    let sim = &simulation.sim;
    for cpu in [0, 1] {
        for space in &spaces {
            lines_alone(sim, cpu, space);
        }
    }
    if PLACES == 1 {
        return;
    }
    for cpu in [0, 1, 0, 1] {
        for space in &spaces {
            assert_eq!(lines_alone(sim, cpu, space), 0);
        }
    }
}

#[test]
fn a_switch_beyond_the_places_waits_for_the_lines_of_both_spaces() {
    let (simulation, spaces) = set_up(2, PLACES + 1);
    let sim = &simulation.sim;
    for space in &spaces {
        assert_eq!(lines_alone(sim, 0, space), 0);
    }
    for space in &spaces[..PLACES] {
        assert_eq!(lines_alone(sim, 1, space), 2 * FAR);
    }
    assert_eq!(
        lines_alone(sim, 1, &spaces[PLACES]),
        2 * FAR,
        "it has touched the lines of the oldest before"
    );
    // CPU 0 comes back to the first space and gives up the second. It finds the lines of both at CPU 1.
    assert_eq!(lines_alone(sim, 0, &spaces[0]), 4 * FAR);
    // Of the second it has them now. It gives up the third, or with one place the first, whose lines it has too.
    let third = if PLACES == 1 { 0 } else { 2 };
    assert_eq!(lines_alone(sim, 0, &spaces[1]), third * FAR);
}

#[test]
fn cpus_that_come_at_once_get_the_lines_one_after_the_other() {
    let (simulation, spaces) = set_up(3, 1);
    let sim = &simulation.sim;
    // All switch at time 0. The second waits for its two lines. The third gets the first line when the second has it,
    // and the second line at the moment at which the second CPU has that.
    let times = [0, 1, 2].map(|cpu| lines(sim, cpu, &spaces[0]));
    assert_eq!(times, [0, 2 * FAR, 3 * FAR]);
}

#[test]
fn cpus_of_different_lines_share_only_the_count() {
    let (simulation, spaces) = set_up(1024, 1);
    let sim = &simulation.sim;
    let times = [0, 511, 512, 1023].map(|cpu| lines_alone(sim, cpu, &spaces[0]));
    assert_eq!(times, [0, 2 * FAR, FAR, 2 * FAR]);
}

#[test]
fn a_space_gets_new_lines_though_its_root_was_anothers() {
    let (simulation, spaces) = set_up(2, 1);
    let sim = &simulation.sim;
    lines_alone(sim, 0, &spaces[0]);
    let root = spaces[0].root();
    sim.cpus.turn_to(0);
    simulation.memory().exit(spaces[0].clone());
    let held: Vec<_> = (0..64).map(|_| simulation.memory().new_space().expect("a frame")).collect();
    let next = held.iter().find(|space| space.root() == root).expect("the frame is used again");
    assert_eq!(lines_alone(sim, 1, next), 0, "no CPU has touched its lines");
}

/// Flushes a page of a space, and returns the time for looks.
fn looks(sim: &Sim, cpu: usize, space: &SpaceHandle<Sim>) -> Picoseconds {
    let flushed = sim.cpus[cpu].engine.counters();
    let time = timed(sim, cpu, |sim| {
        sim.memory().engine().flush(space.coherence(), Flush::page(0x1000, PageSize::KIB_4));
    });
    let since = sim.cpus[cpu].engine.counters().since(&flushed);
    assert_eq!(since.shootdowns, 0, "the test interrupts no CPU");
    time - since.flushes_page * sim.machine.costs.invalidate_page
}

#[test]
fn a_flush_reads_the_records_of_the_cpus_that_it_passes_over() {
    let (simulation, spaces) = set_up(4, 2);
    let sim = &simulation.sim;
    for cpu in 1..4 {
        lines_alone(sim, cpu, &spaces[0]);
        timed(sim, cpu, |sim| sim.rest());
    }
    assert_eq!(looks(sim, 0, &spaces[1]), 0, "no CPU is in the set");
    assert_eq!(looks(sim, 0, &spaces[0]), 3 * FAR, "three CPUs are in the set and lazy");
    assert_eq!(looks(sim, 0, &spaces[0]), 0, "their records have not changed");
    sim.cpus.turn_to(2);
    sim.run_space(&spaces[0]);
    sim.rest();
    assert_eq!(looks(sim, 0, &spaces[0]), FAR, "one has");
    assert_eq!(looks(sim, 1, &spaces[0]), 2 * FAR, "another CPU has not looked at the other two yet");
    let spent = sim.reading().spent;
    assert!(spent.flushes >= 6 * FAR, "{spent:?}");
}

#[test]
fn a_flush_passes_over_a_cpu_that_keeps_its_place() {
    let (simulation, spaces) = set_up(2, 2);
    let sim = &simulation.sim;
    for space in &spaces {
        lines_alone(sim, 1, space);
    }
    let kept = u64::from(PLACES > 1);
    assert_eq!(looks(sim, 0, &spaces[0]), kept * FAR);
    assert_eq!(looks(sim, 0, &spaces[0]), 0);
}
