//! The OOM killer: on each kernel it kills where it kills on stock, and nowhere else.

use super::guest::{succeeded, Boot, Guest};
use super::COMPARED;
use crate::failure::{ensure, Failure};
use crate::table;
use crate::workspace::Workspace;

/// Fills memory with mapped clean cache, and with more and more that cannot be reclaimed, on each kernel.
pub(super) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let guest = Guest::make(workspace, &COMPARED, None)?;
    let mut fills = Vec::new();
    for kernel in COMPARED {
        // In turns, it kills at the same sizes each time.
        fills.push(fills_of(&guest.run(&Boot { seed: Some(1), ..Boot::new(kernel, "oom") })?)?);
    }
    // All kernels have run the same script to its end.
    let rows: Vec<_> = fills[0]
        .iter()
        .zip(&fills[1])
        .zip(&fills[2])
        .map(|((stock, fixed), lazy)| {
            let [killed, of_fixed, of_lazy] = [stock, fixed, lazy].map(|fill| fill.killed.to_string());
            [stock.place.clone(), stock.mebibytes.to_string(), killed, of_fixed, of_lazy]
        })
        .collect();
    print!("{}", table::format(["filled", "MiB", "killed on stock", "fixed", "lazy"], &rows));
    judge(&fills)
}

/// One size of what cannot be reclaimed.
#[derive(Debug, PartialEq, Eq)]
struct Fill {
    place: String,
    mebibytes: u32,
    killed: u32,
}

/// The fills that the guest's script has tried: all, or none.
fn fills_of(output: &str) -> Result<Vec<Fill>, Failure> {
    succeeded(output)?;
    let lines = output.lines().filter(|line| line.starts_with("oom "));
    let fills: Option<Vec<Fill>> = lines.map(fill_of).collect();
    fills
        .filter(|fills| !fills.is_empty())
        .ok_or_else(|| Failure::new(format!("a fill has ended otherwise than well or killed:\n{output}")))
}

/// Of a line such as `oom cgroup 64 137 1`: the place, the size, how the fill ended, and the kills.
fn fill_of(line: &str) -> Option<Fill> {
    let ["oom", place, mebibytes, status, killed] = line.split_whitespace().collect::<Vec<_>>()[..] else {
        return None;
    };
    let killed = killed.parse().ok()?;
    // A fill that ends otherwise did not ask for its memory.
    let is_right = status == if killed > 0 { "137" } else { "0" };
    is_right.then_some(Fill { place: place.to_owned(), mebibytes: mebibytes.parse().ok()?, killed })
}

/// Fails unless each kernel kills where the first does, and the first both kills and does not.
fn judge(fills: &[Vec<Fill>]) -> Result<(), Failure> {
    let differs = fills.iter().any(|other| other != &fills[0]);
    ensure!(!differs, new, "the kernels do not kill alike");
    let kills = fills[0].iter().filter(|fill| fill.killed > 0).count();
    ensure!(
        (1..fills[0].len()).contains(&kills),
        inconclusive,
        "{kills} of {} fills end in a kill: the sizes tell nothing",
        fills[0].len()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOCK: &str = "oom machine 256 0 0\noom cgroup 72 137 1\nexit 0\n";

    #[test]
    fn a_kill_that_comes_earlier_or_not_at_all_fails() {
        let judge = |other: &str| judge(&[fills_of(STOCK).unwrap(), fills_of(other).unwrap()]);
        assert!(judge(STOCK).is_ok());
        for other in [STOCK.replace("256 0 0", "256 137 1"), STOCK.replace("72 137 1", "72 0 0")] {
            assert!(judge(&other).unwrap_err().to_string().contains("alike"), "{other}");
        }
        let calm = "oom machine 256 0 0\nexit 0\n";
        assert!(super::judge(&[fills_of(calm).unwrap()]).unwrap_err().to_string().contains("tell nothing"));
    }

    #[test]
    fn a_fill_that_had_no_memory_is_none() {
        for line in ["oom machine 512 1 0", "oom machine 512 137 0"] {
            assert_eq!(fill_of(line), None, "{line}");
            assert!(fills_of(&format!("{line}\n{STOCK}")).is_err(), "{line}");
        }
        assert!(fills_of("exit 0\n").is_err());
    }
}
