//! The engine's laws. Each is shown on a machine that does what the test says.

mod batch;
mod broadcast;
mod claims;
mod corpus;
mod devices;
mod elsewhere;
mod gather;
mod hands;
mod holes;
mod interleaved;
mod interrupts;
mod kernel_ranges;
mod panics;
mod paying;
mod pending;
mod presence;
mod random;
mod requests;
mod retirement;
#[cfg(ceasefire_sabotage)]
mod sabotage;
mod script;
mod settled;
mod settling;
mod sizes;
mod switching;
mod threads;
mod transitions;
mod walkers;
