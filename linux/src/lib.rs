//! TLB shootdowns of a Linux machine.
//!
//! `tracefs` reads the events of the running kernel.
