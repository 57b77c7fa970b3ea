//! Whole runs of experiments, through the crate's interface.

#[cfg(ceasefire_sabotage)]
mod power;
mod switching;
mod tiered_inference;
mod time;
mod tlb_flush2;
