//! The machine of guests: eight CPUs and two nodes, which QEMU runs in software, and programs that need no library.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{self, Failure};
use crate::workspace::Workspace;

/// The machine's own emulator.
pub(crate) const QEMU: &str = "qemu-system-x86_64";

/// The target of the guests' programs. Naming it keeps the flag for static programs from those that run while they are
/// built.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// QEMU 7.2 computes wrong flags for cmpxchg16b, so the processor goes without.
const MACHINE: &str = "-machine q35 -cpu max,cx16=off -accel tcg,thread=multi -smp 8 -nographic -no-reboot";

/// The two nodes of a machine, each with half of the memory and four CPUs.
const ALIKE: &[&str] = &["node,nodeid=0,cpus=0-3,memdev=near", "node,nodeid=1,cpus=4-7,memdev=far"];

/// With tiers all CPUs are at the first. The second is slow, and Linux demotes pages to it. Linux learns that a node is
/// slow from the firmware's table of latencies and bandwidths.
const TIERS: &[&str] = &[
    "node,nodeid=0,cpus=0-7,memdev=near",
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

/// QEMU with so many mebibytes of memory, and with disks, of which the first is /dev/vda.
pub(crate) fn qemu<D: AsRef<Path>>(
    mut qemu: Command,
    memory: u32,
    nodes: Nodes,
    disks: impl IntoIterator<Item = D>,
) -> Command {
    qemu.args(["-m", &memory.to_string()]).args(MACHINE.split(' '));
    if nodes != Nodes::One {
        for node in ["near", "far"] {
            qemu.args(["-object", &format!("memory-backend-ram,id={node},size={}M", memory / 2)]);
        }
    }
    if nodes == Nodes::Tiers {
        qemu.args(["-machine", "hmat=on"]);
    }
    let parts = match nodes {
        Nodes::One => &[],
        Nodes::Alike => ALIKE,
        Nodes::Tiers => TIERS,
    };
    for part in parts {
        qemu.args(["-numa", part]);
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
