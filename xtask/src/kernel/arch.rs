//! The architectures of the kernel, and the parts of the emulator that depend on them.

use std::process::Command;

use ceasefire_kernel_abi::sizes::PAGE;

use super::build::Images;
use crate::test::BARE_METAL;

/// An architecture.
pub(crate) type Arch = &'static Facts;

/// What depends on the architecture.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(super) name: &'static str,
    /// Rust's target.
    pub(super) target: &'static str,
    /// The emulator's program, unless the options name another, and the Debian package with it.
    pub(super) qemu: &'static str,
    pub(super) package: &'static str,
    /// QEMU's options for the machine, and the exit with a status.
    machine: &'static str,
    /// Where memory begins, if QEMU loads no `-initrd` for a kernel that is not Linux. A device then puts the file at the
    /// end of memory, and the device tree names it.
    memory: Option<u64>,
    /// The beginning of a line that shows a CPU's registers.
    pub(super) registers: &'static str,
    /// The feature for broadcasts that the emulated processor lacks, if any.
    pub(super) lacks_broadcasts: Option<&'static str>,
    /// Whether the simulator has the costs of the kernel's work on it.
    pub(super) is_simulated: bool,
}

/// `cx16=off`: the `cmpxchg16b` of QEMU 7.2 is broken under `-cpu max`, so code must not find that the processor has it.
pub(super) const X86_64: Arch = &Facts {
    name: "x86_64",
    target: BARE_METAL[0],
    qemu: "qemu-system-x86_64",
    package: "qemu-system-x86",
    machine: "-machine q35 -cpu max,cx16=off -device isa-debug-exit,iobase=0xf4,iosize=0x04",
    memory: None,
    registers: "rip 0x",
    lacks_broadcasts: Some("QEMU emulates no INVLPGB"),
    is_simulated: true,
};

pub(super) const AARCH64: Arch = &Facts {
    name: "aarch64",
    target: BARE_METAL[1],
    qemu: "qemu-system-aarch64",
    package: "qemu-system-arm",
    machine: "-machine virt,gic-version=3 -cpu max -semihosting-config enable=on,target=native",
    memory: Some(1 << 30),
    registers: "pc 0x",
    lacks_broadcasts: None,
    is_simulated: false,
};

/// All, in the order of `--check`.
pub(super) const ALL: &[Arch] = &[X86_64, AARCH64];

impl Facts {
    /// Adds QEMU's options for the machine, whose memory has this many bytes, and the images.
    pub(super) fn add_machine(&self, command: &mut Command, memory: u64, images: &Images) {
        command.arg("-kernel").arg(&images.kernel).args(self.machine.split(' '));
        let Some(begin) = self.memory else {
            command.arg("-initrd").arg(&images.programs);
            return;
        };
        // QEMU names the file if it is missing.
        let bytes = images.programs.metadata().map_or(0, |file| file.len());
        let place = begin + memory.saturating_sub(bytes.next_multiple_of(PAGE));
        // A comma in a value of an option is doubled.
        let file = images.programs.display().to_string().replace(',', ",,");
        command.arg("-device").arg(format!("guest-loader,addr={place:#x},initrd={file}"));
    }
}
