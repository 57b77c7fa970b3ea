//! The computer: its processor, CPUs and memory.

use std::fs;
use std::path::Path;

use crate::recording::{Facts, MOST_CPUS};

/// The facts about this computer.
pub(crate) fn facts() -> Facts {
    let system = rustix::system::uname();
    let text = |name: &std::ffi::CStr| name.to_string_lossy().into_owned();
    let memory = rustix::system::sysinfo();
    let mut isolated = list(&read("/sys/devices/system/cpu/isolated"));
    isolated.extend(list(&read("/sys/devices/system/cpu/nohz_full")));
    isolated.sort_unstable();
    isolated.dedup();
    Facts {
        ceasefire: env!("CARGO_PKG_VERSION").to_owned(),
        kernel: [system.sysname(), system.release(), system.version()].map(text).join(" "),
        architecture: text(system.machine()),
        processor: processor(),
        cpus: cpus("/sys/devices/system".as_ref()),
        isolated,
        memory_bytes: memory.totalram as u64 * u64::from(memory.mem_unit.max(1)),
        ..Facts::default()
    }
}

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The numbers in a list such as `0-3,8`.
pub(crate) fn list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse().ok()?)
    };
    text.trim().split(',').filter_map(range).flatten().take(MOST_CPUS as usize).collect()
}

/// The CPUs that are online, with their nodes: 0 where the kernel does not say it.
fn cpus(system: &Path) -> Vec<(u32, u32)> {
    let mut cpus: Vec<(u32, u32)> =
        list(&read(system.join("cpu/online"))).into_iter().map(|cpu| (cpu, 0)).collect();
    for node in list(&read(system.join("node/online"))) {
        for cpu in list(&read(system.join(format!("node/node{node}/cpulist")))) {
            if let Some(known) = cpus.iter_mut().find(|(known, _)| *known == cpu) {
                known.1 = node;
            }
        }
    }
    cpus
}

/// The release of Linux that runs, as `uname -r` says it.
pub fn release() -> String {
    rustix::system::uname().release().to_string_lossy().into_owned()
}

/// The name of this computer's processor, as `/proc/cpuinfo` states it.
pub fn processor() -> String {
    let text = read("/proc/cpuinfo");
    processor_of(&text).unwrap_or_else(|| "unnamed processor".to_owned())
}

fn processor_of(cpuinfo: &str) -> Option<String> {
    let field = |name: &str| {
        let line =
            cpuinfo.lines().find_map(|line| line.strip_prefix(name)?.trim_start().strip_prefix(':'))?;
        Some(line.trim()).filter(|value| !value.is_empty())
    };
    // Linux on 64-bit Arm gives numbers alone.
    let numbers =
        || Some(format!("processor {} of implementer {}", field("CPU part")?, field("CPU implementer")?));
    field("model name").map(str::to_owned).or_else(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpus_have_the_nodes_that_the_kernel_lists() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in [
            ("cpu/online", "0-3,8\n"),
            ("node/online", "0,2\n"),
            ("node/node0/cpulist", "0-1\n"),
            ("node/node2/cpulist", "2-3,8\n"),
        ] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("room");
            fs::write(path, text).expect("room");
        }
        assert_eq!(cpus(folder.path()), [(0, 0), (1, 0), (2, 2), (3, 2), (8, 2)]);
    }

    #[test]
    fn the_processor_has_a_name_or_numbers() {
        let x86 = "processor\t: 0\nmodel name\t: AMD EPYC\nmodel name\t: other\n";
        assert_eq!(processor_of(x86).as_deref(), Some("AMD EPYC"));
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(processor_of(arm).as_deref(), Some("processor 0xd0c of implementer 0x41"));
        assert_eq!(processor_of("model name\t: \n"), None);
        assert!(!processor().is_empty());
    }

    #[test]
    fn this_computer_has_cpus_and_memory() {
        let facts = facts();
        assert!(!facts.cpus.is_empty() && facts.memory_bytes > 0 && facts.kernel.starts_with("Linux "));
        assert!(facts.kernel.contains(&format!(" {} ", release())));
    }
}
