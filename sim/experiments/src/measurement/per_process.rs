//! The spread of a run's operations over its processes.

use serde::Serialize;

/// The numbers of operations that a run's processes did within the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PerProcess {
    /// The number of processes.
    pub processes: usize,
    /// The fewest operations of a process.
    pub least: u64,
    /// The most operations of a process.
    pub most: u64,
}

impl PerProcess {
    pub(crate) fn of(operations: impl Iterator<Item = u64> + Clone) -> Self {
        let (least, most) = (operations.clone().min(), operations.clone().max());
        Self { processes: operations.count(), least: least.unwrap_or(0), most: most.unwrap_or(0) }
    }
}
