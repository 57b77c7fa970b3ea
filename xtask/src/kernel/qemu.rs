//! The emulator: its version, and its command line.

use std::io::ErrorKind;
use std::process::{Command, Stdio};

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

/// The oldest supported QEMU.
const OLDEST: (u32, u32) = (7, 2);

/// Fails unless a QEMU that is new enough is installed.
pub(super) fn check(program: &str, arch: Arch) -> Result<(), Failure> {
    let output = Command::new(program).arg("--version").stdin(Stdio::null()).output().map_err(|error| {
        if error.kind() == ErrorKind::NotFound {
            Failure::new(format!(
                "`{program}` is missing: the kernel runs on QEMU, `apt-get install {}`",
                arch.package
            ))
        } else {
            Failure::new(format!("cannot run `{program}`: {error}"))
        }
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    let version = version(&text);
    let (major, minor) = version
        .ok_or_else(|| Failure::new(format!("`{program} --version` does not name a version of QEMU")))?;
    let (oldest, at_least) = OLDEST;
    ensure!(
        (major, minor) >= OLDEST,
        new,
        "`{program}` is QEMU {major}.{minor}: at least {oldest}.{at_least} is needed"
    );
    Ok(())
}

/// The first two numbers of `QEMU emulator version 7.2.22 (Debian ...)`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split_once(" version ")?.1.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// The command that boots the kernel for one run.
///
/// `-no-reboot` makes a triple fault end QEMU. `-nodefaults` and `-monitor none` leave the standard streams to the
/// serial port alone.
pub(super) fn command(program: &str, images: &Images, run: &Run) -> Command {
    let Run { arch, cpus, memory, counted, kernel, .. } = run;
    let mut command = Command::new(program);
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
    use super::super::arch::X86_64;
    use super::super::options::tests::run;
    use super::super::testing::Script;
    use super::*;

    #[test]
    fn the_version_is_read_as_distributions_write_it() {
        for (text, expected) in [
            ("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)\nCopyright (c) 2003", Some((7, 2))),
            ("QEMU emulator version 10.0.50", Some((10, 0))),
            ("QEMU emulator", None),
            ("something version x.y", None),
        ] {
            assert_eq!(version(text), expected, "{text}");
        }
    }

    #[test]
    fn a_missing_or_old_qemu_is_reported_in_one_line() {
        for arch in Arch::ALL {
            let missing = check("no-such-program-anywhere", *arch).unwrap_err().to_string();
            assert!(missing.contains(arch.package) && missing.lines().count() == 1, "{missing}");
        }
        let check = |program| check(program, X86_64);
        let answers = |text: &str| Script::new(&format!("echo '{text}'"));
        let new = answers("QEMU emulator version 7.2.0");
        assert!(check(new.path()).is_ok());
        let old = answers("QEMU emulator version 6.9.1");
        let failure = check(old.path()).unwrap_err().to_string();
        assert!(failure.ends_with("is QEMU 6.9: at least 7.2 is needed"), "{failure}");
        let other = answers("hello");
        assert!(check(other.path()).unwrap_err().to_string().contains("does not name a version"));
    }

    fn words(line: &str, programs: &str) -> Vec<String> {
        let images = Images { kernel: "k".into(), programs: programs.into() };
        let command = command("qemu", &images, &run(line));
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
