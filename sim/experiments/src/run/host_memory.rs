//! The memory of the host that a run takes.
//!
//! A run that does not fit is refused before it begins. Otherwise the host would end it after an hour, or the allocator
//! would abort the process at once. The estimate is an upper bound from measured runs; docs/data/host.csv has them.

use super::plan::Plan;
use crate::experiment::{Frames, RunError};

/// The bytes of a run on a machine without CPUs or frames: 8 MiB.
const FIXED: u64 = 8 << 20;
/// The bytes for each simulated CPU and its threads: caches, TLBs, and the touched part of two stacks.
const PER_CPU: u64 = 192 << 10;
/// The bytes for each frame, used or not: its own record, and its stamps.
const PER_FRAME: u64 = 48;
/// The bytes for each frame that programs use, beside those: lists, page tables and the page cache. The second number is
/// for runs that the checkers watch.
const PER_USED: [u64; 2] = [180, 320];

impl Plan {
    /// An upper bound of the host's memory that the run takes, in bytes.
    pub fn host_bytes(&self) -> u64 {
        self.host_bytes_at(self.scale)
    }

    fn host_bytes_at(&self, scale: f64) -> u64 {
        let footprint = &self.experiment.footprint;
        let Frames { all, used } = (footprint.frames)(&self.machine, scale);
        let contents = footprint.contents_bytes.filter(|_| self.keeps_contents_at(scale));
        let cpus = u64::from(self.machine.topology.cpu_count());
        let parts = [
            FIXED,
            cpus * PER_CPU,
            all.saturating_mul(PER_FRAME),
            used.saturating_mul(PER_USED[usize::from(self.oracle)]),
            // A page that has moved leaves its bytes behind in the frame that it had.
            contents.map_or(0, |bytes| bytes(&self.machine, scale) / 2 * 3),
        ];
        parts.into_iter().fold(0, u64::saturating_add)
    }

    /// Checks that the run fits into the host's `available` memory, in bytes.
    ///
    /// # Errors
    /// [`RunError::HostMemory`], with the largest scale that fits.
    pub fn check_host(&self, available: u64) -> Result<(), RunError> {
        let needed = self.host_bytes();
        if needed <= available {
            return Ok(());
        }
        let (mut fits, mut too_large) = (self.least_scale(), self.scale);
        let is_possible = self.host_bytes_at(fits) <= available;
        // Each step halves the distance, so the largest scale is known to a thousandth of itself.
        for _ in 0..64 {
            let middle = f64::midpoint(fits, too_large);
            if self.host_bytes_at(middle) <= available {
                fits = middle;
            } else {
                too_large = middle;
            }
        }
        let largest = is_possible.then(|| rounded_down(fits)).filter(|scale| *scale >= self.least_scale());
        Err(RunError::HostMemory { scale: self.scale, needed, available, largest })
    }
}

/// The number with three significant digits, at most itself.
fn rounded_down(number: f64) -> f64 {
    let unit = 10f64.powi(2 - number.log10().floor() as i32);
    (number * unit).floor() / unit
}

#[cfg(test)]
mod tests {
    use ceasefire_machine::config::{builtin, Machine};

    use super::*;
    use crate::experiment::Experiment;
    use crate::EXPERIMENTS;

    fn machine(name: &str) -> Machine {
        builtin(name).expect("a listed name").expect("a valid file")
    }

    #[test]
    fn every_default_run_fits_into_four_gibibytes() {
        for experiment in EXPERIMENTS.iter().filter(|experiment| experiment.overview.is_some()) {
            for name in experiment.machines {
                let plan = Plan::new(experiment, machine(name));
                assert!(
                    plan.check_host(4 << 30).is_ok(),
                    "{} on {name}: {}",
                    experiment.name,
                    plan.host_bytes()
                );
            }
        }
    }

    #[test]
    fn a_run_that_is_too_large_is_refused_with_the_largest_scale_that_fits() {
        let experiment = Experiment::find("mmap-read").expect("an experiment");
        // 12 TiB.
        let machine = machine("1-socket").scaled(1536.0).expect("allowed");
        let plan = Plan { scale: 1.0, ..Plan::new(experiment, machine) };
        let Err(RunError::HostMemory { needed, largest: Some(largest), .. }) = plan.check_host(16 << 30)
        else {
            panic!("12 TiB do not fit");
        };
        assert!(needed > 1 << 40);
        let at = |scale| Plan { scale, ..plan.clone() };
        assert!(at(largest).check_host(16 << 30).is_ok() && at(largest * 1.01).check_host(16 << 30).is_err());
        let Err(error) = plan.check_host(1 << 20) else { panic!("nothing fits") };
        assert!(error.to_string().ends_with("no scale fits"), "{error}");
    }

    #[test]
    fn numbers_are_rounded_down() {
        for (number, rounded) in [(0.012_399, 0.0123), (1.0, 1.0), (0.999_9, 0.999), (0.000_500_1, 0.0005)] {
            assert!((rounded_down(number) - rounded).abs() < 1e-12, "{number}");
        }
    }
}
