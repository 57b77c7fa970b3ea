//! Whole runs of experiments, through the crate's interface.

mod switching;
mod tiered_inference;
mod time;
mod tlb_flush2;
