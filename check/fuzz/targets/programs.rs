//! Programs on the simulated machine: every load and call agrees with the plain model of memory.

#![no_main]
// The tests use more of these modules, and have imports of their own.
#![allow(dead_code, unused_imports)]

#[path = "../../../sim/machine/tests/model/call.rs"]
mod call;
#[path = "../../../sim/machine/tests/model/calls.rs"]
mod calls;
#[path = "../../../sim/machine/tests/common/mod.rs"]
mod common;
#[path = "../../../sim/machine/tests/model/content.rs"]
mod content;
#[path = "../../../sim/machine/tests/model/corpus.rs"]
mod corpus;
#[path = "../../../sim/machine/tests/model/flight.rs"]
mod flight;
#[path = "../../../sim/machine/tests/model/generate.rs"]
mod generate;
#[path = "../../../sim/machine/tests/model/model.rs"]
mod model;
#[path = "../../../sim/machine/tests/model/operation.rs"]
mod operation;
#[path = "../../../sim/machine/tests/model/plan.rs"]
mod plan;
#[path = "../../../sim/machine/tests/model/run.rs"]
mod run;
#[path = "../../../sim/machine/tests/model/script.rs"]
mod script;
#[path = "../../../sim/machine/tests/model/search.rs"]
mod search;
#[path = "../../../sim/machine/tests/model/shrink.rs"]
mod shrink;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(difference) = corpus::run_bytes(bytes) {
        panic!("{difference}");
    }
});
