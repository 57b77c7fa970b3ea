//! The machines of the laws: scripted ones, with the capabilities and the bounds that a law needs.

use ceasefire::{
    Bounds, Broadcast, Capabilities, CpuId, Holders, Payment, DYNAMIC_ASIDS, SINGLE_PAGE_CEILING,
};
pub(crate) use ceasefire_testing::{Carried, Event, Machine, Point, Script, Space, PROMISES};

pub(crate) fn id(cpu: usize) -> CpuId {
    CpuId::new(cpu).unwrap()
}

/// A machine that promises everything but broadcasts.
pub(crate) fn machine(cpus: usize) -> Machine {
    machine_with(cpus, PROMISES)
}

/// Everything, with `asids` ASIDs, of which every space gets one.
pub(crate) fn every(asids: u32) -> Capabilities {
    let broadcast = Broadcast::new(asids, 4, Holders::Every).expect("enough ASIDs");
    Capabilities { broadcast: Some(broadcast), ..PROMISES }
}

/// Everything, with `asids` ASIDs beside the slots, for spaces that two CPUs run at once.
pub(crate) fn wide(asids: u32) -> Capabilities {
    let broadcast = Broadcast::new(DYNAMIC_ASIDS as u32 + asids, 4, Holders::Wide).expect("enough ASIDs");
    Capabilities { broadcast: Some(broadcast), ..PROMISES }
}

/// A machine that broadcasts, with `asids` ASIDs, of which every space gets one.
pub(crate) fn broadcasting(cpus: usize, asids: u32) -> Machine {
    machine_with(cpus, every(asids))
}

/// A machine that broadcasts for spaces that two CPUs run at once, and interrupts for the others.
pub(crate) fn hybrid(cpus: usize, asids: u32) -> Machine {
    machine_with(cpus, wide(asids))
}

/// The same, whose batches may leave debts.
pub(crate) fn lazy_hybrid(cpus: usize, asids: u32) -> Machine {
    lazy_with(cpus, wide(asids), Payment::Free)
}

/// A machine that broadcasts for every space, whose batches may leave debts.
pub(crate) fn lazy_broadcasting(cpus: usize, asids: u32) -> Machine {
    lazy_with(cpus, every(asids), Payment::Free)
}

pub(crate) fn machine_with(cpus: usize, capabilities: Capabilities) -> Machine {
    Machine::new(cpus, capabilities, SINGLE_PAGE_CEILING, Bounds::STRICT)
}

/// A machine that promises everything, with a flush ceiling of its own.
pub(crate) fn machine_with_ceiling(cpus: usize, ceiling: u32) -> Machine {
    Machine::new(cpus, PROMISES, ceiling, Bounds::STRICT)
}

/// A machine that promises everything but broadcasts, whose lazy batches may leave debts of up to 1000 ns. Time
/// advances by a nanosecond each time it is read.
pub(crate) fn lazy(cpus: usize) -> Machine {
    lazy_until(cpus, Payment::Free)
}

/// The same, with debts settled as `settle` says.
pub(crate) fn lazy_until(cpus: usize, payment: Payment) -> Machine {
    lazy_with(cpus, PROMISES, payment)
}

/// A machine whose batches may leave debts of up to 1000 ns, with these promises.
pub(crate) fn lazy_with(cpus: usize, capabilities: Capabilities, payment: Payment) -> Machine {
    let bounds = Bounds::new(1000, 100, payment).expect("they can be kept");
    Machine::new(cpus, capabilities, SINGLE_PAGE_CEILING, bounds)
}
