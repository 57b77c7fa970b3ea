//! A machine like the computer that runs this program, as far as Linux describes it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::builtin;
use super::file::{assemble, read_text};
use super::machine::Machine;
use super::mark::Marks;
use super::quantity::Parameter;
use super::tlb::{TlbLevel, MAX_ENTRIES};
use super::topology::{Node, Topology, MAX_CPUS};
use super::{MachineError, Problem};
use crate::document;

impl Machine {
    /// A machine with this computer's nodes, online CPUs and memory, and the size of its second-level TLB if Linux
    /// reports it (AMD). Everything else is assumed, and its source says so.
    ///
    /// # Errors
    /// A required file of Linux is missing or cannot be parsed, or more than [`MAX_CPUS`] CPUs are online.
    pub fn host() -> Result<Self, MachineError> {
        Self::host_from("/".as_ref())
    }

    /// Like [`host`](Self::host), from the `sys` and `proc` below `root`.
    ///
    /// # Errors
    /// See [`host`](Self::host).
    pub fn host_from(root: &Path) -> Result<Self, MachineError> {
        let mut sources = Vec::new();
        let topology = read_topology(root, &mut sources)?;
        let defaults = document::parse("host.toml", builtin::HOST)?;
        let mut machine = assemble(defaults, "".as_ref(), topology, sources)?;
        if let Some(level) = second_level(root) {
            machine.tlb.l2 = level;
            let source = "/proc/cpuinfo: TLB size, which counts entries for data and for code";
            machine.state("tlb.l2.entries", level.entries, source);
            machine.state(
                "tlb.l2.ways",
                level.ways,
                "assumed: the fewest from 8 on that make a power of two of sets",
            );
        }
        Ok(machine)
    }

    fn state(&mut self, key: &str, value: u32, source: &str) {
        for parameter in self.sources.iter_mut().filter(|parameter| parameter.key == key) {
            parameter.replace(f64::from(value), source);
        }
    }
}

/// Nodes with memory and their online CPUs, renumbered without gaps. CPUs without such a node go to the first one.
fn read_topology(root: &Path, sources: &mut Vec<Parameter>) -> Result<Topology, MachineError> {
    let online_path = root.join("sys/devices/system/cpu/online");
    let online = read_list(&online_path)?;
    let mut nodes = Vec::new();
    let mut node_of = BTreeMap::new();
    for directory in node_directories(&root.join("sys/devices/system/node")) {
        let bytes = read_memory(&directory.join("meminfo"))?;
        if bytes == 0 {
            continue;
        }
        for cpu in read_list(&directory.join("cpulist"))? {
            node_of.insert(cpu, nodes.len());
        }
        nodes.push(Node { cpus: Vec::new(), bytes, tier: 0 });
    }
    let memory_source = if nodes.is_empty() {
        nodes.push(Node { cpus: Vec::new(), bytes: read_memory(&root.join("proc/meminfo"))?, tier: 0 });
        "/proc/meminfo: MemTotal"
    } else {
        "/sys/devices/system/node: MemTotal of meminfo"
    };
    for (number, cpu) in online.iter().enumerate() {
        let node = node_of.get(cpu).copied().unwrap_or(0);
        nodes[node].cpus.push(number as u16);
    }
    for (index, node) in nodes.iter().enumerate() {
        for (key, value, unit, source) in [
            (
                "cpus",
                node.cpus.len() as f64,
                "CPUs",
                "/sys/devices/system: cpu/online and cpulist of each node",
            ),
            ("memory", node.bytes as f64, "B", memory_source),
        ] {
            let key = format!("topology.nodes[{index}].{key}");
            let (unit, source) = (unit.to_owned(), source.to_owned());
            sources.push(Parameter { key, value, unit, source, marks: Marks::default(), range: None });
        }
    }
    Topology::new(nodes).map_err(|problem| problem.in_file(&online_path.to_string_lossy()))
}

/// `node0`, `node1` and so on in `directory`, in the order of their numbers; none if Linux was built without nodes.
fn node_directories(directory: &Path) -> Vec<PathBuf> {
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("node")?.parse::<u32>().ok();
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let nodes: BTreeMap<_, _> =
        entries.map(|entry| entry.path()).filter_map(|path| Some((number(&path)?, path))).collect();
    nodes.into_values().collect()
}

/// The CPUs of a list such as `0-3,8`, ascending.
fn read_list(path: &Path) -> Result<Vec<u32>, MachineError> {
    let text = read_text(path)?;
    let mut cpus = Vec::new();
    for range in text.trim().split(',').filter(|range| !range.is_empty()) {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) if first <= last && last - first < u32::from(MAX_CPUS) => {
                cpus.extend(first..=last);
            }
            _ => {
                let bound = format!("a range of at most {MAX_CPUS} CPUs");
                return Err(Problem::invalid(range, bound).in_file(&path.to_string_lossy()));
            }
        }
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// `MemTotal` of a `meminfo`, in bytes.
fn read_memory(path: &Path) -> Result<u64, MachineError> {
    let text = read_text(path)?;
    let kibibytes = text.lines().find_map(|line| {
        let value = line.split_once("MemTotal:")?.1.trim().strip_suffix("kB")?;
        value.trim().parse::<u64>().ok()?.checked_mul(1024)
    });
    kibibytes.ok_or_else(|| MachineError {
        key: Some("MemTotal".to_owned()),
        ..Problem::Missing.in_file(&path.to_string_lossy())
    })
}

/// The second-level TLB from `/proc/cpuinfo`, if it is there.
fn second_level(root: &Path) -> Option<TlbLevel> {
    let text = fs::read_to_string(root.join("proc/cpuinfo")).ok()?;
    let size = text.lines().find_map(|line| line.strip_prefix("TLB size")?.trim().strip_prefix(':'))?;
    let entries: u32 = size.trim().strip_suffix("4K pages")?.trim().parse().ok()?;
    (8..=entries.min(MAX_ENTRIES)).find_map(|ways| TlbLevel::new(entries, ways).ok())
}

#[cfg(test)]
mod tests {
    use super::super::costs::Costs;
    use super::super::testing::TempDir;
    use super::*;

    const MEMINFO: &str = "Node 1 MemFree: 7 kB\nNode 1 MemTotal:       2097152 kB\n";

    /// Two nodes with CPUs, of which CPU 3 is offline, and node 10 with memory alone.
    fn two_nodes() -> TempDir {
        let root = TempDir::new();
        root.write("sys/devices/system/cpu/online", "0-2,4-5\n");
        for (node, cpus) in [(0, "0,2,4\n"), (1, "1,3,5\n"), (10, "\n")] {
            root.write(&format!("sys/devices/system/node/node{node}/cpulist"), cpus);
            root.write(&format!("sys/devices/system/node/node{node}/meminfo"), MEMINFO);
        }
        root.write("sys/devices/system/node/online", "0-1,10\n");
        root
    }

    fn cpus(machine: &Machine) -> Vec<&[u16]> {
        machine.topology.nodes().iter().map(|node| &node.cpus[..]).collect()
    }

    fn refused(root: &TempDir) -> String {
        let error = Machine::host_from(root.path()).expect_err("must be refused").to_string();
        error.strip_prefix(root.path().to_str().expect("a plain name")).expect("names the file").to_owned()
    }

    #[test]
    fn online_cpus_are_renumbered_without_gaps() {
        let machine = Machine::host_from(two_nodes().path()).expect("valid");
        assert_eq!(cpus(&machine), [&[0, 2, 3][..], &[1, 4], &[]]);
        assert_eq!(machine.topology.bytes(), 3 * (2 << 30));
        assert_eq!(machine.latency.pair(0, 4), 60_000);
    }

    #[test]
    fn a_computer_without_nodes_has_one() {
        let root = TempDir::new();
        root.write("sys/devices/system/cpu/online", "0-3\n");
        root.write("proc/meminfo", "MemTotal:        4194304 kB\nMemFree: 1 kB\n");
        let machine = Machine::host_from(root.path()).expect("valid");
        assert_eq!(cpus(&machine), [&[0, 1, 2, 3]]);
        assert_eq!(machine.topology.bytes(), 4 << 30);
    }

    #[test]
    fn cpus_of_nodes_without_memory_go_to_the_first_node() {
        let root = two_nodes();
        root.write("sys/devices/system/node/node1/meminfo", "Node 1 MemTotal: 0 kB\n");
        let machine = Machine::host_from(root.path()).expect("valid");
        assert_eq!(cpus(&machine), [&[0, 1, 2, 3, 4][..], &[]]);
    }

    #[test]
    fn the_size_of_the_second_level_tlb_is_taken_if_linux_reports_it() {
        for (line, expected) in [
            ("TLB size\t: 2560 4K pages\n", (2560, 10)),
            ("TLB size\t: 3072 4K pages\n", (3072, 12)),
            ("TLB size\t: 1024 4K pages\n", (1024, 8)),
            ("TLB size\t: 0 4K pages\n", (1536, 12)),
            ("TLB size\t: 4294967295 4K pages\n", (1536, 12)),
            ("TLB size\t: many\n", (1536, 12)),
            ("model name\t: x\n", (1536, 12)),
        ] {
            let root = two_nodes();
            root.write("proc/cpuinfo", line);
            let machine = Machine::host_from(root.path()).expect("valid");
            assert_eq!((machine.tlb.l2.entries, machine.tlb.l2.ways), expected, "{line}");
            let entries =
                machine.sources.iter().find(|parameter| parameter.key == "tlb.l2.entries").expect("stated");
            assert_eq!(entries.value as u32, expected.0);
            assert_eq!(entries.source.starts_with("assumed: "), expected.0 == 1536);
        }
    }

    #[test]
    fn everything_else_is_marked_as_assumed() {
        let machine = Machine::host_from(two_nodes().path()).expect("valid");
        let (told, assumed): (Vec<_>, Vec<_>) =
            machine.sources.iter().partition(|parameter| parameter.key.starts_with("topology."));
        assert_eq!((told.len(), assumed.len()), (3 * 2, 5 + 1 + 6 + 6 + 1 + Costs::KEYS.len()));
        assert!(told.iter().all(|parameter| parameter.source.starts_with("/sys/")));
        for parameter in assumed {
            assert!(parameter.source.starts_with("assumed: "), "{parameter:?}");
        }
    }

    #[test]
    fn errors_name_the_missing_file_or_value() {
        let root = TempDir::new();
        assert!(refused(&root).starts_with("/sys/devices/system/cpu/online: cannot read: "));

        root.write("sys/devices/system/cpu/online", "0-x\n");
        assert_eq!(
            refused(&root),
            "/sys/devices/system/cpu/online: 0-x: must be a range of at most 8192 CPUs"
        );

        root.write("sys/devices/system/cpu/online", "\n");
        root.write("proc/meminfo", "MemFree: 1 kB\n");
        assert_eq!(refused(&root), "/proc/meminfo: MemTotal: missing");

        root.write("proc/meminfo", "MemTotal: 4096 kB\n");
        assert_eq!(refused(&root), "/sys/devices/system/cpu/online: 0 CPUs: must be 1 to 8192 CPUs");

        root.write("sys/devices/system/cpu/online", "0-8191,9000\n");
        assert_eq!(refused(&root), "/sys/devices/system/cpu/online: 8193 CPUs: must be 1 to 8192 CPUs");
    }

    #[test]
    fn more_cpus_than_can_be_numbered_are_refused() {
        let root = TempDir::new();
        let ranges: Vec<_> = (0..9).map(|n| format!("{}-{}", n * 8192, n * 8192 + 8191)).collect();
        root.write("sys/devices/system/cpu/online", &ranges.join(","));
        root.write("proc/meminfo", "MemTotal: 4096 kB\n");
        assert!(refused(&root).ends_with("CPUs: must be 1 to 8192 CPUs"));
    }

    #[test]
    fn this_computer_is_read() {
        assert!(Machine::host().is_ok_and(|machine| machine.topology.cpu_count() > 0));
    }
}
