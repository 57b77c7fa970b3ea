//! What the running kernel says about itself in `/proc` and `/sys`.

pub mod interrupts;
pub mod machine;
pub(crate) mod mappings;
pub mod symbols;
pub mod threads;
