//! What each CPU runs.

/// The process that each CPU runs, 0 for the kernel or nothing; none if nothing is known yet.
#[derive(Debug)]
pub(super) struct Residency(Vec<Option<u32>>);

impl Residency {
    /// Nothing is known of so many CPUs.
    pub(super) fn new(cpus: usize) -> Self {
        Self(vec![None; cpus])
    }

    /// What a CPU runs; none if nothing is known.
    pub(super) fn of(&self, cpu: u32) -> Option<u32> {
        self.0.get(cpu as usize).copied().flatten()
    }

    /// Events of a CPU were lost.
    pub(super) fn loses(&mut self, cpu: u32) {
        if let Some(runs) = self.0.get_mut(cpu as usize) {
            *runs = None;
        }
    }

    /// A CPU runs a process. Returns whether that is news, and then whether it ran another one.
    pub(super) fn runs(&mut self, cpu: u32, process: u32) -> Option<News> {
        let runs = self.0.get_mut(cpu as usize)?;
        match runs.replace(process) {
            Some(before) if before == process => None,
            Some(_) => Some(News::Another),
            None => Some(News::First),
        }
    }
}

/// What is new of a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// Nothing was known of it.
    First,
    /// It ran another process.
    Another,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cpu_runs_is_news_once() {
        let mut cpus = Residency::new(2);
        let told: Vec<_> =
            [(0, 7), (0, 7), (0, 8), (1, 7), (2, 7)].map(|(cpu, process)| cpus.runs(cpu, process)).into();
        let news = [Some(News::First), None, Some(News::Another), Some(News::First), None];
        assert_eq!(told, news, "there is no CPU 2");
        cpus.loses(0);
        assert_eq!(cpus.runs(0, 8), Some(News::First));
    }
}
