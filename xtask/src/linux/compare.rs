//! Loads on the stock kernel and on the lazy one, boot by boot in turn.

use super::guest::{succeeded, Boot, Guest};
use super::Kernel;
use crate::failure::Failure;
use crate::guests::Nodes;
use crate::table;
use crate::workspace::Workspace;

/// A load: its name, the command, the machine, and the pages that it is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    name: &'static str,
    command: &'static str,
    nodes: Nodes,
    pages: Pages,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pages {
    /// As many as the command says.
    Fixed(u64),
    /// As the kernel counts them.
    Counted(&'static str),
}

impl Load {
    /// What each kernel does. Pages of /mnt/holes come without a wait for a disk, in folios that huge entries map.
    pub(super) const ALL: [Self; 8] = [
        Self::new("read", "guest_loads read 8 24576 /dev/vda", Nodes::Alike, Pages::Fixed(8 * 24_576)),
        Self::new("holes", "guest_loads read 8 32768 /mnt/holes", Nodes::Alike, Pages::Fixed(8 * 32_768)),
        Self::new(
            "processes",
            "guest_loads processes 8 32768 /mnt/holes",
            Nodes::Alike,
            Pages::Fixed(8 * 32_768),
        ),
        Self::new("demote", "guest_loads read 8 24576 /dev/vda", Nodes::Tiers, Pages::Fixed(8 * 24_576)),
        Self::new(
            "migrate",
            "guest_loads migrate 8 4096 6",
            Nodes::Alike,
            Pages::Counted("pgmigrate_success"),
        ),
        Self::new("madvise", "guest_loads madvise 8 500", Nodes::Alike, Pages::Fixed(8 * 500)),
        Self::new("store", "guest_loads store 8 16384 /dev/vda", Nodes::Alike, Pages::Fixed(8 * 16_384)),
        Self::new("fork", "guest_loads fork 8 64 20", Nodes::Alike, Pages::Fixed(64 * 20)),
    ];

    const fn new(name: &'static str, command: &'static str, nodes: Nodes, pages: Pages) -> Self {
        Self { name, command, nodes, pages }
    }

    /// The load of a name.
    pub(super) fn of(name: &str) -> Result<Self, Failure> {
        let known = Self::ALL.map(|load| load.name).join(", ");
        let found = Self::ALL.into_iter().find(|load| load.name == name);
        found.ok_or_else(|| Failure::usage(format!("no load `{name}`; known: {known}")))
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

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let middle = numbers.len() / 2;
    if numbers.len() % 2 == 1 {
        numbers[middle]
    } else {
        f64::midpoint(numbers[middle - 1], numbers[middle])
    }
}

pub(super) fn run(workspace: &Workspace, boots: u32, loads: &[Load]) -> Result<(), Failure> {
    let guest = Guest::make(workspace, &Kernel::COMPARED, None)?;
    let mut rows = Vec::new();
    for load in loads {
        let mut per_page = [Vec::new(), Vec::new()];
        for boot in 0..boots {
            for (kernel, results) in Kernel::COMPARED.into_iter().zip(&mut per_page) {
                let asked = Boot { nodes: load.nodes, ..Boot::new(kernel, load.command) };
                let output = guest.run(&asked)?;
                succeeded(&output)?;
                let pages = match load.pages {
                    Pages::Fixed(pages) => pages,
                    Pages::Counted(counter) => count(&output, counter)?,
                };
                let interrupts = count(&output, "tlb")?;
                println!("{} boot {}: {interrupts} interrupts, {pages} pages", load.name, boot + 1);
                results.push(interrupts as f64 / pages.max(1) as f64);
            }
        }
        let [stock, lazy] = per_page.map(median);
        rows.push([
            load.name.to_owned(),
            format!("{stock:.5}"),
            format!("{lazy:.5}"),
            format!("{:.1}", 100.0 * lazy / stock),
        ]);
    }
    print!("\n{}", table::format(["load", "stock, per page", "lazy, per page", "percent"], &rows));
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
        assert!(succeeded(output).is_ok() && succeeded("exit 1\n").is_err());
        assert!(
            (median(vec![3.0, 1.0]) - 2.0).abs() < 1e-9 && (median(vec![5.0, 1.0, 2.0]) - 2.0).abs() < 1e-9
        );
    }
}
