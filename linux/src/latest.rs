//! The latest value of each CPU, to spare the work for a value that comes again.

/// Latest values.
#[derive(Debug)]
pub(crate) struct Latest<T>(Vec<Option<T>>);

impl<T: Copy + PartialEq> Latest<T> {
    /// No values yet.
    pub(crate) fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether a value differs from the CPU's latest one. It is the latest one then.
    pub(crate) fn is_news(&mut self, cpu: u32, value: T) -> bool {
        let cpu = cpu as usize;
        if self.0.len() <= cpu {
            self.0.resize(cpu + 1, None);
        }
        self.0[cpu].replace(value) != Some(value)
    }

    /// Forgets all values: each next one is news.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_news_once_on_each_cpu_until_all_are_forgotten() {
        let mut latest = Latest::new();
        assert!(latest.is_news(1, 7) && !latest.is_news(1, 7) && latest.is_news(0, 7));
        assert!(latest.is_news(1, 8) && latest.is_news(1, 7) && !latest.is_news(0, 7));
        latest.clear();
        assert!(latest.is_news(0, 7) && latest.is_news(1, 7));
    }
}
