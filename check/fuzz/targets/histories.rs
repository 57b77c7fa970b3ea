//! Histories of the engine's laws: no rule breaks.

#![no_main]
// The tests use more of these modules, and have imports of their own.
#![allow(dead_code, unused_imports)]

#[path = "../../../engine/tests/laws/corpus.rs"]
mod corpus;
#[path = "../../../engine/tests/laws/hands.rs"]
mod hands;
#[path = "../../../engine/tests/laws/random.rs"]
mod random;
#[path = "../../../engine/tests/laws/script.rs"]
mod script;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Err(broken) = corpus::play_bytes(bytes) {
        panic!("{broken}");
    }
});
