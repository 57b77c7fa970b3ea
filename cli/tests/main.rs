//! The command as its users run it. Tests that look at this machine or its terminal are programs of their own.

mod check;
mod command;
mod common;
mod files;
mod fit;
mod identity;
mod manual;
mod published;
mod repeats;
mod replay;
mod reviewers;
#[cfg(unix)]
mod sanitize;
mod sweep;
mod sweep_on_ray;
mod worked_example;
mod workload_files;
mod wrong_inputs;
