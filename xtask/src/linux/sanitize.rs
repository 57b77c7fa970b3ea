//! Historic bugs of TLB flushes in Linux, and whether the sanitizer finds them.
//!
//! The patches of `ports/linux/bugs/` bring them back in one kernel, where each sleeps until its parameter is set. A guest
//! sets it and runs a load, under the plugin of `ceasefire sanitize`. Without any bug, all loads must be without a find.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::guest::{Boot, Guest};
use super::BUGS;
use crate::failure::{self, ensure, At as _, Failure};
use crate::table;
use crate::workspace::Workspace;

/// A bug: its name, and the load that shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bug {
    pub(super) name: &'static str,
    load: &'static str,
    /// The sanitizer must find it.
    is_found: bool,
}

impl Bug {
    /// In the order of the patches.
    #[rustfmt::skip]
    pub(super) const ALL: [Self; 31] = [
        Self::new("mremap", "mremap"),
        Self::new("mremap_huge", "mremap_huge"),
        Self::new("gather", "zap"),
        Self::new("unshare", "unshare"),
        Self::new("vmalloc", "threads"),
        Self::unseen("batched", "reclaim_replace"),
        Self::unseen("lost_pending", "reclaim_replace"),
        Self::new("nested", "zap_two"),
        Self::new("protnone", "protnone"),
        Self::unseen("pending_bool", "protnone"),
        Self::new("generation_0", "reclaim"),
        Self::new("unlazy", "sleep"),
        Self::new("not_local", "punch"),
        Self::new("generation_skip", "zap_many"),
        Self::new("stride", "zap_few"),
        Self::new("level", "zap_huge"),
        Self::new("range", "zap_few"),
        Self::new("promote", "promote"),
        Self::new("collapse", "collapse"),
        Self::unseen("dirty", "unmap_dirty"),
        Self::new("clean", "msync"),
        Self::new("uffd", "uffd"),
        Self::new("consume", "reclaim"),
        Self::new("yield", "zap"),
        Self::new("migrate", "migrate"),
        Self::new("fork", "fork"),
        Self::new("soft_dirty", "soft_dirty"),
        Self::new("ksm", "ksm"),
        Self::new("cow", "fork"),
        Self::new("needless", "mprotect"),
        Self::unseen("lazyfree", "lazyfree"),
    ];

    const fn new(name: &'static str, load: &'static str) -> Self {
        Self { name, load, is_found: true }
    }

    /// One that the sanitizer need not find: it has not so far.
    const fn unseen(name: &'static str, load: &'static str) -> Self {
        Self { is_found: false, ..Self::new(name, load) }
    }
}

/// The line after which loads run.
const LOADS: &str = "---- loads";

/// The first find of a boot.
#[derive(Debug)]
struct First {
    kind: String,
    /// The seconds since the loads began.
    seconds: f64,
}

/// Runs the bugs for so many seconds each, at most, and before them, without any, all of their loads.
pub(super) fn run(workspace: &Workspace, seconds: u32, bugs: &[Bug]) -> Result<(), Failure> {
    failure::run(&mut workspace.cargo("build --quiet --release --package ceasefire-plugin"))?;
    let guest = Guest::make(workspace, &[BUGS], None)?;
    let report = workspace.target.join("linux/guest/report");
    let plugin = workspace.target.join("release/libceasefire_plugin.so");
    let plugin = format!("{},out={}", plugin.display(), report.display());
    let boot = |bug: &str, loads: &[&str]| {
        let command = format!("bug {bug} {seconds} {}", loads.join(" "));
        let parameters = "nokaslr numa=fake=2 transparent_hugepage=madvise".to_owned();
        let mut qemu = guest.command(&Boot { parameters, ..Boot::new(BUGS, &command) })?;
        let _ = fs::remove_file(&report);
        println!("==> {command}");
        watch(qemu.args(["-plugin", &plugin]), &report)
    };
    let mut loads: Vec<&str> = bugs.iter().map(|bug| bug.load).collect();
    loads.sort_unstable();
    loads.dedup();
    let control = boot("none", &loads)?;
    let mut rows = vec![row("(none)", control.as_ref())];
    let mut missed = Vec::new();
    for bug in bugs {
        let first = boot(bug.name, &[bug.load])?;
        missed.extend((bug.is_found && first.is_none()).then_some(bug.name));
        rows.push(row(bug.name, first.as_ref()));
    }
    print!("\n{}", table::format(["bug", "found", "kind", "seconds"], &rows));
    ensure!(control.is_none(), new, "the sanitizer found something although no bug was awake");
    ensure!(missed.is_empty(), new, "not found: {}", missed.join(", "));
    Ok(())
}

fn row(bug: &str, first: Option<&First>) -> [String; 4] {
    let [found, kind, seconds] = match first {
        Some(first) => ["yes", &first.kind, &format!("{:.1}", first.seconds)].map(str::to_owned),
        None => ["no", "", ""].map(str::to_owned),
    };
    [bug.to_owned(), found, kind, seconds]
}

/// Runs a guest until its loads end or the plugin finds something. Returns the first find.
fn watch(qemu: &mut Command, report: &Path) -> Result<Option<First>, Failure> {
    let begun = Instant::now();
    let mut child = qemu.stdout(Stdio::piped()).spawn().at("qemu-system-x86_64")?;
    let (sender, lines) = mpsc::channel();
    let output = child.stdout.take().map(BufReader::new);
    let reader = thread::spawn(move || {
        for line in output.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            // The guest is of no more interest after a find.
            let _ = sender.send(line);
        }
    });
    let (mut text, mut loads, mut found) = (String::new(), None, None);
    while found.is_none() {
        match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) => {
                loads = loads.or_else(|| line.starts_with(LOADS).then(|| begun.elapsed().as_secs_f64()));
                text += &line;
                text.push('\n');
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        found = first(report);
    }
    // It has ended by itself unless there was a find.
    let _ = child.kill();
    child.wait().at("qemu-system-x86_64")?;
    let _ = reader.join();
    let found = found.or_else(|| first(report));
    let is_whole = found.is_some() || text.lines().any(|line| line.trim_end() == "exit 0");
    ensure!(
        is_whole,
        new,
        "the loads did not end; the guest's last lines:\n{}",
        failure::last_lines(&text, 40)
    );
    Ok(found.map(|(kind, time)| First { kind, seconds: time - loads.unwrap_or_default() }))
}

/// The kind of the first find of a report, and its time in seconds.
fn first(report: &Path) -> Option<(String, f64)> {
    // The plugin makes it once the emulator runs, and may be about to write a line.
    let text = fs::read_to_string(report).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("{\"find\""))?;
    let find = &serde_json::from_str::<Value>(line).ok()?["find"];
    Some((find["kind"].as_str()?.to_owned(), find["used"]["time"].as_f64()? / 1e9))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::linux::source;

    #[test]
    fn each_patch_but_the_first_is_a_bug() {
        let patches = source::patches(&Workspace::load().unwrap(), "bugs").unwrap();
        let names = patches.iter().filter_map(|path| path.file_stem()?.to_str()?.split_once('-'));
        let names: Vec<_> = names.map(|(_, name)| name.to_owned()).collect();
        let expected = ["parameter"].into_iter().chain(Bug::ALL.iter().map(|bug| bug.name));
        assert_eq!(names, expected.collect::<Vec<_>>());
    }

    #[test]
    fn the_loads_are_those_of_the_program() {
        let path = Workspace::load().unwrap().root.join("ports/linux/bugs/loads.c");
        let text = fs::read_to_string(path).unwrap();
        let has = |load: &str| text.contains(&format!("{{ \"{load}\", begin_"));
        let loads: BTreeSet<_> = Bug::ALL.iter().map(|bug| bug.load).collect();
        assert_eq!(loads.into_iter().find(|load| !has(load)), None);
    }

    #[test]
    fn the_first_find_of_a_report_counts() {
        let path = std::env::temp_dir().join(format!("report-{}", std::process::id()));
        assert!(first(&path).is_none());
        let find = r#"{"find":{"kind":"late-use","used":{"cpu":1,"time":2500000000}}}"#;
        fs::write(&path, format!("{{\"begin\":{{}}}}\n{find}\n{{\"find\":")).unwrap();
        assert_eq!(first(&path), Some(("late-use".to_owned(), 2.5)));
        fs::remove_file(&path).unwrap();
    }
}
