//! The conditions of runs that change what their figures mean.

use ceasefire_experiments::{Repeats, Report};

/// The checkers that watched the runs, their Linux, and what their model left out, in words.
pub(crate) fn conditions(runs: &Repeats) -> String {
    let first = runs.first();
    let count = |is: fn(&Report) -> bool| runs.all().iter().filter(|report| is(report)).count();
    let all = runs.all().len();
    let (watched, shadowed) = (count(|report| report.oracle), count(|report| report.shadow));
    let of_all = |some: usize| if some == all { String::new() } else { format!(" in {some} of {all} runs") };
    let checkers = match (watched, shadowed) {
        (0, 0) => "oracle off: broken rules are not detected".to_owned(),
        (0, some) => format!("oracle off, shadow record on{}", of_all(some)),
        (some, 0) => format!("oracle on{}, shadow record off", of_all(some)),
        (some, _) => format!("oracle and shadow record on{}", of_all(some)),
    };
    let kernel = format!("; as Linux {}", first.kernel);
    let without = match first.without.join(", ") {
        none if none.is_empty() => none,
        without => format!("; without {without}"),
    };
    let speculating = match first.speculate {
        0.0 => String::new(),
        rate => format!("; CPUs speculate at a rate of {rate}"),
    };
    format!("{checkers}{kernel}{without}{speculating}")
}

/// The time at which a CPU lists its new pages, in words.
pub(crate) fn listed(drain: &str) -> String {
    format!("new pages listed {drain}")
}

/// The seeds of the runs, in words.
pub(crate) fn seeds(runs: &Repeats) -> String {
    match runs.all() {
        [one] => format!("seed {}", one.seed),
        [first, .., last] => format!("seeds {} to {}", first.seed, last.seed),
        [] => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::testing::report;

    fn of(reports: &[Report]) -> String {
        conditions(&Repeats::group(reports)[0])
    }

    #[test]
    fn what_was_left_out_is_said() {
        let plain = report("batched");
        assert_eq!(
            of(std::slice::from_ref(&plain)),
            "oracle off: broken rules are not detected; as Linux 6.3"
        );
        let bare = [Report { without: vec!["smt", "idle"], ..plain }];
        assert!(of(&bare).ends_with("; without smt, idle"), "{}", of(&bare));
        let named = [Report { kernel: "6.18", ..bare[0].clone() }];
        assert!(of(&named).ends_with("; as Linux 6.18; without smt, idle"), "{}", of(&named));
        let eager = [Report { speculate: 0.25, ..bare[0].clone() }];
        assert!(
            of(&eager).ends_with("; without smt, idle; CPUs speculate at a rate of 0.25"),
            "{}",
            of(&eager)
        );
    }

    #[test]
    fn runs_that_nothing_watched_are_counted() {
        let plain = report("batched");
        let watched = Report { oracle: true, shadow: true, ..plain.clone() };
        let later = Report { seed: 2, ..plain };
        assert_eq!(
            of(&[watched.clone(), later.clone()]),
            "oracle and shadow record on in 1 of 2 runs; as Linux 6.3"
        );
        assert_eq!(of(std::slice::from_ref(&watched)), "oracle and shadow record on; as Linux 6.3");
        let reports = [watched, later];
        assert_eq!(seeds(&Repeats::group(&reports)[0]), "seeds 1 to 2");
    }
}
