//! The machine of guests: CPUs and two nodes, which QEMU runs in software, and programs that need no library.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{self, At as _, Failure};
use crate::workspace::Workspace;

/// The machine's own emulator.
pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// The target of the guests' programs. Naming it keeps the flag for static programs from those that run while they are
/// built.
const TARGET: &str = "x86_64-unknown-linux-gnu";

const MACHINE: &str = "-machine q35 -nographic -no-reboot";

/// CPUs with a thread each. QEMU 7.2 computes wrong flags for cmpxchg16b, so the processor goes without.
const AT_ONCE: &str = "-cpu max,cx16=off -accel tcg,thread=multi";

/// CPUs that take turns. Time is the number of instructions, in nanoseconds. No random number and no time is of this machine,
/// so what a guest without disks does can be repeated to the last instruction.
const IN_TURN: &str =
    "-cpu max,cx16=off,rdrand=off,rdseed=off -accel tcg,thread=single -icount shift=0,sleep=off \
                       -rtc base=2026-01-01T00:00:00,clock=vm -seed 1";

/// With tiers all CPUs are at the first node. The second is slow, and Linux demotes pages to it. Linux learns that a node
/// is slow from the firmware's table of latencies and bandwidths.
const SLOW: &[&str] = &[
    "node,nodeid=1,memdev=far,initiator=0",
    "hmat-lb,initiator=0,target=0,hierarchy=memory,data-type=access-latency,latency=5",
    "hmat-lb,initiator=0,target=0,hierarchy=memory,data-type=access-bandwidth,bandwidth=20G",
    "hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-latency,latency=50",
    "hmat-lb,initiator=0,target=1,hierarchy=memory,data-type=access-bandwidth,bandwidth=2G",
];

/// The nodes of a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nodes {
    /// One, whose memory is one piece of QEMU's, as the sanitizer's plugin wants it.
    One,
    /// Two alike.
    Alike,
    /// A fast one with all CPUs, and a slow one.
    Tiers,
}

/// A machine.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine<'a> {
    /// Mebibytes.
    pub(crate) memory: u32,
    /// At least two.
    pub(crate) cpus: u32,
    /// CPUs take turns, with the library of [`still`]. Otherwise each has a thread.
    pub(crate) in_turn: Option<&'a Path>,
    pub(crate) nodes: Nodes,
}

/// Builds the library in `folder` that stops QEMU's clock.
pub(crate) fn still(folder: &Path) -> Result<PathBuf, Failure> {
    let (source, library) = (folder.join("still.c"), folder.join("still.so"));
    fs::write(&source, include_str!("still.c")).at(&source)?;
    let mut compile = Command::new("cc");
    compile.args("-O2 -Wall -Werror -shared -fPIC -o".split(' ')).arg(&library);
    failure::run(compile.arg(source))?;
    Ok(library)
}

/// QEMU with disks, of which the first is /dev/vda.
pub(crate) fn qemu<D: AsRef<Path>>(
    mut qemu: Command,
    Machine { memory, cpus, in_turn, nodes }: Machine<'_>,
    disks: impl IntoIterator<Item = D>,
) -> Command {
    qemu.args(MACHINE.split(' '));
    match in_turn {
        Some(still) => qemu.args(IN_TURN.split(' ')).env("LD_PRELOAD", still),
        None => qemu.args(AT_ONCE.split(' ')),
    };
    qemu.args(["-m", &memory.to_string(), "-smp", &cpus.to_string()]);
    if nodes != Nodes::One {
        for node in ["near", "far"] {
            qemu.args(["-object", &format!("memory-backend-ram,id={node},size={}M", memory / 2)]);
        }
    }
    if nodes == Nodes::Tiers {
        qemu.args(["-machine", "hmat=on"]);
    }
    let node = |id: u32, first: u32, end: u32, memory: &str| {
        format!("node,nodeid={id},cpus={first}-{},memdev={memory}", end - 1)
    };
    let parts = match nodes {
        Nodes::One => Vec::new(),
        // Half of the CPUs each.
        Nodes::Alike => vec![node(0, 0, cpus / 2, "near"), node(1, cpus / 2, cpus, "far")],
        Nodes::Tiers => {
            [node(0, 0, cpus, "near")].into_iter().chain(SLOW.iter().map(|part| (*part).to_owned())).collect()
        }
    };
    for part in parts {
        qemu.args(["-numa", &part]);
    }
    for disk in disks {
        let disk = disk.as_ref().display();
        qemu.args(["-drive", &format!("file={disk},if=virtio,format=raw,cache=unsafe")]);
    }
    qemu
}

/// Builds static programs, which cargo's options name. Returns their folder.
pub(crate) fn build(workspace: &Workspace, what: &str) -> Result<PathBuf, Failure> {
    let mut build = workspace.cargo(&format!("build --release --target {TARGET} {what}"));
    failure::run(build.env("RUSTFLAGS", "-C target-feature=+crt-static"))?;
    Ok(workspace.target.join(TARGET).join("release"))
}
