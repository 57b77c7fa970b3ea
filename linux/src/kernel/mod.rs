//! What the running kernel says about itself in `/proc` and `/sys`.

pub mod interrupts;
pub mod machine;
pub mod symbols;
pub mod threads;
