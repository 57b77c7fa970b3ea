//! What CPUs use while reclaim owes them a flush: on the stock kernel the old page, and with the fixes the new one.

use super::guest::{Boot, Guest};
use super::{FIXED, STOCK};
use crate::failure::{ensure, Failure};
use crate::table;
use crate::workspace::Workspace;

/// Makes so many changes of each kind on both kernels.
pub(super) fn run(workspace: &Workspace, changes: u32) -> Result<(), Failure> {
    let guest = Guest::make(workspace, &[STOCK, FIXED], None)?;
    let mut results = Vec::new();
    for kernel in [STOCK, FIXED] {
        // The emulator has few to run them on, and both that count must run at once.
        let parameters = "maxcpus=2".to_owned();
        let boot = Boot { parameters, ..Boot::new(kernel, &format!("owed_flush /mnt {changes}")) };
        results.push(results_of(&guest.run(&boot)?)?);
    }
    let rows: Vec<_> = results[0]
        .iter()
        .zip(&results[1])
        .map(|(stock, fixed)| [stock.what.clone(), stock.counts(), fixed.counts()])
        .collect();
    print!("\n{}", table::format(["change", "old on stock", "old with the fixes"], &rows));
    judge(&results)
}

/// What the selftest says of one kind of change.
#[derive(Debug, PartialEq, Eq)]
struct Kind {
    what: String,
    old: u32,
    changes: u32,
}

impl Kind {
    fn counts(&self) -> String {
        format!("{} of {}", self.old, self.changes)
    }
}

/// The kinds that the selftest has tried: all that it planned, and none left out.
fn results_of(output: &str) -> Result<Vec<Kind>, Failure> {
    let kinds: Vec<Kind> = output.lines().filter_map(kind_of).collect();
    let plan = output.lines().find_map(|line| line.strip_prefix("1..")?.parse::<usize>().ok());
    ensure!(
        plan == Some(kinds.len()),
        new,
        "of {plan:?} kinds of changes {} have a result:\n{output}",
        kinds.len()
    );
    Ok(kinds)
}

/// Of a line such as `not ok 4 MADV_GUARD_INSTALL: old after 10 of 10 changes, 0 of them late, 500 VMAs`.
fn kind_of(line: &str) -> Option<Kind> {
    let (is_ok, rest) = match line.strip_prefix("not ok ") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok ")?),
    };
    let (what, counts) = rest.split_once(' ')?.1.split_once(": old after ")?;
    let (old, counts) = counts.split_once(" of ")?;
    let kind = Kind {
        what: what.to_owned(),
        old: old.parse().ok()?,
        changes: counts.split_once(" changes")?.0.parse().ok()?,
    };
    (is_ok == (kind.old == 0)).then_some(kind)
}

/// Fails unless stock shows the old page after each kind of change, and the other never does.
fn judge(results: &[Vec<Kind>]) -> Result<(), Failure> {
    let names = |kinds: &[Kind], is_wrong: fn(&Kind) -> bool| {
        kinds
            .iter()
            .filter(|kind| is_wrong(kind))
            .map(|kind| kind.what.as_str())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let quiet = names(&results[0], |kind| kind.old == 0);
    let wrong = names(&results[1], |kind| kind.old > 0);
    ensure!(wrong.is_empty(), new, "CPUs use the old page with the fixes: {wrong}");
    ensure!(quiet.is_empty(), inconclusive, "no old page on stock: {quiet}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: &str = "1..2\nnot ok 1 write() to a file: old after 9 of 10 changes, 10 tries, 500 VMAs\n\
                         not ok 2 MADV_GUARD_INSTALL: old after 10 of 10 changes, 11 tries, 500 VMAs\n";

    #[test]
    fn each_kind_must_be_old_on_stock_and_none_with_the_fixes() {
        let fixed =
            STOCK.replace("not ok", "ok").replace("after 9", "after 0").replace("after 10", "after 0");
        let [stock, fixed] = [STOCK, &fixed].map(|output| results_of(output).unwrap());
        assert_eq!((stock[0].what.as_str(), stock[1].counts().as_str()), ("write() to a file", "10 of 10"));
        let judge = |a: &str, b: &str| judge(&[a, b].map(|output| results_of(output).unwrap()));
        let fixed_text = "1..1\nok 1 write() to a file: old after 0 of 0 changes, 24 tries, 16000 VMAs\n";
        assert!(super::judge(&[stock, fixed]).is_ok());
        assert!(judge(STOCK, STOCK)
            .unwrap_err()
            .to_string()
            .contains("with the fixes: write() to a file, MADV"));
        assert!(judge(fixed_text, fixed_text)
            .unwrap_err()
            .to_string()
            .contains("no old page on stock: write()"));
    }

    #[test]
    fn a_kind_without_a_result_is_no_result() {
        for output in [
            STOCK.replace("1..2", "1..3"),
            STOCK.replace(
                "not ok 2 MADV_GUARD_INSTALL: old after 10 of 10 changes",
                "ok 2 # SKIP MADV_GUARD_INSTALL",
            ),
            STOCK.replace("not ok 1", "ok 1"),
            STOCK.replace("1..2\n", ""),
        ] {
            assert!(results_of(&output).is_err(), "{output}");
        }
    }
}
