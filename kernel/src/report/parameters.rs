//! The options of the run, and the counters that programs may read.

use ceasefire_kernel_abi::options::Options;
use ceasefire_kernel_abi::{Counter, Parameter, LOCKUP, PROGRAMS};
use spin::Once;

use crate::manager::memory;
use crate::threads::cpu;

static OPTIONS: Once<Options> = Once::new();

/// Sets the run's options, once.
pub(crate) fn set(options: Options) {
    OPTIONS.call_once(|| options);
}

pub(super) fn options() -> Options {
    OPTIONS.get().copied().unwrap_or(Options::DEFAULT)
}

pub(super) fn frames() -> u64 {
    memory().config().nodes.iter().map(|node| u64::from(node.frames)).sum()
}

/// Whether the run goes on after what a stale translation showed.
pub(crate) fn is_unchecked() -> bool {
    options().unchecked
}

/// Whether the last CPU must turn its interrupts off for good.
pub(crate) fn is_lockup() -> bool {
    options().program == LOCKUP
}

/// One of the run's options, or a property of the machine.
pub(crate) fn parameter(parameter: Parameter) -> u64 {
    let options = options();
    match parameter {
        Parameter::Program => PROGRAMS.iter().take_while(|known| **known != options.program).count() as u64,
        Parameter::Cpus => cpu::all().len() as u64,
        Parameter::Nodes => options.nodes as u64,
        Parameter::Frames => frames(),
        Parameter::Seconds => options.seconds,
        Parameter::Limit => options.limit,
        Parameter::Seed => options.seed,
        Parameter::Pinned => u64::from(options.pinned),
        Parameter::Unchecked => u64::from(is_unchecked()),
        Parameter::Pages => options.pages,
        Parameter::Threads => options.threads,
        Parameter::Swap => u64::from(memory().config().swap_pages),
        Parameter::Scenarios => options.scenarios,
    }
}

/// The present value of a counter.
pub(crate) fn counter(counter: Counter) -> u64 {
    let statistics = memory().statistics();
    match counter {
        Counter::Interrupts => memory().counters().interrupts,
        Counter::Faults => statistics.faults,
        Counter::Reclaimed => statistics.reclaimed_background + statistics.reclaimed_direct,
        Counter::Migrated => statistics.migrated,
        Counter::Written => statistics.written,
        Counter::Read => statistics.read + statistics.swapped_in,
        Counter::Free => memory().free_frames(),
    }
}
