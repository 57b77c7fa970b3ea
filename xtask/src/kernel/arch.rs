//! The architectures of the kernel, and the parts of the emulator that depend on them.

use std::process::Command;

use super::build::Images;
use crate::failure::Failure;
use crate::test::BARE_METAL;

/// An architecture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arch {
    X86_64,
    Aarch64,
}

/// Where the memory of QEMU's `virt` machine for 64-bit Arm begins.
const MEMORY: u64 = 1 << 30;
const PAGE: u64 = 4096;

impl Arch {
    /// All, in the order of `--check`.
    pub(super) const ALL: [Self; 2] = [Self::X86_64, Self::Aarch64];

    /// The architecture of that name.
    pub(super) fn find(name: &str) -> Result<Self, Failure> {
        Self::ALL.into_iter().find(|arch| arch.name() == name).ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            Failure::usage(format!("unknown architecture `{name}`; known: {names}"))
        })
    }

    /// Its name.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::X86_64 => "x86_64",
            Self::Aarch64 => "aarch64",
        }
    }

    /// Rust's target.
    pub(super) const fn target(self) -> &'static str {
        match self {
            Self::X86_64 => BARE_METAL[0],
            Self::Aarch64 => BARE_METAL[1],
        }
    }

    /// The emulator's program, unless the options name another.
    pub(super) const fn qemu(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86_64",
            Self::Aarch64 => "qemu-system-aarch64",
        }
    }

    /// The Debian package with it.
    pub(super) const fn package(self) -> &'static str {
        match self {
            Self::X86_64 => "qemu-system-x86",
            Self::Aarch64 => "qemu-system-arm",
        }
    }

    /// The beginning of a line that shows a CPU's registers.
    pub(super) const fn registers(self) -> &'static str {
        match self {
            Self::X86_64 => "rip 0x",
            Self::Aarch64 => "pc 0x",
        }
    }

    /// The feature for broadcasts that the emulated processor lacks, if any.
    pub(super) const fn lacks_broadcasts(self) -> Option<&'static str> {
        match self {
            Self::X86_64 => Some("QEMU emulates no INVLPGB"),
            Self::Aarch64 => None,
        }
    }

    /// Whether the simulator has the costs of the kernel's work on it.
    pub(super) const fn is_simulated(self) -> bool {
        matches!(self, Self::X86_64)
    }

    /// Adds QEMU's options for the machine, its memory, the exit with a status, and the images.
    ///
    /// `cx16=off`: the `cmpxchg16b` of QEMU 7.2 is broken under `-cpu max`, so code must not find that the processor
    /// has it. On 64-bit Arm QEMU loads no `-initrd` for a kernel that is not Linux. The device puts the file at the
    /// given address, here at the end of memory, and the device tree names it.
    pub(super) fn add_machine(self, command: &mut Command, memory: u64, images: &Images) {
        command.arg("-kernel").arg(&images.kernel);
        match self {
            Self::X86_64 => {
                command.args(["-machine", "q35", "-cpu", "max,cx16=off"]);
                command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=0x04"]);
                command.arg("-initrd").arg(&images.programs);
            }
            Self::Aarch64 => {
                command.args(["-machine", "virt,gic-version=3", "-cpu", "max"]);
                command.args(["-semihosting-config", "enable=on,target=native"]);
                // QEMU names the file if it is missing.
                let bytes = images.programs.metadata().map_or(0, |file| file.len());
                let place = MEMORY + memory.saturating_sub(bytes.next_multiple_of(PAGE));
                // A comma in a value of an option is doubled.
                let file = images.programs.display().to_string().replace(',', ",,");
                command.arg("-device").arg(format!("guest-loader,addr={place:#x},initrd={file}"));
            }
        }
    }
}
