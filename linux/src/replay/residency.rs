//! What each CPU runs.
//!
//! The kernel's switches tell it. Before the first switch of a CPU, and after events of it were lost, any event of a
//! thread tells it too. From a switch on, other events do not count: the kernel says that it switches before it does,
//! and a flush in between still belongs to the thread that leaves.

/// What a CPU runs.
#[derive(Debug, Clone, Copy, Default)]
struct Runs {
    /// The process; 0 for the kernel or nothing. None if nothing is known yet.
    process: Option<u32>,
    /// Whether a switch told it.
    is_sure: bool,
}

/// What each CPU runs.
#[derive(Debug)]
pub(super) struct Residency(Vec<Runs>);

impl Residency {
    /// Nothing is known of so many CPUs.
    pub(super) fn new(cpus: usize) -> Self {
        Self(vec![Runs::default(); cpus])
    }

    /// A CPU switches to a process. Returns whether that is news.
    pub(super) fn switches(&mut self, cpu: u32, process: u32) -> bool {
        self.learn(cpu, Runs { process: Some(process), is_sure: true })
    }

    /// A thread of a process does something on a CPU. Returns whether the CPU is now known to run the process.
    pub(super) fn acts(&mut self, cpu: u32, process: u32) -> bool {
        self.learn(cpu, Runs { process: Some(process), is_sure: false })
    }

    /// Events of a CPU were lost.
    pub(super) fn loses(&mut self, cpu: u32) {
        if let Some(runs) = self.0.get_mut(cpu as usize) {
            runs.is_sure = false;
        }
    }

    fn learn(&mut self, cpu: u32, now: Runs) -> bool {
        let Some(runs) = self.0.get_mut(cpu as usize) else { return false };
        if runs.is_sure && !now.is_sure {
            return false;
        }
        let is_news = runs.process != now.process;
        *runs = now;
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_leaves_is_not_taken_for_the_one_that_comes() {
        let mut cpus = Residency::new(2);
        assert!(cpus.acts(0, 7) && !cpus.acts(0, 7) && cpus.acts(1, 7), "before the first switch");
        assert!(cpus.switches(0, 8));
        // The kernel loads the next program's tables, and flushes, in the name of the thread that leaves.
        assert!(!cpus.acts(0, 7) && !cpus.switches(0, 8));
        cpus.loses(0);
        assert!(!cpus.acts(0, 8) && cpus.acts(0, 7) && cpus.switches(0, 0));
        assert!(!cpus.switches(2, 7) && !cpus.acts(2, 7), "no such CPU");
    }
}
