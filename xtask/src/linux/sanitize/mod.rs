//! What the sanitizer finds in Linux.
//!
//! The patches of `ports/linux/bugs/` bring historic bugs of TLB flushes back in one kernel, where each sleeps until its
//! parameter is set. A guest sets it and runs a load, under the plugin of `ceasefire sanitize`. A program shows what Linux
//! has by itself, and must be without a find on the kernel with the fixes. Without any bug, all loads must be without a
//! find. `watch` runs a guest until its first find. `rules` runs one with the rules of the series, whose guards are missing
//! in turn.

mod rules;
mod watch;

use super::guest::{Boot, Guest};
use super::{Kernel, BUGS, DEBUG, FIXED, STOCK};
use crate::failure::{ensure, Failure};
use crate::sanitize::emulator::Emulator;
use crate::table;
use crate::workspace::Workspace;
use watch::{watch, First};

/// A run, and what is expected of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Case {
    pub(super) name: &'static str,
    what: What,
    expected: Expected,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum What {
    /// The bug of that name, and the load that shows it.
    Bug(&'static str),
    /// A test of `ports/linux/selftest/owed_flush.c` on the stock kernel, by its number.
    Owed(u32),
    /// The same, or all (0), on this kernel and by the rules of `ports/linux/lazy.toml`: without them no page is known to have
    /// lost its slot, and one that is written in its slot is taken for one that was given away.
    Slot(Kernel, u32),
    /// The series without a guard, or with `all`.
    Guard(&'static str),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expected {
    Find,
    /// The sanitizer need not find it: it has not so far.
    Either,
    Nothing,
}

impl Case {
    /// Bugs in the order of the patches, Linux's own, and the guards.
    #[rustfmt::skip]
    pub(super) const ALL: [Self; 47] = [
        Self::bug("mremap", "mremap"),
        Self::bug("mremap_huge", "mremap_huge"),
        Self::bug("gather", "zap"),
        Self::bug("unshare", "unshare"),
        Self::bug("vmalloc", "threads"),
        Self::bug("batched", "reclaim_replace").but(Expected::Either),
        Self::bug("lost_pending", "reclaim_replace").but(Expected::Either),
        Self::bug("nested", "zap_two"),
        Self::bug("protnone", "protnone"),
        Self::bug("pending_bool", "protnone").but(Expected::Either),
        Self::bug("generation_0", "reclaim"),
        Self::bug("unlazy", "sleep"),
        Self::bug("not_local", "punch"),
        Self::bug("generation_skip", "zap_many"),
        Self::bug("stride", "zap_few"),
        Self::bug("level", "zap_huge"),
        Self::bug("range", "zap_few"),
        Self::bug("promote", "promote"),
        Self::bug("collapse", "collapse"),
        Self::bug("dirty", "unmap_dirty").but(Expected::Either),
        Self::bug("clean", "msync"),
        Self::bug("uffd", "uffd"),
        Self::bug("consume", "reclaim"),
        Self::bug("yield", "zap"),
        Self::bug("migrate", "migrate"),
        Self::bug("fork", "fork"),
        Self::bug("soft_dirty", "soft_dirty"),
        Self::bug("ksm", "ksm"),
        Self::bug("cow", "fork"),
        Self::bug("needless", "mprotect"),
        Self::bug("lazyfree", "lazyfree"),
        Self::new("owed_write", What::Slot(STOCK, 1)),
        Self::new("owed_direct", What::Slot(STOCK, 2)),
        Self::new("owed_writeback", What::Slot(STOCK, 3)).but(Expected::Either),
        Self::new("owed_guard", What::Owed(4)),
        Self::new("owed_private", What::Owed(5)),
        Self::new("owed_copy", What::Owed(6)),
        Self::new("owed_poison", What::Owed(7)),
        Self::new("owed_zero", What::Owed(8)),
        Self::new("owed_free", What::Owed(9)),
        Self::new("owed_fixed", What::Slot(FIXED, 0)).but(Expected::Nothing),
        Self::new("all_guards", What::Guard("all")).but(Expected::Nothing),
        Self::new("without_wait", What::Guard("wait")).but(Expected::Either),
        Self::new("without_dirty", What::Guard("dirty")),
        Self::new("without_pending", What::Guard("pending")).but(Expected::Either),
        Self::new("without_install", What::Guard("install")),
        Self::new("without_settle", What::Guard("settle")).but(Expected::Either),
    ];

    const fn new(name: &'static str, what: What) -> Self {
        Self { name, what, expected: Expected::Find }
    }

    const fn bug(name: &'static str, load: &'static str) -> Self {
        Self::new(name, What::Bug(load))
    }

    const fn but(self, expected: Expected) -> Self {
        Self { expected, ..self }
    }

    fn kernel(&self) -> Kernel {
        match self.what {
            What::Bug(_) => BUGS,
            What::Owed(_) => STOCK,
            What::Slot(kernel, _) => kernel,
            What::Guard(_) => DEBUG,
        }
    }

    /// The load of a bug.
    fn load(&self) -> Option<&'static str> {
        match self.what {
            What::Bug(load) => Some(load),
            What::Owed(_) | What::Slot(..) | What::Guard(_) => None,
        }
    }
}

/// The CPUs that loads of bugs want.
const CPUS: u32 = 4;

/// The changes of each test of what is owed, at most.
const CHANGES: u32 = 100;

/// The command for one of these tests, or for all.
fn owed(test: u32) -> String {
    format!("owed_flush /mnt {CHANGES} {test}")
}

/// What a run has found: its first find, or the kinds of those that no rule leaves out.
#[derive(Debug)]
struct Row {
    name: &'static str,
    expected: Expected,
    kinds: Option<String>,
    seconds: Option<f64>,
}

impl Row {
    fn cells(&self) -> [String; 4] {
        let found = if self.kinds.is_some() { "yes" } else { "no" };
        let seconds = self.seconds.map_or_else(String::new, |seconds| format!("{seconds:.1}"));
        [self.name.to_owned(), found.to_owned(), self.kinds.clone().unwrap_or_default(), seconds]
    }
}

/// Makes the runs, each for so many seconds of its load at most; and one with the loads of all bugs and no bug.
pub(super) fn run(workspace: &Workspace, seconds: u32, cases: &[Case]) -> Result<(), Failure> {
    let emulator = Emulator::find(workspace)?;
    let kernels: Vec<Kernel> = cases.iter().map(Case::kernel).collect();
    let guest = Guest::make(workspace, &kernels, None)?;
    let report = workspace.target.join("linux/guest/report");
    let mut rows = Vec::new();
    let mut boot = |name, expected, kernel, cpus: u32, command: &str| {
        let parameters = format!("nokaslr numa=fake=2 transparent_hugepage=madvise maxcpus={cpus}");
        let boot = Boot { parameters, ..Boot::new(kernel, command) };
        println!("==> {command}");
        let first = watch(&mut guest.command(emulator.command("x86_64", &report)?, &boot)?, &report)?;
        let (kinds, seconds) = first.map(|First { kind, seconds }| (kind.name().to_owned(), seconds)).unzip();
        let row = Row { name, expected, kinds, seconds };
        // All of them take long, and may be cut short.
        println!("{}", row.cells().join(" "));
        rows.push(row);
        Ok::<(), Failure>(())
    };
    for case in cases {
        let Case { name, what, expected } = case;
        let (cpus, command) = match what {
            What::Bug(load) => (CPUS, format!("bug {name} {seconds} {load}")),
            // The emulator has few to run them on, and both that count must run at once.
            What::Owed(test) => (2, owed(*test)),
            What::Slot(..) | What::Guard(_) => continue,
        };
        boot(name, *expected, case.kernel(), cpus, &command)?;
    }
    let mut loads: Vec<&str> = cases.iter().filter_map(Case::load).collect();
    loads.sort_unstable();
    loads.dedup();
    if !loads.is_empty() {
        boot("(no bug)", Expected::Nothing, BUGS, CPUS, &format!("bug none {seconds} {}", loads.join(" ")))?;
    }
    for case in cases {
        // The selftest fails where it shows something.
        let (command, codes) = match case.what {
            What::Slot(_, test) => (owed(test), &[0, 1][..]),
            What::Guard(guard) => (format!("guards {seconds} {guard}"), &[0][..]),
            What::Bug(_) | What::Owed(_) => continue,
        };
        let Case { name, expected, .. } = *case;
        let kinds = rules::run(workspace, &emulator, &guest, name, case.kernel(), &command, codes)?;
        rows.push(Row { name, expected, kinds, seconds: None });
    }
    let cells: Vec<_> = rows.iter().map(Row::cells).collect();
    print!("\n{}", table::format(["run", "found", "kind", "seconds"], &cells));
    judge(&rows)
}

/// Fails if something was found where nothing should be, or the other way round.
fn judge(rows: &[Row]) -> Result<(), Failure> {
    let names = |expected, is_found| {
        let is_wrong = |row: &&Row| row.expected == expected && row.kinds.is_some() == is_found;
        rows.iter().filter(is_wrong).map(|row| row.name).collect::<Vec<_>>().join(", ")
    };
    let (wrong, missed) = (names(Expected::Nothing, true), names(Expected::Find, false));
    ensure!(wrong.is_empty(), new, "found, although no flush is missing: {wrong}");
    ensure!(missed.is_empty(), new, "not found: {missed}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;
    use crate::linux::source;

    fn bugs() -> impl Iterator<Item = &'static Case> {
        Case::ALL.iter().filter(|case| case.load().is_some())
    }

    #[test]
    fn each_patch_but_the_first_is_a_bug() {
        let patches = source::patches(&Workspace::load().unwrap(), "bugs").unwrap();
        let names = patches.iter().filter_map(|path| path.file_stem()?.to_str()?.split_once('-'));
        let names: Vec<_> = names.map(|(_, name)| name.to_owned()).collect();
        let expected = ["parameter"].into_iter().chain(bugs().map(|bug| bug.name));
        assert_eq!(names, expected.collect::<Vec<_>>());
    }

    #[test]
    fn the_loads_are_those_of_the_program() {
        let path = Workspace::load().unwrap().root.join("ports/linux/bugs/loads.c");
        let text = fs::read_to_string(path).unwrap();
        let has = |load: &str| text.contains(&format!("{{ \"{load}\", begin_"));
        let loads: BTreeSet<_> = bugs().filter_map(Case::load).collect();
        assert_eq!(loads.into_iter().find(|load| !has(load)), None);
    }

    #[test]
    fn a_find_must_be_made_where_a_flush_is_missing_and_nowhere_else() {
        let row = |expected, found: bool| {
            let kinds = found.then(|| "reuse".to_owned());
            Row { name: "a", expected, kinds, seconds: found.then_some(2.5) }
        };
        for (expected, found, is_right) in [
            (Expected::Find, true, true),
            (Expected::Find, false, false),
            (Expected::Either, true, true),
            (Expected::Either, false, true),
            (Expected::Nothing, true, false),
            (Expected::Nothing, false, true),
        ] {
            assert_eq!(judge(&[row(expected, found)]).is_ok(), is_right, "{expected:?} {found}");
        }
        assert_eq!(row(Expected::Find, true).cells(), ["a", "yes", "reuse", "2.5"]);
        assert_eq!(row(Expected::Find, false).cells(), ["a", "no", "", ""]);
    }
}
