//! Linux's own selftests of memory management, and stress-ng's stressors of it, on the stock kernel and on another.
//!
//! Their programs need libraries, so they come to the guest on its second disk. What a test says counts, and not whether
//! it passes: on a small kernel in a small guest some fail and many are skipped. Both kernels must say the same.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::guest::{succeeded, Boot, Guest};
use super::{source, Kernel, STOCK};
use crate::failure::{self, ensure, Failure};
use crate::guests;
use crate::table;
use crate::workspace::Workspace;

/// The seconds for which each stressor runs.
const SECONDS: u32 = 10;

/// Linux's tests of memory management, below its sources.
const SELFTESTS: &str = "tools/testing/selftests/mm";

/// Where Debian's `stress-ng` has its program.
const STRESS: &str = "/usr/bin/stress-ng";

/// What each program said: its exit code, and how many of its parts passed, failed and were skipped.
type Said = BTreeMap<String, String>;

/// Runs all on the stock kernel and on this one, and prints what each said.
pub(super) fn run(workspace: &Workspace, kernel: Kernel) -> Result<(), Failure> {
    let files = workspace.target.join("linux/suites");
    collect(workspace, &files)?;
    let guest = Guest::make(workspace, &[STOCK, kernel], Some(&files))?;
    let said = |kernel: Kernel| {
        // Some tests are of huge pages.
        let parameters = "transparent_hugepage=madvise".to_owned();
        let boot = Boot { parameters, ..Boot::new(kernel, &format!("suites {SECONDS}")) };
        let output = guest.run(&boot)?;
        println!("---- {}\n{output}", kernel.name);
        succeeded(&output).map(|()| results(&output))
    };
    let (rows, differ) = compare(&said(STOCK)?, &said(kernel)?);
    print!("\n{}", table::format(["program", "stock", kernel.name], &rows));
    ensure!(differ.is_empty(), inconclusive, "the kernels differ in: {}", differ.join(", "));
    Ok(())
}

/// Builds Linux's tests and puts them, stress-ng and their libraries into a folder.
fn collect(workspace: &Workspace, files: &Path) -> Result<(), Failure> {
    ensure!(Path::new(STRESS).is_file(), new, "{STRESS} is missing: install Debian's `stress-ng`");
    let source = source::fetched(workspace, STOCK)?;
    let headers = workspace.target.join("linux/headers");
    guests::make(&headers)?;
    let made = |target: &str| format!("{target}={}", headers.display());
    failure::run(Command::new("make").arg("--silent").arg("-C").arg(&source).args(["headers", &made("O")]))?;
    let tests = source.join(SELFTESTS);
    let include = format!("KHDR_INCLUDES=-isystem {}", headers.join("usr/include").display());
    failure::run(Command::new("make").arg("--silent").arg("-C").arg(&tests).arg(include))?;
    let mut programs = guests::files(&tests)?;
    programs.retain(|path| fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF")));
    let stress = PathBuf::from(STRESS);
    let linked = failure::stdout(Command::new("ldd").args(&programs).arg(&stress))?;
    let libraries: Vec<PathBuf> = libraries(&linked).map(PathBuf::from).collect();
    for (folder, files_of) in [("mm", programs), ("bin", vec![stress]), ("lib", libraries)] {
        let folder = files.join(folder);
        guests::make(&folder)?;
        failure::output(Command::new("cp").args(files_of).arg(folder))?;
    }
    Ok(())
}

/// The libraries that `ldd` names.
fn libraries(ldd: &str) -> impl Iterator<Item = &str> {
    let is_library = |word: &&str| word.starts_with('/') && word.contains(".so");
    ldd.lines().filter(|line| line.starts_with('\t')).flat_map(str::split_whitespace).filter(is_library)
}

/// What each program said, in the order of their names.
fn results(output: &str) -> Said {
    let result = |line: &str| {
        let (name, said) = line.strip_prefix("result ")?.split_once(' ')?;
        Some((name.to_owned(), said.to_owned()))
    };
    output.lines().filter_map(result).collect()
}

/// The lines of the table, and the programs that said different things or ran on one kernel alone.
fn compare(stock: &Said, other: &Said) -> (Vec<[String; 3]>, Vec<String>) {
    let names: BTreeSet<&String> = stock.keys().chain(other.keys()).collect();
    let cell =
        |said: &Said, name: &String| said.get(name).cloned().unwrap_or_else(|| "did not run".to_owned());
    let row = |name: &&String| [(*name).clone(), cell(stock, name), cell(other, name)];
    let rows: Vec<_> = names.iter().map(row).collect();
    let differ =
        rows.iter().filter(|[_, stock, other]| stock != other).map(|[name, ..]| name.clone()).collect();
    (rows, differ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_in_any_count_and_a_program_that_did_not_run_are_found() {
        let stock = results("result cow 0 320 0 320\n# note\nresult mkdirty 1 5 1 0\nresult rmap 0 4 0 0\n");
        assert_eq!(stock.len(), 3);
        let (rows, differ) = compare(&stock, &results("result cow 0 320 0 320\nresult mkdirty 1 4 2 0\n"));
        assert_eq!(differ, ["mkdirty", "rmap"]);
        assert_eq!(rows[0], ["cow", "0 320 0 320", "0 320 0 320"]);
        assert_eq!(rows[2][2], "did not run");
        assert!(compare(&stock, &stock).1.is_empty());
    }

    #[test]
    fn libraries_are_the_paths_of_ldd() {
        let ldd = "/bin/a:\n\tlinux-vdso.so.1 (0x00)\n\tlibc.so.6 => /lib/libc.so.6 (0x00)\n\t/lib64/ld.so.2 (0x00)\n";
        assert_eq!(libraries(ldd).collect::<Vec<_>>(), ["/lib/libc.so.6", "/lib64/ld.so.2"]);
    }
}
