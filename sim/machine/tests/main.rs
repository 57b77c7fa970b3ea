//! The machine from outside: one program, so that it is linked once.

mod common;
mod conformance;
mod contents;
mod corpus;
mod effects;
mod interrupts;
mod large;
mod luf;
mod ranges;
mod rules;
mod scheduler;
mod trace;
mod whole;
