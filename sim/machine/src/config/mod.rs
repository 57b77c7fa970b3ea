//! The description of a machine: its nodes, CPUs, TLBs, latencies and costs. Each number has a unit and a source.
//!
//! A machine comes from a TOML file ([`Machine::from_file`]), is built in ([`builtin()`]), or resembles the computer
//! that runs this program ([`Machine::host`]).
//!
//! `machine` comes first, then its parts, one file each. `mark`, `range` and `quantity` read TOML, `file` and `host`
//! assemble a machine, and `builtin` holds the files that come with the program. `change` sets numbers in a file.

mod builtin;
mod change;
mod contention;
mod copy;
mod costs;
mod effect;
mod file;
mod host;
mod identity;
mod idle;
mod latency;
mod linux;
mod machine;
mod mark;
mod matrix;
mod memory;
mod processor;
mod quantity;
mod range;
mod smt;
mod storage;
#[cfg(test)]
mod testing;
mod tlb;
mod topology;

pub use crate::document::{Error as MachineError, Problem};
pub use builtin::{builtin, BUILTIN, HOST};
pub use change::{Change, MachineFile, NoChange};
pub use contention::{Contention, Waiting};
pub use copy::CopyCost;
pub use costs::{Cost, Costs};
pub use effect::Effect;
pub use identity::sha256;
pub use idle::IdleState;
pub use latency::Latency;
pub use linux::{Linux, KERNELS};
pub use machine::Machine;
pub use mark::{Mark, Marks};
pub use memory::TierMemory;
pub use processor::Processor;
pub use quantity::{Parameter, Picoseconds};
pub use range::Range;
pub use smt::Smt;
pub use storage::Storage;
pub use tlb::{TlbGeometry, TlbLevel, MAX_ENTRIES};
pub use topology::{Node, Topology, MAX_CPUS, MAX_NODES};
