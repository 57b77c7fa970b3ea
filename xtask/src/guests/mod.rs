//! `cargo xtask guests`: records loads on Linux guests of several kernels, with eight CPUs and two nodes, on QEMU.
//!
//! The emulator runs each CPU in software, so times mean nothing and counts do. `kernels` fetches the kernels of
//! Debian; `machine` is what they run on; `init` is the first program of a guest, and `short` runs a command where memory
//! is short. The recordings come out on a disk.

mod files;
mod kernels;
mod machine;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::failure::{self, At as _, Failure};
use crate::one_of;
use crate::table;
use crate::workspace::Workspace;
pub(crate) use files::{copy, disk, files, make, pack, program};
use kernels::KERNELS;
pub(crate) use kernels::{add_suite, file, unpack, unpack_all};
pub(crate) use machine::{build, qemu, still, Machine, Nodes, QEMU};

/// The loads: the name of the recording, and the command. Migration takes long on kernels that flush page by page, so
/// it is small.
const LOADS: [(&str, &str); 5] = [
    ("madvise", "guest_loads madvise 8 25"),
    ("munmap", "guest_loads munmap 8 50"),
    ("reclaim", "short guest_loads read 8 800 /dev/vdb"),
    ("migrate-4", "guest_loads migrate 4 128 8"),
    ("migrate-8", "guest_loads migrate 8 128 8"),
];

/// The mebibytes of memory.
const MEMORY: u32 = 1024;

/// The kernel's options: huge pages and NUMA balancing would flush beside the loads.
const APPEND: &str = "console=ttyS0 quiet panic=-1 transparent_hugepage=never numa_balancing=disable";

/// The sizes of the disk on which recordings come out, and of the one whose pages a load reads.
const DISKS: [(&str, u64); 2] = [("recordings.disk", 64 << 20), ("file.disk", 1 << 30)];

/// The kernels, each with its suite.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// The versions of the kernels [default: all].
    #[arg(value_parser = one_of(KERNELS, |(version, _)| version))]
    versions: Vec<(&'static str, &'static str)>,
}

/// Records the loads on the kernels.
pub(crate) fn run(Options { versions }: &Options) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let programs = machine::build(
        &workspace,
        "--package ceasefire-cli --package ceasefire-linux --bin ceasefire --example guest_loads",
    )?;
    let mut rows = Vec::new();
    for (version, suite) in if versions.is_empty() { KERNELS } else { versions } {
        let guest = Guest { folder: workspace.target.join("guests").join(version), version };
        guest.make(suite, &programs)?;
        guest.boot()?;
        rows.extend(guest.rows()?);
    }
    print!("\n{}", table::format(["kernel", "load", "interrupts", "TLB row", "lost", "recording"], &rows));
    Ok(())
}

/// A guest with one kernel, and the folder of its files.
struct Guest {
    folder: PathBuf,
    version: &'static str,
}

impl Guest {
    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Fetches the kernel, and makes the disks and the file system with which the guest begins.
    fn make(&self, suite: &str, programs: &Path) -> Result<(), Failure> {
        // What an earlier run left may be of another kernel.
        let _ = fs::remove_dir_all(&self.folder);
        let (packages, root) = (self.path("kernel"), self.path("root"));
        let mut wanted = kernels::packages(self.version, suite)?;
        wanted.push("busybox-static".to_owned());
        kernels::unpack(&wanted, &packages)?;
        for name in ["bin", "proc", "sys", "dev", "out"] {
            make(&root.join(name))?;
        }
        // Newer packages have it in another folder.
        let busybox = kernels::file(&packages, "*/bin/busybox")?;
        copy(&busybox, &root.join("bin/busybox"))?;
        copy(&programs.join("ceasefire"), &root.join("bin/ceasefire"))?;
        copy(&programs.join("examples/guest_loads"), &root.join("bin/guest_loads"))?;
        program(&root.join("init"), include_str!("init"))?;
        program(&root.join("bin/short"), include_str!("short"))?;
        let loads = LOADS.map(|(name, command)| format!("{name} {command}\n")).concat();
        fs::write(root.join("loads"), loads).at(&root)?;
        kernels::modules(&packages, &root.join("modules"))?;
        pack(&root, &busybox, &self.path("root.cpio"))?;
        DISKS.iter().try_for_each(|(name, bytes)| disk(&self.path(name), *bytes))
    }

    /// Boots the guest, which ends by itself, and takes its recordings out.
    fn boot(&self) -> Result<(), Failure> {
        let machine = Machine { memory: MEMORY, cpus: 8, in_turn: None, nodes: Nodes::Alike };
        let mut qemu = machine::qemu(Command::new(QEMU), machine, DISKS.map(|(name, _)| self.path(name)));
        qemu.arg("-kernel").arg(kernels::file(&self.path("kernel"), "*/vmlinuz*")?);
        qemu.arg("-initrd").arg(self.path("root.cpio"));
        qemu.args(["-append", APPEND]).stdin(Stdio::null());
        failure::run(&mut qemu)?;
        let out = self.path("recordings");
        make(&out)?;
        let mut unpack = Command::new("tar");
        failure::run(unpack.arg("xf").arg(self.path(DISKS[0].0)).arg("-C").arg(out))
    }

    /// The summary of each recording.
    fn rows(&self) -> Result<Vec<[String; 6]>, Failure> {
        let row = |(name, _): &(&str, &str)| {
            let path = self.path("recordings").join(format!("{name}.json"));
            let summary: Value = serde_json::from_slice(&fs::read(&path).at(&path)?).at(&path)?;
            let [interrupts, row, lost] =
                ["interrupts", "tlb_row", "lost"].map(|key| summary[key].to_string());
            let recording = path.with_extension("parquet").display().to_string();
            Ok([self.version.to_owned(), (*name).to_owned(), interrupts, row, lost, recording])
        };
        LOADS.iter().map(row).collect()
    }
}
