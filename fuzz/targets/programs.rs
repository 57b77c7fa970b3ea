//! Programs on the simulated machine: every load and call agrees with the plain model of memory.

#![no_main]
// The tests use more of these modules, and have imports of their own.
#![allow(dead_code, unused_imports)]

#[path = "../../machine/tests/model/call.rs"]
mod call;
#[path = "../../machine/tests/model/calls.rs"]
mod calls;
#[path = "../../machine/tests/common/mod.rs"]
mod common;
#[path = "../../machine/tests/model/content.rs"]
mod content;
#[path = "../../machine/tests/model/corpus.rs"]
mod corpus;
#[path = "../../machine/tests/model/flight.rs"]
mod flight;
#[path = "../../machine/tests/model/generate.rs"]
mod generate;
#[path = "../../machine/tests/model/model.rs"]
mod model;
#[path = "../../machine/tests/model/operation.rs"]
mod operation;
#[path = "../../machine/tests/model/plan.rs"]
mod plan;
#[path = "../../machine/tests/model/run.rs"]
mod run;
#[path = "../../machine/tests/model/script.rs"]
mod script;
#[path = "../../machine/tests/model/search.rs"]
mod search;
#[path = "../../machine/tests/model/shrink.rs"]
mod shrink;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(difference) = corpus::run_bytes(bytes) {
        panic!("{difference}");
    }
});
