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

use ceasefire::Capabilities;

pub use locks::{SpaceLock, TableLock};
pub use scripted::{Carried, Event, Filled, Machine, Point, Script, Space};
pub use tlb::{Scope, Started, Tlb};

/// Every promise of a processor but broadcasts.
pub const PROMISES: Capabilities = Capabilities { clean_stores_walk: true, asids: true, broadcast: None };
