//! A guest in QEMU: eight CPUs, two nodes, two disks, and one program.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{build, Kernel};
use crate::failure::{self, Failure};
use crate::guests;
use crate::workspace::Workspace;

const QEMU: &str = "qemu-system-x86_64";

/// The target of the guest's programs. Naming it keeps the flag for static programs from those that run while they are
/// built.
const TARGET: &str = "x86_64-unknown-linux-gnu";

/// QEMU 7.2 computes wrong flags for cmpxchg16b, so the processor goes without.
const MACHINE: [&str; 14] = [
    "-machine",
    "q35",
    "-cpu",
    "max,cx16=off",
    "-accel",
    "tcg,thread=multi",
    "-smp",
    "8",
    "-numa",
    "node,nodeid=0,cpus=0-3,memdev=near",
    "-numa",
    "node,nodeid=1,cpus=4-7,memdev=far",
    "-nographic",
    "-no-reboot",
];

/// The mebibytes of memory of a guest that runs loads.
pub(super) const MEMORY: u32 = 512;

/// The disks: /dev/vda, whose pages are read, is four times the memory; /dev/vdb has a file system.
const DISKS: [(&str, u64); 2] = [("pages.disk", 2 << 30), ("files.disk", 256 << 20)];

/// The line after which the output of the command begins, and the one that ends it.
const BEGINS: &str = "---- begins";
const ENDS: &str = "---- ends";

pub(super) struct Guest {
    kernel: Kernel,
    image: PathBuf,
    folder: PathBuf,
}

impl Guest {
    /// Builds the programs and the file system of guests.
    pub(super) fn make(workspace: &Workspace, kernel: Kernel) -> Result<Self, Failure> {
        let image = build::image(workspace, kernel);
        if !image.is_file() {
            return Err(Failure::new(format!(
                "the {} kernel is missing: `cargo xtask linux build`",
                kernel.name()
            )));
        }
        let folder = workspace.target.join("linux/guest");
        let root = folder.join("root");
        for name in ["bin", "proc", "sys", "dev", "tmp", "mnt"] {
            guests::make(&root.join(name))?;
        }
        let busybox = Path::new("/bin/busybox");
        if !busybox.is_file() {
            return Err(Failure::new("busybox is missing: install Debian's `busybox-static`"));
        }
        let copy = |from: &Path, to: &str| {
            let to = root.join(to);
            fs::copy(from, &to).map(|_| ()).map_err(|error| guests::unwritten(&to, &error))
        };
        copy(busybox, "bin/busybox")?;
        let build = format!(
            "build --release --quiet --target {TARGET} --package ceasefire-linux --example guest_loads"
        );
        failure::run(workspace.cargo(&build).env("RUSTFLAGS", "-C target-feature=+crt-static"))?;
        copy(&workspace.target.join(TARGET).join("release/examples/guest_loads"), "bin/guest_loads")?;
        let mut compile = Command::new("cc");
        compile
            .args(["-O2", "-Wall", "-Werror", "-static", "-pthread", "-o"])
            .arg(root.join("bin/lazy_unmap"));
        failure::run(compile.arg(workspace.root.join("linux-lazy/selftest/lazy_unmap.c")))?;
        guests::program(&root.join("init"), include_str!("init"))?;
        guests::pack(&root, busybox, &folder.join("root.cpio"))?;
        for (name, bytes) in DISKS {
            let disk = folder.join(name);
            let made = File::create(&disk).and_then(|file| file.set_len(bytes));
            made.map_err(|error| guests::unwritten(&disk, &error))?;
        }
        failure::output(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(folder.join(DISKS[1].0)))?;
        Ok(Self { kernel, image, folder })
    }

    /// Boots with so many mebibytes of memory, runs the command and returns what it printed.
    pub(super) fn run(&self, command: &str, memory: u32) -> Result<String, Failure> {
        let lazy = if self.kernel == Kernel::Lazy { " sysctl.vm.lazy_unmap=1" } else { "" };
        // The command travels as one variable of the first program's environment: no space may stand in it.
        let append = format!(
            "console=ttyS0 quiet panic=-1 transparent_hugepage=never{lazy} run={}",
            command.replace(' ', ",")
        );
        let mut qemu = Command::new(QEMU);
        qemu.args(["-m", &memory.to_string()]);
        for node in ["near", "far"] {
            qemu.args(["-object", &format!("memory-backend-ram,id={node},size={}M", memory / 2)]);
        }
        qemu.args(MACHINE);
        for (name, _) in DISKS {
            let path = self.folder.join(name);
            qemu.args(["-drive", &format!("file={},if=virtio,format=raw,cache=unsafe", path.display())]);
        }
        qemu.arg("-kernel").arg(&self.image).arg("-initrd").arg(self.folder.join("root.cpio"));
        qemu.args(["-append", &append]).stdin(Stdio::null());
        let text = failure::output(&mut qemu)?.stdout;
        let text = String::from_utf8_lossy(&text).replace('\r', "");
        let output = text.split_once(BEGINS).and_then(|(_, rest)| rest.split_once(ENDS));
        match output {
            Some((output, _)) => Ok(output.trim_start().to_owned()),
            None => {
                Err(Failure::new(format!("the guest did not end; its last lines:\n{}", last_lines(&text))))
            }
        }
    }
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
