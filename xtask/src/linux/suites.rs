//! Linux's own selftests of memory management, and stress-ng's stressors of it, on the stock kernel and on the lazy one.
//!
//! Their programs need libraries, so they come to the guest on its second disk. What a test says counts, and not whether
//! it passes: on a small kernel in a small guest some fail and many are skipped. Both kernels must say the same.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::guest::{succeeded, Boot, Guest};
use super::{source, Kernel};
use crate::failure::{self, ensure, At as _, Failure};
use crate::guests;
use crate::table;
use crate::workspace::Workspace;

/// The seconds for which each stressor runs.
const SECONDS: u32 = 10;

/// Linux's tests of memory management, below its sources.
const SELFTESTS: &str = "tools/testing/selftests/mm";

/// Where Debian's `stress-ng` has its program.
const STRESS: &str = "/usr/bin/stress-ng";

/// What one program said: its exit code, and how many of its parts passed, failed and were skipped.
type Said = [String; 4];

/// Runs all on both kernels and prints what each said.
pub(super) fn run(workspace: &Workspace) -> Result<(), Failure> {
    let files = workspace.target.join("linux/suites");
    collect(workspace, &files)?;
    let guest = Guest::make(workspace, &Kernel::COMPARED, Some(&files))?;
    let mut outputs = Vec::new();
    for kernel in Kernel::COMPARED {
        // Some tests are of huge pages.
        let boot = Boot {
            parameters: "transparent_hugepage=madvise".to_owned(),
            ..Boot::new(kernel, &format!("suites {SECONDS}"))
        };
        let output = guest.run(&boot)?;
        println!("---- {}\n{output}", kernel.name());
        succeeded(&output)?;
        outputs.push(output);
    }
    let (rows, differ) = compare(&results(&outputs[0]), &results(&outputs[1]));
    print!("\n{}", table::format(["program", "stock", "lazy"], &rows));
    ensure!(differ.is_empty(), inconclusive, "the kernels differ in: {}", differ.join(", "));
    Ok(())
}

/// Builds Linux's tests and puts them, stress-ng and their libraries into a folder.
fn collect(workspace: &Workspace, files: &Path) -> Result<(), Failure> {
    ensure!(Path::new(STRESS).is_file(), new, "{STRESS} is missing: install Debian's `stress-ng`");
    let source = source::fetched(workspace, Kernel::Stock)?;
    let headers = workspace.target.join("linux/headers");
    guests::make(&headers)?;
    let made = |target: &str| format!("{target}={}", headers.display());
    failure::run(Command::new("make").arg("--silent").arg("-C").arg(&source).args(["headers", &made("O")]))?;
    let tests = source.join(SELFTESTS);
    let include = format!("KHDR_INCLUDES=-isystem {}", headers.join("usr/include").display());
    failure::run(Command::new("make").arg("--silent").arg("-C").arg(&tests).arg(include))?;
    for folder in ["mm", "bin", "lib"] {
        guests::make(&files.join(folder))?;
    }
    let mut programs = programs(&tests)?;
    for program in &programs {
        copy(program, &files.join("mm"))?;
    }
    programs.push(PathBuf::from(STRESS));
    copy(Path::new(STRESS), &files.join("bin"))?;
    for library in libraries(&failure::stdout(Command::new("ldd").args(&programs))?) {
        copy(Path::new(library), &files.join("lib"))?;
    }
    Ok(())
}

/// The programs in a folder.
fn programs(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut programs = Vec::new();
    for path in guests::files(folder)? {
        if path.is_file() && fs::read(&path).at(&path)?.starts_with(b"\x7fELF") {
            programs.push(path);
        }
    }
    Ok(programs)
}

/// The libraries that `ldd` names.
fn libraries(ldd: &str) -> impl Iterator<Item = &str> {
    let is_library = |word: &&str| word.starts_with('/') && word.contains(".so");
    ldd.lines().filter(|line| line.starts_with('\t')).flat_map(str::split_whitespace).filter(is_library)
}

fn copy(from: &Path, folder: &Path) -> Result<(), Failure> {
    guests::copy(from, &folder.join(from.file_name().unwrap_or_default()))
}

/// What each program said, in the order of their names.
fn results(output: &str) -> BTreeMap<&str, Said> {
    let result = |line| match str::split_whitespace(line).collect::<Vec<_>>()[..] {
        ["result", name, code, passed, failed, skipped] => {
            Some((name, [code, passed, failed, skipped].map(str::to_owned)))
        }
        _ => None,
    };
    output.lines().filter_map(result).collect()
}

/// The lines of the table, and the programs that said different things or ran on one kernel alone.
fn compare<'a>(
    stock: &BTreeMap<&'a str, Said>,
    lazy: &BTreeMap<&'a str, Said>,
) -> (Vec<[String; 3]>, Vec<&'a str>) {
    let cell = |said: Option<&Said>| said.map_or("did not run".to_owned(), |said| said.join(" "));
    let mut names: Vec<&str> = stock.keys().chain(lazy.keys()).copied().collect();
    names.sort_unstable();
    names.dedup();
    let rows = names.iter().map(|name| [(*name).to_owned(), cell(stock.get(name)), cell(lazy.get(name))]);
    let differ = names.iter().filter(|name| stock.get(*name) != lazy.get(*name)).copied();
    (rows.collect(), differ.collect())
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
