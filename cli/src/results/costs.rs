//! The next cost: where a mechanism sends fewer interrupts than another and is still slower, the use of time that grew
//! most.

use ceasefire_experiments::{Repeats, Report};

use super::own::Speed;

/// The greatest part of another mechanism's interrupts that counts as fewer.
const FEWER: f64 = 0.8;
/// The least loss of speed that is told.
const SLOWER: f64 = 0.005;

/// A line for each mechanism that sends at least a fifth fewer interrupts than a faster one, of which the fastest is
/// taken. Slower means so with every seed. The runs are those of one case, each mechanism's by itself.
pub(crate) fn costs(runs: &[&Repeats]) -> Vec<String> {
    let speed = Speed::of(runs);
    let line = |slow: &&Repeats| {
        let faster = runs.iter().filter_map(|fast| Some((*fast, slower(slow, fast, speed)?)));
        let (fast, loss) = faster
            .filter(|(fast, _)| fewer(slow, fast).is_some_and(|part| part <= FEWER))
            .max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let fewer = match fewer(slow, fast)? {
            0.0 => "no interrupts".to_owned(),
            part => format!("{} fewer interrupts than {}", percent(1.0 - part), fast.first().mechanism),
        };
        let slower = format!("{} slower than {}", percent(loss), fast.first().mechanism);
        let slower = if fewer.contains("than") { format!("{} slower", percent(loss)) } else { slower };
        let grown = grown(slow, fast).map_or(String::new(), |grown| format!(": {grown}"));
        Some(format!("{}: {fewer}, {slower}{grown}", slow.first().mechanism))
    };
    runs.iter().filter_map(line).collect()
}

/// The part of the speed that the one loses against the other, if it does with every seed.
fn slower(slow: &Repeats, fast: &Repeats, speed: Speed) -> Option<f64> {
    let ratio = slow.ratio(fast, speed.value())?;
    let loss = match speed {
        Speed::Rate if ratio.most < 1.0 => 1.0 - ratio.median,
        Speed::Elapsed if ratio.least > 1.0 => ratio.median - 1.0,
        _ => return None,
    };
    Some(loss).filter(|loss| *loss >= SLOWER)
}

/// The part of the other's interrupts that the one sends.
fn fewer(one: &Repeats, other: &Repeats) -> Option<f64> {
    one.ratio(other, |report| report.interrupts_per_s).map(|ratio| ratio.median)
}

/// The use of time that takes most more per operation, and its parts of the time of all CPUs.
fn grown(slow: &Repeats, fast: &Repeats) -> Option<String> {
    let median = |runs: &Repeats, figure: &dyn Fn(&Report) -> f64| {
        runs.interval(figure).map_or(f64::NAN, |interval| interval.median)
    };
    let growth = |number: usize| {
        let per_operation = |report: &Report| uses(report)[number].1 / report.operations as f64;
        median(slow, &per_operation) - median(fast, &per_operation)
    };
    let names: Vec<String> = uses(slow.first()).into_iter().map(|(name, _)| name).collect();
    let growths: Vec<f64> = (0..names.len()).map(growth).collect();
    let idle = names.len() - 1;
    let most = (0..idle).max_by(|&one, &other| growths[one].total_cmp(&growths[other]))?;
    // A thread that waits for a lock may sleep meanwhile: its CPU is idle because of the lock.
    let number = if growths[idle] > 2.0 * growths[most] { idle } else { most };
    if growths[number].is_nan() || growths[number] <= 0.0 {
        return None;
    }
    let part = |report: &Report| uses(report)[number].1 / whole(report);
    let [now, before] = [slow, fast].map(|runs| percent(median(runs, &part)));
    Some(format!("{} {now} of all CPUs' time ({}: {before})", names[number], fast.first().mechanism))
}

/// The uses of a run's time, each with its verb, in seconds. Idle time is the last. Waits for locks are told by class.
fn uses(report: &Report) -> Vec<(String, f64)> {
    let time = &report.time;
    let locks = report.lock_wait_by_class_s.iter();
    let mut uses: Vec<(String, f64)> =
        locks.map(|(class, wait)| (format!("waiting for `{class}` locks takes"), *wait)).collect();
    let others = [
        ("fetching locks takes", time.locks_s - report.lock_wait_s),
        ("flushes take", time.flushes_s),
        ("waiting for answers to flushes takes", time.answers_s),
        ("faults and their reclaim take", time.faults_s),
        ("TLB misses take", time.walks_s),
        ("other kernel work takes", time.kernel_s),
        ("programs take", time.user_s),
        ("idle time is", time.idle_s),
    ];
    uses.extend(others.map(|(name, seconds)| (name.to_owned(), seconds)));
    uses
}

/// The time of all CPUs.
fn whole(report: &Report) -> f64 {
    let time = &report.time;
    time.user_s
        + time.walks_s
        + time.faults_s
        + time.flushes_s
        + time.answers_s
        + time.locks_s
        + time.kernel_s
        + time.idle_s
}

/// A part in percent, with a decimal where it is near none or all.
fn percent(part: f64) -> String {
    let percent = 100.0 * part;
    if (9.95..=99.0).contains(&percent) {
        format!("{percent:.0}%")
    } else {
        let text = format!("{percent:.1}");
        format!("{}%", text.strip_suffix(".0").unwrap_or(&text))
    }
}

#[cfg(test)]
mod tests {
    use ceasefire_experiments::Time;

    use super::*;
    use crate::html::testing::report;

    /// A run of a second on 10 CPUs that spends as much of their time on LRU locks and flushes, and idles the rest.
    fn run(
        mechanism: &'static str,
        rate: f64,
        interrupts_per_s: f64,
        [locks_s, flushes_s]: [f64; 2],
    ) -> Report {
        let idle_s = 10.0 - locks_s - flushes_s - 1.0;
        let time = Time { locks_s, flushes_s, idle_s, user_s: 1.0, ..nothing() };
        Report {
            elapsed_s: 1.0,
            operations: rate as u64,
            operations_per_s: rate,
            interrupts_per_s,
            time,
            lock_wait_s: locks_s,
            lock_wait_by_class_s: [("LRU", locks_s), ("table", 0.0)].into_iter().collect(),
            ..report(mechanism)
        }
    }

    fn nothing() -> Time {
        Time {
            user_s: 0.0,
            walks_s: 0.0,
            faults_s: 0.0,
            flushes_s: 0.0,
            answers_s: 0.0,
            locks_s: 0.0,
            kernel_s: 0.0,
            idle_s: 0.0,
        }
    }

    fn lines(reports: &[Report]) -> Vec<String> {
        let groups = Repeats::group(reports);
        costs(&groups.iter().collect::<Vec<_>>())
    }

    #[test]
    fn a_slower_mechanism_with_fewer_interrupts_tells_the_lock_that_it_waits_for() {
        let reports = [run("batched", 1000.0, 500.0, [0.5, 0.25]), run("lazy", 960.0, 40.0, [1.2, 0.1])];
        assert_eq!(
            lines(&reports),
            ["lazy: 92% fewer interrupts than batched, 4% slower: waiting for `LRU` locks takes 12% of all CPUs' time \
              (batched: 5%)"]
        );
    }

    #[test]
    fn another_use_of_time_that_grew_is_told_and_no_interrupts_are_called_none() {
        let reports = [run("batched", 1000.0, 500.0, [0.5, 0.25]), run("broadcast", 800.0, 0.0, [0.5, 2.0])];
        assert_eq!(
            lines(&reports),
            ["broadcast: no interrupts, 20% slower than batched: flushes take 20% of all CPUs' time (batched: 2.5%)"]
        );
    }

    #[test]
    fn a_mechanism_is_compared_with_the_fastest_and_a_faster_one_has_no_line() {
        let reports = [
            run("per-page", 970.0, 900.0, [0.1, 0.1]),
            run("batched", 1000.0, 500.0, [0.5, 0.25]),
            run("lazy", 960.0, 40.0, [1.2, 0.1]),
        ];
        let lines = lines(&reports);
        assert!(lines.len() == 1 && lines[0].contains("than batched"), "{lines:?}");
    }

    #[test]
    fn a_loss_within_the_range_or_with_as_many_interrupts_is_not_told() {
        let seed = |seed, report| Report { seed, ..report };
        let reports = [
            run("batched", 1000.0, 500.0, [0.5, 0.25]),
            seed(2, run("batched", 900.0, 500.0, [0.5, 0.25])),
            run("lazy", 960.0, 40.0, [1.2, 0.1]),
            seed(2, run("lazy", 910.0, 40.0, [1.2, 0.1])),
        ];
        assert!(lines(&reports).is_empty(), "faster with the second seed");
        let reports = [run("batched", 1000.0, 500.0, [0.5, 0.25]), run("lazy", 960.0, 410.0, [1.2, 0.1])];
        assert!(lines(&reports).is_empty(), "less than a fifth fewer");
    }
}
