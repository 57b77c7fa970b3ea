//! Loads on the stock kernel and on others, boot by boot in turn.

use super::guest::{succeeded, Boot, Guest};
use super::COMPARED;
use crate::failure::Failure;
use crate::table;
use crate::workspace::Workspace;

/// A load: its name, the command, whether the machine has tiers, and what is compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    pub(super) name: &'static str,
    command: &'static str,
    tiers: bool,
    figure: Figure,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Figure {
    /// TLB interrupts per page, or per loop or child: the command says how many there are.
    Per(u64),
    /// TLB interrupts per page: the kernel counts the pages under this name.
    PerCounted(&'static str),
    /// The time within which 999 of 1,000 allocations are done, as the command prints it.
    Slowest,
}

impl Figure {
    /// The figure of a boot that printed this, and what it is made of.
    fn of(self, output: &str) -> Result<(f64, String), Failure> {
        let pages = match self {
            Self::Per(pages) => pages,
            Self::PerCounted(counter) => count(output, counter)?,
            Self::Slowest => {
                let (half, slowest) = (count(output, "ns_50")?, count(output, "ns_99_9")?);
                // Only allocations that must not wait fail.
                let failed =
                    count(output, "failed").map_or(String::new(), |failed| format!(", {failed} failed"));
                let made_of = format!("half take {half} ns, and all but one in 1,000 {slowest} ns{failed}");
                return Ok((slowest as f64, made_of));
            }
        };
        let interrupts = count(output, "tlb")?;
        let waited = waited(output);
        Ok((
            interrupts as f64 / pages.max(1) as f64,
            format!("{interrupts} interrupts, {pages} pages{waited}"),
        ))
    }

    /// The unit, and how many digits a figure needs.
    fn unit(self) -> (&'static str, usize) {
        match self {
            Self::Per(_) | Self::PerCounted(_) => ("interrupts per page", 5),
            Self::Slowest => ("ns", 0),
        }
    }
}

impl Load {
    /// What each kernel does. Pages of /mnt/holes come without a wait for a disk, in folios that huge entries map.
    #[rustfmt::skip]
    pub(super) const ALL: [Self; 12] = [
        Self::new("read", "guest_loads read 8 24576 /dev/vda", Figure::Per(8 * 24_576)),
        Self::new("holes", "guest_loads read 8 32768 /mnt/holes", Figure::Per(8 * 32_768)),
        Self::new("processes", "guest_loads processes 8 32768 /mnt/holes", Figure::Per(8 * 32_768)),
        Self { tiers: true, ..Self::new("demote", "guest_loads read 8 24576 /dev/vda", Figure::Per(8 * 24_576)) },
        Self::new("migrate", "guest_loads migrate 8 4096 6", Figure::PerCounted("pgmigrate_success")),
        Self::new("madvise", "guest_loads madvise 8 500", Figure::Per(8 * 500)),
        Self::new("store", "guest_loads store 8 4096 /dev/vda 98304", Figure::Per(8 * 4096)),
        Self::new("anonymous", "limited swap guest_loads fill 8 18432 1", Figure::Per(8 * 18_432)),
        Self::new("cgroup", "limited 128 guest_loads read 8 8192 /dev/vda", Figure::Per(8 * 8192)),
        Self::new("fork", "guest_loads fork 8 64 20", Figure::Per(64 * 20)),
        // One thread of eight allocates.
        Self::new("faults", "guest_loads faults 7 32768 /mnt/holes 100000", Figure::Slowest),
        Self::new("signals", "guest_loads signals 7 32768 /mnt/holes 100000", Figure::Slowest),
    ];

    const fn new(name: &'static str, command: &'static str, figure: Figure) -> Self {
        Self { name, command, tiers: false, figure }
    }
}

/// A count of the guest's output.
fn count(output: &str, name: &str) -> Result<u64, Failure> {
    let found = output.lines().find_map(|line| {
        let (key, number) = line.strip_prefix("count ")?.split_once(' ')?;
        (key == name).then(|| number.trim().parse().ok())?
    });
    found.ok_or_else(|| Failure::new(format!("the guest printed no count of {name}:\n{output}")))
}

/// What waited for a flush; empty of a kernel without lazy unmap.
fn waited(output: &str) -> String {
    let counts = ["wait", "flush", "late"].map(|what| count(output, &format!("lazy_unmap_{what}")).ok());
    let [Some(wait), Some(flush), Some(late)] = counts else { return String::new() };
    format!(", {wait} pages waited, {flush} until an interrupt, {late} for too long")
}

/// What reclaim has done: pages that it looked at and took, and how many of these were wanted again.
fn reclaimed(output: &str) -> Result<String, Failure> {
    let sum = |names: &[&str]| names.iter().map(|name| count(output, name)).sum::<Result<u64, Failure>>();
    let scanned = sum(&["pgscan_kswapd", "pgscan_direct"])?;
    let taken = sum(&["pgsteal_kswapd", "pgsteal_direct"])?;
    let again = sum(&["workingset_refault_file", "workingset_refault_anon"])?;
    Ok(format!(", {scanned} scanned, {taken} reclaimed, {again} refaults"))
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    f64::midpoint(numbers[(numbers.len() - 1) / 2], numbers[numbers.len() / 2])
}

pub(super) fn run(workspace: &Workspace, boots: u32, loads: &[Load]) -> Result<(), Failure> {
    let guest = Guest::make(workspace, &COMPARED, None)?;
    let mut rows = Vec::new();
    for load in loads {
        let mut figures = COMPARED.map(|_| Vec::new());
        for boot in 0..boots {
            for (kernel, results) in COMPARED.into_iter().zip(&mut figures) {
                let asked = Boot { tiers: load.tiers, ..Boot::new(kernel, load.command) };
                let output = guest.run(&asked)?;
                succeeded(&output)?;
                let (figure, made_of) = load.figure.of(&output)?;
                println!("{} boot {} {}: {made_of}{}", load.name, boot + 1, kernel.name, reclaimed(&output)?);
                results.push(figure);
            }
        }
        let [stock, fixed, lazy] = figures.map(median);
        let (unit, digits) = load.figure.unit();
        let of_stock = |figure: f64| format!("{figure:.digits$} ({:.1}%)", 100.0 * figure / stock);
        let row = [
            load.name.to_owned(),
            unit.to_owned(),
            format!("{stock:.digits$}"),
            of_stock(fixed),
            of_stock(lazy),
        ];
        // The boots of all loads take long, and may be cut short.
        println!("{}", row.join(" "));
        rows.push(row);
    }
    print!("\n{}", table::format(["load", "figure", "stock", "fixed", "lazy"], &rows));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_found_by_their_whole_names() {
        let output = "exit 0\ncount tlb 12\ncount lazy_unmap_wait 3\ncount lazy_unmap 4\n";
        assert_eq!(count(output, "lazy_unmap").unwrap(), 4);
        assert!(count(output, "lazy").is_err());
        assert_eq!(waited(output), "");
        let lazy = format!("{output}count lazy_unmap_flush 2\ncount lazy_unmap_late 1\n");
        assert_eq!(waited(&lazy), ", 3 pages waited, 2 until an interrupt, 1 for too long");
        let times = format!("count ns_50 700\ncount ns_99_9 9000\n{output}");
        let of = |figure: Figure, output| figure.of(output).map(|(figure, _)| format!("{figure:.3}")).ok();
        assert_eq!(of(Figure::Slowest, &times).as_deref(), Some("9000.000"));
        assert_eq!(of(Figure::Slowest, output), None);
        assert_eq!(of(Figure::PerCounted("lazy_unmap"), output).as_deref(), Some("3.000"));
        assert!(succeeded(output).is_ok() && succeeded("exit 1\n").is_err());
        let counts =
            "count pgscan_kswapd 1\ncount pgscan_direct 2\ncount pgsteal_kswapd 3\ncount pgsteal_direct 4\n\
                      count workingset_refault_file 5\ncount workingset_refault_anon 6\n";
        assert_eq!(reclaimed(counts).unwrap(), ", 3 scanned, 7 reclaimed, 11 refaults");
        assert!(reclaimed(output).is_err());
        let medians = [vec![3.0, 1.0], vec![5.0, 1.0, 2.0]].map(|numbers| format!("{:.3}", median(numbers)));
        assert_eq!(medians, ["2.000", "2.000"]);
    }
}
