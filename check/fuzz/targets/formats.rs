//! Formats of events, with records: fields lie in their record, or are not read.

#![no_main]
// The tests use more of this module.
#![allow(dead_code)]

#[path = "../../../linux/tests/corpus.rs"]
mod corpus;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| corpus::check_format(bytes));
