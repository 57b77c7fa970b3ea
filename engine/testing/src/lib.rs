//! Machines without hardware, for those who port the engine: on them, tests run code that is generic over
//! [`Platform`](ceasefire::Platform).
//!
//! - [`Tlb`] is the TLB of one CPU. It evicts nothing by itself and invalidates no more than it is told, so a missing
//!   flush leaves an entry that a test finds. A platform of a port's own tests needs one for each CPU.
//! - [`Machine`] has such TLBs and does what a test says, one step at a time. A test can act in the middle of a flush or
//!   of a switch, as another CPU would. The engine's laws are shown on it.
//! - [`TableLock`] and [`SpaceLock`] stand for the locks of a kernel whose tests run on one thread.

mod locks;
mod scripted;
mod tlb;

use ceasefire::{Capabilities, Walkers};

pub use locks::{SpaceLock, TableLock};
pub use scripted::{Carried, Event, Filled, Machine, Point, Script, Space};
pub use tlb::{Scope, Started, Tlb};

/// The number of cases that a random search tries, of `all`. It is a twentieth if the environment has `CEASEFIRE_SHORT`, as
/// `cargo xtask test` sets it, and a thousandth under Miri, which takes a thousand times as long for each case.
pub fn cases(all: u32) -> u32 {
    let part = if cfg!(miri) {
        1000
    } else if std::env::var_os("CEASEFIRE_SHORT").is_some() {
        20
    } else {
        1
    };
    all.div_ceil(part)
}

/// Every promise of a processor but broadcasts. Page tables are walked under locks alone.
pub const PROMISES: Capabilities =
    Capabilities { clean_stores_walk: true, asids: true, broadcast: None, walkers: Walkers::Locked };
