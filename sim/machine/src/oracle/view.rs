//! The part of the machine that the oracle looks at.

/// The meaning of a page-table entry for one small page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Translation {
    pub(crate) frame: u32,
    pub(crate) writable: bool,
    /// Whether it shows that the page was stored to.
    pub(crate) dirty: bool,
}

/// The machine as the oracle sees it.
pub(crate) trait View {
    /// The time on the clock of the CPU whose turn it is, in nanoseconds.
    fn now_ns(&self) -> u64;
    /// The thread that this CPU runs.
    fn thread(&self) -> Option<usize>;
    /// The CPU whose turn it is.
    fn this_cpu(&self) -> usize;
    /// The number of CPUs.
    fn cpu_count(&self) -> usize;
    /// The root that a CPU has loaded; `None` for the kernel's own tables.
    fn root(&self, cpu: usize) -> Option<u32>;
    /// The ASID that a CPU has loaded.
    fn asid(&self, cpu: usize) -> u16;
    /// Whether a CPU is lazy.
    fn is_lazy(&self, cpu: usize) -> bool;
    /// The translation of a page by the tables under `root` now.
    fn translation(&self, root: u32, page: u64) -> Option<Translation>;
    /// The node of a frame.
    fn node_of(&self, frame: u32) -> usize;
    /// The most frames of a node that may be in debt: its bound, and what batches under way and CPUs' lists may add.
    fn most_owing(&self, node: usize) -> usize;
    /// The greatest age that a debt may reach: its bound and one tick, in nanoseconds.
    fn oldest_debt_ns(&self) -> u64;
}
