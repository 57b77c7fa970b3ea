//! The kernel.

fn main() {}
