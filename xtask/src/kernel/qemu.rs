//! The emulator: its version, and its command line.

use std::process::Command;

use super::arch::Arch;
use ceasefire_kernel_abi::TICK;

use super::build::Images;
use super::options::Run;
use crate::failure::{ensure, Failure};

/// With `-icount`, log2 of the nanoseconds that an instruction takes. The CPUs run in turns, each until the next tick
/// of any CPU. Slower CPUs have shorter turns, and so run more nearly at the same time. With 128 ns a turn of 8 CPUs
/// has some 10 000 instructions, two pages of `mmap-read`.
const SHIFT: u32 = 7;

/// The instructions in a CPU's turn.
pub(super) const fn turn(cpus: u64) -> u64 {
    ((TICK * 1_000_000) >> SHIFT) / cpus
}

/// Fails unless the emulator is installed.
pub(super) fn check(program: &str, arch: Arch) -> Result<(), Failure> {
    let package = arch.package;
    let is_there = Command::new(program).arg("--version").output().is_ok();
    ensure!(
        is_there,
        new,
        "cannot run `{program}`: the kernel runs on QEMU 7.2 or newer, `apt-get install {package}`"
    );
    Ok(())
}

/// The command that boots the kernel for one run, with its options after those that it has.
///
/// `-no-reboot` makes a triple fault end QEMU. `-nodefaults` and `-monitor none` leave the standard streams to the
/// serial port alone.
pub(super) fn command(mut command: Command, images: &Images, run: &Run) -> Command {
    let Run { arch, cpus, memory, counted, kernel, .. } = run;
    arch.add_machine(&mut command, *memory, images);
    command.arg("-accel");
    if *counted {
        command.args(["tcg,thread=single", "-icount", &format!("shift={SHIFT},sleep=off")]);
    } else {
        command.arg("tcg,thread=multi");
    }
    command
        .args(["-smp", &cpus.to_string(), "-m", &format!("{}M", memory >> 20)])
        .args(["-display", "none", "-no-reboot", "-nodefaults", "-serial", "stdio", "-monitor", "none"])
        .args(["-append", &kernel.to_string()]);
    command
}

#[cfg(test)]
mod tests {
    use super::super::arch;
    use super::super::options::tests::run;
    use super::super::testing::Script;
    use super::*;

    #[test]
    fn a_missing_qemu_is_reported_with_its_package() {
        for arch in arch::ALL {
            let missing = check("no-such-program-anywhere", arch).unwrap_err().to_string();
            assert!(missing.contains(arch.package), "{missing}");
        }
        assert!(check(Script::new("exit 0").path(), arch::X86_64).is_ok());
    }

    fn words(line: &str, programs: &str) -> Vec<String> {
        let images = Images { kernel: "k".into(), programs: programs.into() };
        let command = command(Command::new("qemu"), &images, &run(line));
        command.get_args().map(|word| word.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_command_has_the_options_of_the_run() {
        let words = words("--cpus 4 --memory 1G --swap 9", "p");
        let after = |name: &str| {
            let place = words.iter().position(|word| word == name).expect(name);
            words[place + 1].as_str()
        };
        assert_eq!(["-smp", "-m", "-kernel", "-initrd"].map(after), ["4", "1024M", "k", "p"]);
        assert_eq!(after("-append"), "program=stale nodes=2 limit=80 swap=9");
    }

    #[test]
    fn on_aarch64_the_programs_lie_at_the_end_of_memory() {
        let programs = Script::new(&"#".repeat(5000));
        let words = words("--arch aarch64 --memory 1G", programs.path());
        let device = format!("guest-loader,addr=0x7fffe000,initrd={}", programs.path());
        assert!(words.contains(&device), "{words:?}");
    }

    #[test]
    fn the_kernel_gets_what_is_not_its_default() {
        for (line, expected) in [
            ("--arch aarch64 --mechanism all --asid-bits 8", " mechanism=all asid_bits=8 "),
            ("--arch aarch64 --mechanism broadcast --errata both", " mechanism=broadcast errata=both "),
            ("--undisturbed --scenarios alias", " undisturbed=true scenarios=2"),
            ("--mechanism lazy --without slot", " without=slot"),
            ("--program mmap-read", " lru_batch=14"),
            ("--program hello --swap 300", " swap=300 disk=6"),
        ] {
            let words = words(line, "p");
            assert!(words.last().unwrap().contains(expected), "{line}: {words:?}");
        }
    }
}
