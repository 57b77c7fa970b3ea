//! What loads cost on a machine that is somebody else's: a kit of two files that runs there on one kernel after another, and
//! the table of what it writes.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::matrix::median;
use crate::failure::{self, ensure, At as _, Failure};
use crate::guests;
use crate::table;
use crate::workspace::Workspace;

/// Packs the kit.
pub(super) fn pack(workspace: &Workspace) -> Result<(), Failure> {
    let folder = workspace.target.join("linux/evening");
    guests::make(&folder)?;
    let programs = guests::build(workspace, "--quiet --package ceasefire-linux --example guest_loads")?;
    guests::copy(&programs.join("examples/guest_loads"), &folder.join("guest_loads"))?;
    guests::program(&folder.join("evening"), include_str!("evening.sh"))?;
    let archive = workspace.target.join("linux/evening.tar.gz");
    let mut tar = Command::new("tar");
    failure::run(tar.arg("czf").arg(&archive).arg("-C").arg(workspace.target.join("linux")).arg("evening"))?;
    println!(
        "{}: unpack it on a machine, and run evening/evening there as root on each kernel",
        archive.display()
    );
    Ok(())
}

/// One run of a load.
#[derive(Debug, Default, Clone, PartialEq)]
struct Run {
    load: String,
    /// The kernel, and what `vm.lazy_unmap` was.
    on: String,
    /// Pages, calls or children.
    count: f64,
    succeeded: bool,
    milliseconds: f64,
    interrupts: f64,
    refaults: f64,
}

/// Prints the table of what the kit has written.
pub(super) fn print(path: &Path) -> Result<(), Failure> {
    let runs = runs_of(&fs::read_to_string(path).at(path)?)?;
    ensure!(!runs.is_empty(), new, "{}: it has no load that has ended", path.display());
    let failed = runs.iter().filter(|run| !run.succeeded).count();
    print!("{}", table_of(&runs));
    if failed > 0 {
        println!("{failed} of {} runs failed, and are left out", runs.len());
    }
    Ok(())
}

fn runs_of(text: &str) -> Result<Vec<Run>, Failure> {
    let (mut kernel, mut on, mut runs) = (String::new(), String::new(), Vec::<Run>::new());
    for (index, line) in text.lines().enumerate() {
        let number = |word: &str| {
            let parsed: Option<f64> = word.parse().ok();
            parsed.ok_or_else(|| Failure::new(format!("line {}: `{word}` is no number", index + 1)))
        };
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            ["kernel", release, ..] => release.clone_into(&mut kernel),
            ["lazy_unmap", "none"] => on.clone_from(&kernel),
            ["lazy_unmap", setting] => on = format!("{kernel} lazy_unmap={setting}"),
            ["load", load, count, status, milliseconds] => runs.push(Run {
                load: load.to_owned(),
                on: on.clone(),
                count: number(count)?,
                succeeded: status == "0",
                milliseconds: number(milliseconds)?,
                ..Run::default()
            }),
            ["count", name, value] => {
                let Some(run) = runs.last_mut() else { continue };
                match name {
                    "tlb" => run.interrupts = number(value)?,
                    "workingset_refault_file" | "workingset_refault_anon" => run.refaults += number(value)?,
                    _ => {}
                }
            }
            // What the machine is.
            _ => {}
        }
    }
    Ok(runs)
}

/// The kit's clock ticks each ten milliseconds: what took less than this is not compared.
const LONG: f64 = 500.0;

/// The medians of each load on each kernel, beside those of the first, the worst first.
fn table_of(runs: &[Run]) -> String {
    let distinct = |of: fn(&Run) -> &String| {
        let mut names: Vec<&String> = Vec::new();
        runs.iter().map(of).for_each(|name| {
            if !names.contains(&name) {
                names.push(name);
            }
        });
        names
    };
    let (loads, kernels) = (distinct(|run| &run.load), distinct(|run| &run.on));
    let medians = |load: &String, on: &String| {
        let ours = |run: &&Run| run.load == *load && run.on == *on && run.succeeded;
        let of = |what: fn(&Run) -> f64| {
            let all: Vec<f64> = runs.iter().filter(ours).map(what).collect();
            (!all.is_empty()).then(|| median(all))
        };
        let is_long = of(|run| run.milliseconds)? >= LONG;
        Some((
            is_long,
            of(|run| 1e6 * run.milliseconds / run.count)?,
            of(|run| run.interrupts / run.count)?,
            of(|run| run.refaults)?,
        ))
    };
    let mut rows = Vec::new();
    for load in loads {
        let first = medians(load, kernels[0]);
        for kernel in &kernels {
            let Some((is_long, time, interrupts, refaults)) = medians(load, kernel) else { continue };
            let part = first
                .filter(|(first_is_long, ..)| is_long && *first_is_long)
                .map(|(_, first, ..)| 100.0 * time / first);
            let row = [
                load.clone(),
                (*kernel).clone(),
                format!("{time:.0}"),
                part.map_or_else(|| "-".to_owned(), |part| format!("{part:.1}")),
                format!("{interrupts:.5}"),
                format!("{refaults:.0}"),
            ];
            rows.push((part.unwrap_or(0.0), row));
        }
    }
    rows.sort_by(|one, other| other.0.total_cmp(&one.0));
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    table::format(["load", "kernel", "ns", "%", "interrupts", "refaults"], &rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "kernel 7.2.13 #1\nlazy_unmap 0\ncpus 96 A processor\ncmdline quiet\n\
        load read 100 0 5000\ncount tlb 50\ncount workingset_refault_file 3\ncount workingset_refault_anon 1\n\
        load read 100 0 7000\ncount tlb 30\nload read 100 137 1\n\
        kernel 7.2.13 #1\nlazy_unmap 1\nload read 100 0 3000\ncount tlb 4\n";

    #[test]
    fn a_file_of_runs_becomes_medians_beside_the_first_kernel() {
        let expected = "\
load  kernel                     ns      %  interrupts  refaults
read  7.2.13 lazy_unmap=0  60000000  100.0     0.40000         2
read  7.2.13 lazy_unmap=1  30000000   50.0     0.04000         0
";
        assert_eq!(table_of(&runs_of(TEXT).unwrap()), expected);
        let short = table_of(&runs_of("kernel 7.2.13\nlazy_unmap none\nload exec 10 0 490\n").unwrap());
        assert_eq!(short.lines().last(), Some("exec  7.2.13  49000000  -     0.00000         0"));
    }

    #[test]
    fn what_is_no_number_is_named() {
        let error = runs_of("kernel 7\nload read many 0 1\n").unwrap_err().to_string();
        assert_eq!(error, "line 2: `many` is no number");
        assert_eq!(runs_of("nothing of ours\ncount tlb 1\n").unwrap(), []);
    }
}
