//! The engine's laws, each shown on a machine that does what the test says.

mod batch;
mod broadcast;
mod devices;
mod gather;
mod holes;
mod interleaved;
mod random;
mod requests;
#[cfg(ceasefire_sabotage)]
mod sabotage;
mod script;
mod settled;
mod sizes;
mod switching;
mod threads;
mod transitions;
