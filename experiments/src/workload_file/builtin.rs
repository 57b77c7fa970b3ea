//! The workload files in the tree.

use super::experiments;
use crate::experiment::Experiment;

/// The name, the text, and whether it runs when the command line names no experiment.
pub(super) type File = (&'static str, &'static str, bool);

macro_rules! file {
    ($name:literal, $by_default:literal) => {
        ($name, include_str!(concat!("../../workloads/", $name, ".toml")), $by_default)
    };
}

pub(super) const FILES: [File; 10] = [
    file!("mmap-read", true),
    file!("tlb-flush2", true),
    file!("tlb-flush2-processes", false),
    file!("write-heavy", false),
    file!("small-machine", false),
    file!("mmap-database", false),
    file!("purging-allocator", false),
    file!("wasm-pool", false),
    file!("gc-scavenger", false),
    file!("model-server", false),
];

/// The names of the workloads that answer users' questions, in the order in which they are listed.
pub(crate) const PRESETS: [&str; 5] =
    ["mmap-database", "purging-allocator", "wasm-pool", "gc-scavenger", "model-server"];

/// The experiments of the file with this name in the tree.
///
/// # Panics
/// If there is no such file, or it is not valid.
pub(crate) fn builtin(name: &str) -> Vec<Experiment> {
    let file = FILES.iter().find(|(known, ..)| *known == name);
    let (_, text, by_default) = file.unwrap_or_else(|| panic!("no workload file is called {name}"));
    experiments(&format!("{name}.toml"), name, text, *by_default).unwrap_or_else(|error| panic!("{error}"))
}
