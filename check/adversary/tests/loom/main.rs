//! The engine's own code under loom: every order of the accesses of six cores of the protocol.
//!
//! A model has two or three threads and is exhaustive within the bound of preemptions that it states. The engine is the
//! real one, from the same sources; [`explorer`] gives every atomic access of it to loom.
//!
//! Each model has a second test that makes it fail: with weaker orderings, or with two steps in the wrong order. It
//! shows that the model has the interleaving against which the ordering is there.
//!
//! `cargo test -p ceasefire-adversary --test loom -- --nocapture` prints the number of executions of each model.

mod cpu_set;
mod explorer;
mod generations;
mod inbox;
mod ledger;
mod machine;
mod settle;
mod switch;
mod tag;

use ceasefire::CpuId;

fn cpu(number: usize) -> CpuId {
    CpuId::new(number).expect("the engine has room for four CPUs")
}
