//! The CPUs that the program may use, their places in the computer, and its nodes.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use rustix::thread::{sched_getaffinity, sched_setaffinity, CpuSet};

/// The size of the last-level cache that is assumed where Linux states none.
const USUAL_CACHE: usize = 32 << 20;

/// A CPU.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Cpu {
    /// Its node, if Linux knows nodes.
    node: Option<u32>,
    /// The CPUs of its core, as Linux writes them.
    core: Option<String>,
    /// The CPUs that share its last-level cache, as Linux writes them.
    cache: Option<String>,
}

/// The distance of two CPUs, from the nearest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// Two threads of one core.
    Core,
    /// Two cores with a common cache.
    Cache,
    /// Two cores of one node.
    Node,
    /// Two nodes.
    Nodes,
}

impl Distance {
    /// The distance in words.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Core => "within a core",
            Self::Cache => "within a shared cache",
            Self::Node => "within a node",
            Self::Nodes => "between nodes",
        }
    }
}

/// The part of this computer that the program may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Computer {
    cpus: BTreeMap<u32, Cpu>,
    /// The nodes with memory.
    nodes: Vec<u32>,
    /// The size of the largest cache, in bytes.
    cache: usize,
}

impl Computer {
    /// The CPUs that this thread may use, as Linux describes them.
    ///
    /// # Errors
    /// Linux does not say which CPUs the thread may use.
    pub fn read() -> io::Result<Self> {
        let allowed = sched_getaffinity(None)?;
        let cpus = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).map(|cpu| cpu as u32);
        Ok(Self::read_from("/".as_ref(), cpus))
    }

    /// The same with the `sys` below `root`.
    fn read_from(root: &Path, cpus: impl IntoIterator<Item = u32>) -> Self {
        let system = root.join("sys/devices/system");
        let mut largest = 0;
        let mut cpu = |number: u32| {
            let folder = system.join(format!("cpu/cpu{number}"));
            let caches = numbered(&folder.join("cache"), "index");
            let last = caches.last().map(|index| folder.join(format!("cache/index{index}")));
            let read = |path: &Path| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
            let size = last.as_ref().and_then(|last| kibibytes(&read(&last.join("size"))?));
            largest = largest.max(size.unwrap_or(0));
            Cpu {
                node: numbered(&folder, "node").first().copied(),
                core: read(&folder.join("topology/thread_siblings_list")),
                cache: last.and_then(|last| read(&last.join("shared_cpu_list"))),
            }
        };
        let cpus: BTreeMap<_, _> = cpus.into_iter().map(|number| (number, cpu(number))).collect();
        let cache = if largest == 0 { USUAL_CACHE } else { largest };
        let folder = system.join("node");
        let has_memory = |node: &u32| {
            let meminfo = fs::read_to_string(folder.join(format!("node{node}/meminfo"))).unwrap_or_default();
            let total = meminfo.lines().find_map(|line| line.split_once("MemTotal:"));
            total.is_some_and(|(_, size)| !size.trim_start().starts_with("0 "))
        };
        let nodes = numbered(&folder, "node").into_iter().filter(has_memory).collect();
        Self { cpus, nodes, cache }
    }

    /// The numbers of the CPUs, ascending.
    pub fn cpus(&self) -> impl Iterator<Item = u32> + '_ {
        self.cpus.keys().copied()
    }

    /// The numbers of the nodes with memory, ascending; none if Linux knows no nodes.
    pub fn nodes(&self) -> &[u32] {
        &self.nodes
    }

    /// The size of the largest cache, in bytes.
    pub(super) fn cache(&self) -> usize {
        self.cache
    }

    /// A CPU of the node, if the program may use one.
    pub(super) fn cpu_of(&self, node: u32) -> Option<u32> {
        self.cpus.iter().find(|(_, cpu)| cpu.node == Some(node)).map(|(&number, _)| number)
    }

    /// The distance of two CPUs. Where Linux does not describe them, they are two cores of one node.
    pub fn distance(&self, a: u32, b: u32) -> Distance {
        let (Some(a), Some(b)) = (self.cpus.get(&a), self.cpus.get(&b)) else { return Distance::Node };
        let same = |one: &Option<String>, other| one.is_some() && one == other;
        match () {
            () if same(&a.core, &b.core) => Distance::Core,
            () if a.node != b.node => Distance::Nodes,
            () if same(&a.cache, &b.cache) => Distance::Cache,
            () => Distance::Node,
        }
    }
}

/// The numbers of the entries `<name>N` in a folder, ascending.
fn numbered(folder: &Path, name: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.strip_prefix(name)?.parse().ok();
    let mut numbers: Vec<u32> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

/// A size such as `512K`, in bytes.
fn kibibytes(text: &str) -> Option<usize> {
    text.strip_suffix('K')?.parse::<usize>().ok()?.checked_mul(1024)
}

/// Keeps this thread on one CPU.
pub(super) fn pin(cpu: u32) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu as usize);
    Ok(sched_setaffinity(None, &set)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        fs::write(path, text).expect("writable");
    }

    /// Two nodes of two cores with two threads, one cache a node, and a node of memory alone.
    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().expect("a writable folder for temporary files");
        let root = folder.path();
        for cpu in 0..8 {
            let (node, core) = (cpu / 4, cpu / 2 * 2);
            let system = format!("sys/devices/system/cpu/cpu{cpu}");
            write(root, &format!("{system}/node{node}/x"), "");
            write(
                root,
                &format!("{system}/topology/thread_siblings_list"),
                &format!("{core}-{}\n", core + 1),
            );
            write(root, &format!("{system}/cache/index0/size"), "32K\n");
            write(root, &format!("{system}/cache/index3/size"), "16384K\n");
            let shared = format!("{}-{}\n", node * 4, node * 4 + 3);
            write(root, &format!("{system}/cache/index3/shared_cpu_list"), &shared);
        }
        for (node, size) in [(0, 7), (1, 7), (2, 9), (3, 0)] {
            let meminfo = format!("Node {node} MemTotal:       {size} kB\n");
            write(root, &format!("sys/devices/system/node/node{node}/meminfo"), &meminfo);
        }
        folder
    }

    #[test]
    fn the_distance_follows_cores_caches_and_nodes() {
        let folder = folder();
        let computer = Computer::read_from(folder.path(), [0, 1, 2, 5]);
        assert_eq!(computer.cpus().collect::<Vec<_>>(), [0, 1, 2, 5]);
        assert_eq!(
            [1, 2, 5].map(|cpu| computer.distance(0, cpu)),
            [Distance::Core, Distance::Cache, Distance::Nodes]
        );
        fs::remove_dir_all(folder.path().join("sys/devices/system/cpu/cpu2/cache")).expect("it is there");
        assert_eq!(Computer::read_from(folder.path(), 0..8).distance(0, 2), Distance::Node);
    }

    #[test]
    fn nodes_have_memory_and_perhaps_cpus() {
        let folder = folder();
        let computer = Computer::read_from(folder.path(), 0..6);
        assert_eq!((computer.nodes(), computer.cache()), (&[0, 1, 2][..], 16 << 20));
        assert_eq!([0, 1, 2].map(|node| computer.cpu_of(node)), [Some(0), Some(4), None]);
    }

    #[test]
    fn a_computer_that_linux_does_not_describe_has_cpus_of_one_node() {
        let folder = tempfile::tempdir().expect("a writable folder for temporary files");
        let computer = Computer::read_from(folder.path(), [3, 4]);
        assert_eq!((computer.distance(3, 4), computer.nodes()), (Distance::Node, &[][..]));
        assert_eq!(computer.cache(), USUAL_CACHE);
    }

    #[test]
    fn this_computer_is_read() {
        assert!(Computer::read().is_ok_and(|computer| computer.cpus().count() > 0));
    }
}
