//! The selftest on the kernel that checks itself: with all guards, and without each in turn.
//!
//! The guest's script prints a line for each run. `whole` has so many times that folios might wait longer, the findings of the
//! test and the reports of the kernel. `without` has the guard, the operation, these times, findings, reports and seconds.

use super::guest::{succeeded, Boot, Guest};
use super::DEBUG;
use crate::failure::{ensure, Failure};
use crate::table;
use crate::workspace::Workspace;

pub(super) fn run(workspace: &Workspace, seconds: u32) -> Result<(), Failure> {
    let guest = Guest::make(workspace, &[DEBUG], None)?;
    let output = guest.run(&Boot::new(DEBUG, &format!("guards {seconds}")))?;
    print!("{output}");
    let (rows, broken, unnoticed) = judge(&output)?;
    println!();
    print!("{}", table::format(["guard", "operation", "late", "found", "reports", "seconds"], &rows));
    ensure!(!broken, new, "a rule broke although every guard was there");
    ensure!(unnoticed.is_empty(), inconclusive, "not noticed: {}", unnoticed.join(", "));
    Ok(())
}

/// The lines of the script as a table, whether something was found with all guards, and the guards that were gone without
/// notice.
type Judged = (Vec<[String; 6]>, bool, Vec<String>);

fn judge(output: &str) -> Result<Judged, Failure> {
    // A script that ended early has tried fewer guards.
    succeeded(output)?;
    let (mut rows, mut broken, mut unnoticed, mut whole) = (Vec::new(), false, Vec::new(), 0);
    for line in output.lines() {
        let row = match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["whole", late, found, reports] => ["(all)", "(all)", late, found, reports, ""],
            ["without", guard, operation, late, found, reports, seconds] => {
                [guard, operation, late, found, reports, seconds]
            }
            _ => continue,
        };
        let (is_whole, is_quiet) = (row[0] == "(all)", (row[3], row[4]) == ("0", "0"));
        whole += usize::from(is_whole);
        broken |= is_whole && !is_quiet;
        unnoticed.extend((!is_whole && is_quiet).then(|| row[0].to_owned()));
        rows.push(row.map(str::to_owned));
    }
    let is_whole = whole >= 2 && rows.len() > whole;
    ensure!(is_whole, new, "the script did not run to its end:\n{output}");
    Ok((rows, broken, unnoticed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_that_breaks_with_all_guards_and_a_guard_that_nobody_misses_are_told_apart() {
        let good = "whole 0 0 0\nok 1 write\nwhole 20 0 0\nwithout wait write 0 0 3 10\nexit 0\n";
        let (rows, broken, unnoticed) = judge(good).unwrap();
        assert!(!broken && unnoticed.is_empty() && rows.len() == 3);
        assert!(judge(&good.replace("whole 20 0 0", "whole 20 0 1")).unwrap().1);
        assert_eq!(judge(&good.replace("0 3 10", "0 0 60")).unwrap().2, ["wait"]);
        assert!(judge("whole 0 0 0\nexit 0\n").is_err());
        assert!(judge(&good.replace("exit 0", "exit 1")).is_err());
        assert!(judge(&good.replace("exit 0\n", "")).is_err());
    }
}
