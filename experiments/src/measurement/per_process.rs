//! How the operations of a run are spread over its processes.

use serde::Serialize;

/// How many operations the processes of a run did while they were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct PerProcess {
    /// How many processes there were.
    pub processes: usize,
    /// What the one did that did the fewest.
    pub least: u64,
    /// What the one did that did the most.
    pub most: u64,
}

impl PerProcess {
    pub(crate) fn of(operations: impl Iterator<Item = u64> + Clone) -> Self {
        let (least, most) = (operations.clone().min(), operations.clone().max());
        Self { processes: operations.count(), least: least.unwrap_or(0), most: most.unwrap_or(0) }
    }
}
