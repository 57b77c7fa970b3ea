//! Loads on both kernels, boot by boot in turn, and the selftest.

use super::guest::{Guest, MEMORY};
use super::Kernel;
use crate::failure::Failure;
use crate::table;
use crate::workspace::Workspace;

/// A load: its name, the command, and the counter of the pages that it is about.
struct Load {
    name: &'static str,
    command: &'static str,
    pages: Pages,
}

enum Pages {
    /// As many as the command says.
    Fixed(u64),
    /// As the kernel counts them.
    Counted(&'static str),
}

const LOADS: [Load; 2] = [
    Load { name: "read", command: "guest_loads read 8 65536 /dev/vda", pages: Pages::Fixed(8 * 65_536) },
    Load {
        name: "migrate",
        command: "guest_loads migrate 8 4096 6",
        pages: Pages::Counted("pgmigrate_success"),
    },
];

/// A count of the guest's output.
fn count(output: &str, name: &str) -> Result<u64, Failure> {
    let found = output.lines().find_map(|line| {
        let (key, number) = line.strip_prefix("count ")?.split_once(' ')?;
        (key == name).then(|| number.trim().parse().ok())?
    });
    found.ok_or_else(|| Failure::new(format!("the guest printed no count of {name}:\n{output}")))
}

fn succeeded(output: &str) -> Result<(), Failure> {
    match output.lines().find_map(|line| line.strip_prefix("exit ")) {
        Some("0") => Ok(()),
        _ => Err(Failure::new(format!("the command failed in the guest:\n{output}"))),
    }
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

pub(super) fn run(workspace: &Workspace, boots: u32) -> Result<(), Failure> {
    let guest = Guest::make(workspace, &Kernel::ALL)?;
    let mut rows = Vec::new();
    for load in &LOADS {
        let mut per_page = [Vec::new(), Vec::new()];
        for boot in 0..boots {
            for (kernel, results) in Kernel::ALL.into_iter().zip(&mut per_page) {
                let output = guest.run(kernel, load.command, MEMORY)?;
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

/// The mebibytes of memory of the guest that runs the selftest: little, so that reclaim begins soon.
const SHORT: u32 = 160;

pub(super) fn test(workspace: &Workspace, seconds: u32) -> Result<(), Failure> {
    let command = format!("lazy_unmap {seconds} /mnt");
    let output = Guest::make(workspace, &[Kernel::Lazy])?.run(Kernel::Lazy, &command, SHORT)?;
    print!("{output}");
    succeeded(&output)?;
    if count(&output, "lazy_unmap_wait")? == 0 {
        return Err(Failure::inconclusive("no page waited: the test has shown nothing"));
    }
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
