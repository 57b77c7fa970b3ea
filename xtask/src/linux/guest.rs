//! A guest in QEMU: CPUs, two nodes, disks, and one program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::value_parser;

use super::{source, Kernel, BUGS, KERNELS, STOCK};
use crate::failure::{self, ensure, Failure};
use crate::guests::{self, Machine, Nodes};
use crate::one_of;
use crate::workspace::Workspace;

/// The mebibytes of memory of a guest that runs loads.
const MEMORY: u32 = 512;

/// The disks: /dev/vda, whose pages are read, is four times the memory; /dev/vdb has a file system; /dev/vdc is room to
/// swap, for a command that wants it.
const DISKS: [(&str, u64); 3] =
    [("pages.disk", 2 << 30), ("files.disk", 256 << 20), ("swap.disk", 256 << 20)];

/// Disks of a guest whose CPUs take turns. What is read of the first costs no memory, and is there after 20 microseconds.
const IN_MEMORY: &str =
    " null_blk.nr_devices=1 null_blk.gb=2 null_blk.irqmode=2 null_blk.completion_nsec=20000 \
                         null_blk.submit_queues=8 brd.rd_nr=1 brd.rd_size=131072";

/// The programs in C, each with its source below `ports/linux`.
const PROGRAMS: [(&str, &str); 3] = [
    ("lazy_unmap", "selftest/lazy_unmap.c"),
    ("owed_flush", "selftest/owed_flush.c"),
    ("bug_loads", "bugs/loads.c"),
];

/// So often a guest is booted that does not come to its command.
pub(super) const BOOTS: u32 = 5;

/// The line after which the output of the command begins, and the one that ends it.
pub(super) const BEGINS: &str = "---- begins";
const ENDS: &str = "---- ends";

/// What is booted, and the command that runs there.
#[derive(Debug, PartialEq, Eq, clap::Parser)]
pub(crate) struct Boot {
    #[arg(value_parser = one_of(KERNELS, |kernel| kernel.name))]
    pub(super) kernel: Kernel,
    /// Makes the second node slow, so that the kernel demotes pages to it.
    #[arg(long)]
    pub(super) tiers: bool,
    /// The CPUs.
    #[arg(long, default_value_t = 8, value_parser = value_parser!(u32).range(2..=64))]
    pub(super) cpus: u32,
    /// CPUs take turns, and time is the number of instructions: with the same seed the same happens again. Disks are in memory:
    /// /dev/nullb0 to read, and a file system that is made anew.
    #[arg(long, value_parser = value_parser!(u32).range(1..=1000))]
    pub(super) seed: Option<u32>,
    /// Parameters of the kernel beyond those of every guest.
    #[arg(long = "append", default_value = "", value_name = "PARAMETERS")]
    pub(super) parameters: String,
    /// The command, or several with semicolons between them; a shell ends at once.
    #[arg(default_value = "sh", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(super) command: Vec<String>,
}

impl Boot {
    /// Eight CPUs on two nodes alike, with no further parameters.
    pub(super) fn new(kernel: Kernel, command: &str) -> Self {
        let command = vec![command.to_owned()];
        Self { kernel, tiers: false, cpus: 8, seed: None, parameters: String::new(), command }
    }
}

/// The files of a guest, which may run any of the kernels.
pub(super) struct Guest<'a> {
    workspace: &'a Workspace,
    folder: PathBuf,
    still: PathBuf,
}

impl<'a> Guest<'a> {
    /// Builds the programs and the file system, if the kernels that are to run are there. The second disk has a file
    /// system with the files of a folder, or an empty one.
    pub(super) fn make(
        workspace: &'a Workspace,
        kernels: &[Kernel],
        files: Option<&Path>,
    ) -> Result<Self, Failure> {
        kernels.iter().try_for_each(|kernel| source::image(workspace, *kernel).map(|_| ()))?;
        let folder = workspace.target.join("linux/guest");
        let root = folder.join("root");
        for name in ["bin", "proc", "sys", "dev", "tmp", "mnt"] {
            guests::make(&root.join(name))?;
        }
        let busybox = Path::new("/bin/busybox");
        ensure!(busybox.is_file(), new, "busybox is missing: install Debian's `busybox-static`");
        guests::copy(busybox, &root.join("bin/busybox"))?;
        let programs = guests::build(workspace, "--quiet --package ceasefire-linux --example guest_loads")?;
        guests::copy(&programs.join("examples/guest_loads"), &root.join("bin/guest_loads"))?;
        let headers = source::fetched(workspace, STOCK)?.join("tools/testing/selftests");
        for (program, source) in PROGRAMS {
            let mut compile = Command::new("cc");
            compile.args("-O2 -Wall -Werror -static -pthread -I".split(' ')).arg(&headers);
            compile.arg("-o").arg(root.join("bin").join(program));
            failure::run(compile.arg(workspace.root.join("ports/linux").join(source)))?;
        }
        guests::program(&root.join("init"), include_str!("init"))?;
        guests::program(&root.join("bin/limited"), include_str!("limited.sh"))?;
        guests::program(&root.join("bin/oom"), include_str!("oom.sh"))?;
        guests::program(&root.join("bin/guards"), include_str!("guards.sh"))?;
        guests::program(&root.join("bin/suites"), include_str!("suites.sh"))?;
        guests::program(&root.join("bin/bug"), include_str!("bug.sh"))?;
        guests::pack(&root, busybox, &folder.join("root.cpio"))?;
        for (name, bytes) in DISKS {
            guests::disk(&folder.join(name), bytes)?;
        }
        let mut format = Command::new("mkfs.ext4");
        format.args(["-q", "-F"]);
        if let Some(files) = files {
            format.arg("-d").arg(files);
        }
        failure::output(format.arg(folder.join(DISKS[1].0)))?;
        let still = guests::still(&folder)?;
        Ok(Self { workspace, folder, still })
    }

    /// An emulator, as it boots a kernel and runs the command.
    pub(super) fn command(&self, emulator: Command, boot: &Boot) -> Result<Command, Failure> {
        let Boot { kernel, tiers, cpus, seed, parameters, command } = boot;
        let image = source::image(self.workspace, *kernel)?;
        let lazy = if kernel.is_lazy() { " sysctl.vm.lazy_unmap=1" } else { "" };
        let demotion = if *tiers { " demotion=1" } else { "" };
        let in_memory = seed.map_or(String::new(), |seed| format!("{IN_MEMORY} seed={}", 100 * seed));
        // The command travels as one variable of the first program's environment: no space may stand in it.
        let append = format!(
            "console=ttyS0 quiet panic=-1 transparent_hugepage=never{lazy}{demotion}{in_memory} {parameters} run={}",
            command.join(" ").replace(' ', ",")
        );
        let nodes = match (*kernel, *tiers) {
            (_, true) => Nodes::Tiers,
            // The kernel makes two of it.
            (BUGS, _) => Nodes::One,
            _ => Nodes::Alike,
        };
        let machine =
            Machine { memory: MEMORY, cpus: *cpus, in_turn: seed.map(|_| self.still.as_path()), nodes };
        // The answers of a disk take the time of this machine.
        let disks = if seed.is_some() { &[][..] } else { &DISKS };
        let mut qemu = guests::qemu(emulator, machine, disks.iter().map(|(name, _)| self.folder.join(name)));
        qemu.arg("-kernel").arg(image).arg("-initrd").arg(self.folder.join("root.cpio"));
        qemu.args(["-append", &append]).stdin(Stdio::null());
        Ok(qemu)
    }

    /// Boots a kernel, runs the command and returns what it printed.
    pub(super) fn run(&self, boot: &Boot) -> Result<String, Failure> {
        self.run_on(Command::new(guests::QEMU), boot)
    }

    /// The same on an emulator.
    pub(super) fn run_on(&self, emulator: Command, boot: &Boot) -> Result<String, Failure> {
        self.run_each_on(emulator, boot).map(|outputs| outputs.concat())
    }

    /// The same, with several commands between semicolons: what each of them printed.
    pub(super) fn run_each_on(&self, emulator: Command, boot: &Boot) -> Result<Vec<String>, Failure> {
        let mut qemu = self.command(emulator, boot)?;
        let text = begun(&mut qemu)?;
        let outputs = outputs(&text);
        let ended = outputs.len() == boot.command.join(" ").split(';').count();
        ensure!(ended, new, "the guest did not end; its last lines:\n{}", failure::last_lines(&text, 40));
        Ok(outputs)
    }
}

/// What each command has printed that ended.
fn outputs(text: &str) -> Vec<String> {
    let ended = text.split(BEGINS).skip(1).filter_map(|rest| rest.split_once(ENDS));
    ended.map(|(output, _)| output.trim_start().to_owned()).collect()
}

/// What the guest prints. One that stops early because of a mistake of QEMU is booted again.
///
/// QEMU may run an instruction that another processor has replaced. Linux replaces branches while it boots, behind a
/// breakpoint, and does not know the breakpoint any more.
fn begun(qemu: &mut Command) -> Result<String, Failure> {
    let mut text = String::new();
    for _ in 0..BOOTS {
        text = String::from_utf8_lossy(&failure::output(qemu)?.stdout).replace('\r', "");
        if !must_boot_again(&text) {
            break;
        }
    }
    Ok(text)
}

/// Whether a guest that printed this has to boot again, since it stopped at a branch that its kernel was patching. Says so.
pub(super) fn must_boot_again(text: &str) -> bool {
    let must = text.contains("Oops: int3") && !text.contains(BEGINS);
    if must {
        println!("the guest stopped at a branch that its kernel was patching, and boots again");
    }
    must
}

/// Fails unless the command that printed this ended well.
pub(super) fn succeeded(output: &str) -> Result<(), Failure> {
    let exit = output.lines().find_map(|line| line.strip_prefix("exit "));
    ensure!(exit == Some("0"), new, "the command failed in the guest:\n{output}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_has_its_output_and_one_that_did_not_end_has_none() {
        let text = format!("boots\n{BEGINS}\none\nexit 0\n{ENDS}\n{BEGINS}\ntwo\n{ENDS}\n{BEGINS}\nthree");
        assert_eq!(outputs(&text), ["one\nexit 0\n", "two\n"]);
        assert!(outputs("boots").is_empty());
    }
}
