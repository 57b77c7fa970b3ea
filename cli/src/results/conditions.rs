//! The conditions of a run that change what its figures mean.

use ceasefire_experiments::Report;

/// The checkers that watched a run, and what its model left out, in words.
pub(crate) fn conditions(report: &Report) -> String {
    let checkers = match (report.oracle, report.shadow) {
        (true, true) => "oracle and shadow record on",
        (true, false) => "oracle on, shadow record off",
        (false, true) => "oracle off, shadow record on",
        (false, false) => "oracle off: broken rules are not detected",
    };
    if report.without.is_empty() {
        checkers.to_owned()
    } else {
        format!("{checkers}; without {}", report.without.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::testing::report;

    #[test]
    fn what_was_left_out_is_said() {
        let plain = report("batched");
        assert_eq!(conditions(&plain), "oracle off: broken rules are not detected");
        let bare = Report { without: vec!["smt", "idle"], ..plain };
        assert!(conditions(&bare).ends_with("; without smt, idle"), "{}", conditions(&bare));
    }
}
