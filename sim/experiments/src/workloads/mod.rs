//! The workloads of the experiments.
//!
//! A workload in Rust has a file here, whose `experiments` are those that run it. A workload in TOML is a file of the
//! folder `sim/experiments/workloads`. A new one needs its file and a line in the list below.
//!
//! `stream` and `random` are shared by several workloads.

mod random;
mod stream;

pub(crate) use random::Random;
pub(crate) use stream::{Reader, Stream};

use crate::experiment::{Experiment, Overview};
use crate::workload_file::in_tree;

/// Lists the workloads: modules in Rust, and files, with their size in the overview.
macro_rules! workloads {
    (@module rust $name:ident) => {
        mod $name;
    };
    (@module $kind:ident $name:literal) => {};
    (@experiments rust $name:ident) => {
        $name::experiments()
    };
    (@experiments file $name:literal) => {
        in_tree($name, include_str!(concat!("../../workloads/", $name, ".toml")), None)
    };
    (@experiments file $name:literal $overview:expr) => {
        in_tree($name, include_str!(concat!("../../workloads/", $name, ".toml")), Some($overview))
    };
    (@text rust $name:ident) => {
        None
    };
    (@text $kind:ident $name:literal) => {
        Some(($name, include_str!(concat!("../../workloads/", $name, ".toml"))))
    };
    ($($kind:ident $name:tt $(in $overview:expr)?;)*) => {
        $(workloads!(@module $kind $name);)*

        /// All experiments, in the order of the list.
        pub(crate) fn all() -> Vec<Experiment> {
            let mut all = Vec::new();
            $(all.extend(workloads!(@experiments $kind $name $($overview)?));)*
            all
        }

        /// The name and text of each file in the tree.
        pub(crate) fn files() -> Vec<(&'static str, &'static str)> {
            [$(workloads!(@text $kind $name)),*].into_iter().flatten().collect()
        }
    };
}

// The command line lists and runs them in this order. The last five put questions of users.
workloads! {
    file "mmap-read" in Overview { scale: 1.0 / 256.0, repeats: 2 };
    rust migrate;
    rust tiered_inference;
    file "tlb-flush2" in Overview { scale: 1.0 / 256.0, repeats: 2 };
    file "tlb-flush2-processes";
    file "write-heavy";
    rust fork_heavy;
    rust allocation_latency;
    file "small-machine";
    rust switching;
    file "mmap-database";
    file "purging-allocator";
    file "wasm-pool";
    file "gc-scavenger";
    file "model-server";
}
