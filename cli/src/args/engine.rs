//! The arguments of `check`.

use clap::Args;

use super::value::{schedules, seed, some};

#[derive(Debug, Args)]
pub(crate) struct CheckArguments {
    /// The scenarios, by their names or by how the names begin [default: all]
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenarios: Vec<String>,
    /// Take away a guard of the engine or a promise of the hardware, and show how a rule breaks
    #[arg(long, value_name = "GUARD")]
    pub(crate) without: Option<String>,
    /// Try only the schedule with this seed, and show it; with --random, the first seed
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<u64>,
    /// Try so many schedules of random operations, on twelve machines in turn
    #[arg(long, value_name = "N", value_parser = schedules, conflicts_with_all = ["scenarios", "without", "schedules"])]
    pub(crate) random: Option<u64>,
    /// The schedules to try of each scenario with its guards; each is run twice and compared
    #[arg(long, value_name = "N", value_parser = schedules, default_value_t = 1000, conflicts_with = "seed")]
    pub(crate) schedules: u64,
    /// The number of scenarios at a time [default: the number of processors of this computer]
    #[arg(long, value_name = "N", value_parser = some)]
    pub(crate) jobs: Option<u16>,
}
