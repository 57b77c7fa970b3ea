//! Texts as workload files: read, or refused in one line that names the place.

#![no_main]
// The tests use more of this module.
#![allow(dead_code)]

#[path = "../../../sim/experiments/tests/corpus.rs"]
mod corpus;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| corpus::check(bytes));
