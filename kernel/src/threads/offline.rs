//! CPUs that go offline and come back.
//!
//! A thread asks, and waits. The CPU gives up its thread at the next chance and takes no other. Its idle thread closes
//! the queue, moves all threads that wait there to other CPUs, and tells the engine. The CPU then flushes its TLB and
//! halts, and admits no interrupt but the doorbell that calls it back. A thread that is tied to the CPU runs on others
//! meanwhile. The first CPU never goes.

use ceasefire_kernel_abi::Error;

use crate::arch::clock;
use crate::arch::interrupts::{self, Admitted};
use crate::arch::tlb;
use crate::failure::event::{record, What};
use crate::manager::memory;
use crate::threads::cpu::{self, PerCpu};
use crate::threads::presence::{Presence, AWAY, HERE, RETURNING};
use crate::threads::schedule;

/// The time from one look at a CPU's state to the next, in nanoseconds; it is rounded up to a tick.
const LOOK: u64 = 1_000_000;

/// Takes a CPU offline, and brings it back after some time. The calling thread sleeps meanwhile.
///
/// # Errors
/// [`Error::Invalid`] for the first CPU, [`Error::Busy`] if another thread is taking the CPU offline.
pub(crate) fn take_offline(number: usize, nanoseconds: u64) -> Result<(), Error> {
    if number == 0 || number >= cpu::all().len() {
        return Err(Error::Invalid);
    }
    let presence = &cpu::get(number).presence;
    if !presence.ask_to_go() {
        return Err(Error::Busy);
    }
    interrupts::send_wake(number);
    wait_for(presence, AWAY);
    schedule::sleep_until(clock::now().saturating_add(nanoseconds));
    presence.set(RETURNING);
    interrupts::send_doorbell(number);
    wait_for(presence, HERE);
    Ok(())
}

/// Sleeps until the CPU has come to `state`.
fn wait_for(presence: &Presence, state: u8) {
    while !presence.is(state) {
        // It may be this CPU, which waits for this thread to leave.
        schedule::give_way();
        schedule::sleep_until(clock::now() + LOOK);
    }
}

/// Leaves, and returns when this CPU has come back. The idle thread of a CPU that is asked to go calls it, with
/// interrupts off.
pub(super) fn stay_away(here: &PerCpu) {
    schedule::close(here);
    record(What::Offline, 1, 0);
    drop(memory().engine().offline());
    // R2: tables of kernel ranges may be freed from now on, and it still has those on which it walks when it wakes.
    tlb::invalidate_all();
    interrupts::admit(Admitted::Doorbell);
    here.presence.set(AWAY);
    while !here.presence.is(RETURNING) {
        interrupts::wait();
        interrupts::off();
    }
    memory().engine().online();
    interrupts::admit(Admitted::All);
    record(What::Offline, 0, 0);
    schedule::open(here);
    here.presence.set(HERE);
}
