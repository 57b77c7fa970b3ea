//! Files of perf record and of trace-cmd: imported and replayed, or refused in one line.

#![no_main]
// The tests use more of this module.
#![allow(dead_code)]

#[path = "../../../linux/tests/corpus.rs"]
mod corpus;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| corpus::check_import(bytes));
