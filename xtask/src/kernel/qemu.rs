//! The emulator: its version, and its command line.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::process::{Command, Stdio};

use super::arch::Arch;
use super::bounds;
use ceasefire_kernel_abi::TICK;

use super::build::Images;
use super::options::{Parameters, Run};
use crate::failure::Failure;

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
                arch.package()
            ))
        } else {
            Failure::new(format!("cannot run `{program}`: {error}"))
        }
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    match version(&text) {
        Some(version) if version >= OLDEST => Ok(()),
        Some((major, minor)) => Err(Failure::new(format!(
            "`{program}` is QEMU {major}.{minor}: at least {}.{} is needed",
            OLDEST.0, OLDEST.1
        ))),
        None => Err(Failure::new(format!("`{program} --version` does not name a version of QEMU"))),
    }
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
pub(super) fn command(program: &str, images: &Images, parameters: &Parameters, run: Run) -> Command {
    let Parameters { arch, cpus, nodes, memory, seconds, limit, seed, max_age, .. } = parameters;
    let Parameters { asid_bits, threads, pages, pinned, undisturbed, scenarios, swap, counted, .. } =
        parameters;
    let Run { program: user, mechanism, without } = run;
    let pinned = u8::from(*pinned);
    // The value of the experiment of that name, for Linux 4.2.
    let lru_batch = if user == "mmap-read" { 14 } else { 15 };
    let mut options = format!(
        "program={user} mechanism={mechanism} nodes={nodes} seconds={seconds} limit={limit} seed={seed} \
         pinned={pinned} pages={pages} threads={threads} swap={swap} lru_batch={lru_batch} max_age={max_age}"
    );
    // Writing to a string cannot fail.
    if *scenarios > 0 {
        let _ = write!(options, " scenarios={scenarios}");
    }
    if *undisturbed {
        options.push_str(" undisturbed=1");
    }
    if let Some(guard) = without {
        let _ = write!(options, " without={guard}");
    }
    if *asid_bits > 0 {
        let _ = write!(options, " asid_bits={asid_bits}");
    }
    if let Some(bytes) = bounds::devices(parameters, user) {
        let _ = write!(options, " disk={}", bytes >> 20);
    }
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
        .args(["-append", &options]);
    command
}

#[cfg(test)]
mod tests {
    use super::super::options::Options;
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
            let missing = check("no-such-program-anywhere", arch).unwrap_err().to_string();
            assert!(missing.contains(arch.package()) && missing.lines().count() == 1, "{missing}");
        }
        let check = |program| check(program, Arch::X86_64);
        let answers = |text: &str| Script::new(&format!("echo '{text}'"));
        let new = answers("QEMU emulator version 7.2.0");
        assert!(check(new.path()).is_ok());
        let old = answers("QEMU emulator version 6.9.1");
        let failure = check(old.path()).unwrap_err().to_string();
        assert!(failure.ends_with("is QEMU 6.9: at least 7.2 is needed"), "{failure}");
        let other = answers("hello");
        assert!(check(other.path()).unwrap_err().to_string().contains("does not name a version"));
    }

    #[test]
    fn the_command_has_the_options_of_the_run() {
        let options = Options::parse(&["--cpus", "4", "--memory", "1G", "--swap", "9"]).unwrap();
        let images = Images { kernel: "k".into(), programs: "p".into() };
        let run = options.runs().next().unwrap();
        let command = command("qemu", &images, &options.parameters, run);
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let after = |name: &str| {
            let place = words.iter().position(|word| word == name).expect(name);
            words[place + 1].as_str()
        };
        assert_eq!(["-smp", "-m", "-kernel", "-initrd"].map(after), ["4", "1024M", "k", "p"]);
        assert_eq!(
            after("-append"),
            "program=stale mechanism=batched nodes=2 seconds=10 limit=80 seed=1 pinned=0 pages=0 \
             threads=0 swap=9 lru_batch=15 max_age=30"
        );
    }

    #[test]
    fn on_aarch64_the_programs_lie_at_the_end_of_memory() {
        let options = "--arch aarch64 --memory 1G --mechanism all --asid-bits 8";
        let options = Options::parse(&options.split(' ').collect::<Vec<_>>()).unwrap();
        let programs = Script::new(&"#".repeat(5000));
        let images = Images { kernel: "k".into(), programs: programs.path().into() };
        let command = command("qemu", &images, &options.parameters, options.runs().next().unwrap());
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert!(
            words.contains(&format!("guest-loader,addr=0x7fffe000,initrd={}", programs.path())),
            "{words:?}"
        );
        assert!(words.last().unwrap().ends_with(" asid_bits=8"));
    }

    #[test]
    fn a_missing_guard_is_named() {
        let options = Options::parse(&[
            "--mechanism",
            "lazy",
            "--undisturbed",
            "--without",
            "slot",
            "--scenarios",
            "alias",
        ])
        .unwrap();
        let images = Images { kernel: "k".into(), programs: "p".into() };
        let command = command("qemu", &images, &options.parameters, options.runs().next().unwrap());
        assert!(command
            .get_args()
            .any(|word| word.to_string_lossy().ends_with(" scenarios=2 undisturbed=1 without=slot")));
    }

    #[test]
    fn swap_gets_a_device() {
        let options = Options::parse(&["--program", "hello", "--swap", "300"]).unwrap();
        let images = Images { kernel: "k".into(), programs: "p".into() };
        let run = options.runs().next().unwrap();
        let command = command("qemu", &images, &options.parameters, run);
        assert!(command
            .get_args()
            .any(|word| word.to_string_lossy().ends_with(" lru_batch=15 max_age=30 disk=6")));
    }
}
