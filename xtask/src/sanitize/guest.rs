//! The guest that tries each rule of invalidation, on each architecture: what must be found is, and nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::emulator::Emulator;
use super::report;
use crate::failure::{self, ensure, Failure};
use crate::kernel::build::ensure_target;
use crate::workspace::Workspace;

/// The guest's crate.
const CRATE: &str = "ceasefire-sanitizer-guest";

/// The names that QEMU has for architectures, those of the compiler, and the machines.
const MACHINES: [(&str, &str, &str); 3] = [
    ("x86_64", "x86_64-unknown-none", "q35"),
    ("aarch64", "aarch64-unknown-none", "virt"),
    ("riscv64", "riscv64gc-unknown-none-elf", "virt"),
];

/// Runs the guest on each architecture. Returns the number of rules that were tried, and of those that QEMU lacks.
pub(super) fn run(
    workspace: &Workspace,
    emulator: &Emulator,
    folder: &Path,
) -> Result<(usize, usize), Failure> {
    let (mut tried, mut lacking) = (0, 0);
    for (arch, target, machine) in MACHINES {
        ensure_target(workspace, target)?;
        failure::run(&mut workspace.cargo(&format!("build --release --package {CRATE} --target {target}")))?;
        let image = workspace.target.join(target).join("release").join(CRATE);
        let path = folder.join(format!("guest-{arch}.report"));
        let said = boot(emulator, arch, machine, &image, &path)?;
        let found = report::read(&path);
        ensure!(found.end.is_some(), new, "{arch}: {} is not whole", path.display());
        let cases = cases(&said);
        let last = said.lines().last().unwrap_or_default().trim_end();
        ensure!(last == "done" && !cases.is_empty(), new, "{arch}: the guest ended by {last:?}");
        let wrong = wrong(&cases, &found.finds.iter().map(|find| find.address).collect());
        ensure!(wrong.is_empty(), new, "{arch}: {}", wrong.join("; "));
        let absent = cases.values().filter(|case| case.word == "lack").count();
        println!("ok the rules of {arch}: {} tried, {absent} absent in QEMU", cases.len() - absent);
        (tried, lacking) = (tried + cases.len() - absent, lacking + absent);
    }
    Ok((tried, lacking))
}

/// Runs the guest until it ends. Returns what it said.
fn boot(
    emulator: &Emulator,
    arch: &str,
    machine: &str,
    image: &Path,
    report: &Path,
) -> Result<String, Failure> {
    let serial: PathBuf = report.with_extension("serial");
    let mut command = emulator.command(arch, report)?;
    command.args(["-machine", machine, "-cpu", "max", "-accel", "tcg", "-smp", "1", "-m", "128"]);
    command.args(["-display", "none", "-monitor", "none", "-no-reboot", "-serial"]);
    command.arg(format!("file:{}", serial.display())).arg("-kernel").arg(image);
    failure::run(&mut command)?;
    Ok(fs::read(&serial).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default())
}

/// A case, as the guest told it.
#[derive(Debug, PartialEq, Eq)]
struct Case<'a> {
    /// `find`, `none`, or `lack` where the processor has no such instruction.
    word: &'a str,
    name: &'a str,
}

/// The cases by the addresses of their pages. Firmware says other things before.
fn cases(said: &str) -> BTreeMap<u64, Case<'_>> {
    said.lines().filter_map(case).collect()
}

fn case(line: &str) -> Option<(u64, Case<'_>)> {
    let mut words = line.trim_end().splitn(3, ' ');
    let (word, address, name) = (words.next()?, words.next()?, words.next()?);
    let address = u64::from_str_radix(address, 16).ok()?;
    ["find", "none", "lack"].contains(&word).then_some((address, Case { word, name }))
}

/// What was not as the guest said.
fn wrong(cases: &BTreeMap<u64, Case<'_>>, found: &BTreeSet<u64>) -> Vec<String> {
    let missed = cases.iter().filter(|(address, case)| case.word == "find" && !found.contains(address));
    let mut wrong: Vec<String> = missed.map(|(_, case)| format!("not found: {}", case.name)).collect();
    for address in found {
        match cases.get(address) {
            Some(case) if case.word == "find" => {}
            Some(case) => wrong.push(format!("found: {}", case.name)),
            None => wrong.push(format!("found at {address:#x}, where nothing was tried")),
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_found_is_compared_with_what_the_guest_says() {
        let said = "OpenSBI v1\nfind 0000000000200000 nothing\nnone 0000000000400000 invlpg\r\nlack 600000 invpcid\ndone\n";
        let cases = cases(said);
        assert_eq!(cases.len(), 3);
        assert_eq!(cases[&0x40_0000], Case { word: "none", name: "invlpg" });
        let of = |found: &[u64]| wrong(&cases, &found.iter().copied().collect());
        assert!(of(&[0x20_0000]).is_empty());
        assert_eq!(of(&[]), ["not found: nothing"]);
        assert_eq!(of(&[0x20_0000, 0x40_0000]), ["found: invlpg"]);
        assert_eq!(of(&[0x20_0000, 0x9000]), ["found at 0x9000, where nothing was tried"]);
    }
}
