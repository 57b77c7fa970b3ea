//! Faults: filling in the translation that a program missed.

pub(crate) mod fault;
