//! The engine's laws. Each is shown on a machine that does what the test says.

mod batch;
mod broadcast;
mod corpus;
mod devices;
mod elsewhere;
mod gather;
mod hands;
mod holes;
mod interleaved;
mod interrupts;
mod kernel_ranges;
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

/// The number of cases of a test, or of seeds. Miri takes a thousand times as long for each, so it tries a thousandth.
const fn cases(all: u32) -> u32 {
    if cfg!(miri) {
        all.div_ceil(1000)
    } else {
        all
    }
}
