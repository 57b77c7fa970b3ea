//! ostd's own tests, judged by what their runner prints.
//!
//! The exit code is not enough: firmware of riscv64 drops the kernel's, and two tests cannot pass there.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::port::Arch;
use crate::failure::{self, Failure};

/// Tests that cannot pass on the emulated processor, each after its file.
const fn unfit(arch: Arch) -> &'static [&'static str] {
    match arch {
        Arch::X86_64 => &[],
        // They expect that a device uses a buffer in its place. ostd copies it on processors that cannot write caches back
        // (Zicbom), and QEMU 7.2 emulates no other.
        Arch::Riscv64 => &["mm/dma/test.rs: to_device", "mm/dma/test.rs: from_device"],
    }
}

/// Runs the tests with their output on the terminal. It fails if they do not end, or if one fails that can pass.
pub(super) fn run(command: &mut Command, arch: Arch) -> Result<(), Failure> {
    let line = failure::line(command);
    println!("==> {line}");
    let cannot = |error| Failure::new(format!("cannot run `{line}`: {error}"));
    let mut child = command.stdout(Stdio::piped()).spawn().map_err(cannot)?;
    let mut output = String::new();
    if let Some(stdout) = child.stdout.take() {
        for bytes in BufReader::new(stdout).split(b'\n') {
            let bytes = bytes.map_err(cannot)?;
            let text = String::from_utf8_lossy(&bytes);
            println!("{text}");
            output.push_str(&text);
            output.push('\n');
        }
    }
    let status = child.wait().map_err(cannot)?;
    let failed = failed(&output).ok_or_else(|| Failure::new(format!("the tests did not end: {status}")))?;
    let (unfit, wrong): (Vec<&str>, Vec<&str>) =
        failed.iter().map(String::as_str).partition(|test| unfit(arch).contains(test));
    if !unfit.is_empty() {
        println!("cannot pass on this {}: {}", arch.name(), unfit.join(", "));
    }
    if !wrong.is_empty() {
        return Err(Failure::new(format!("ostd's tests failed: {}", wrong.join(", "))));
    }
    if failed.is_empty() && !status.success() {
        return Err(Failure::new(format!("`{line}` failed: {status}")));
    }
    Ok(())
}

/// The tests that failed, each after its file, or `None` if the tests did not end.
fn failed(output: &str) -> Option<Vec<String>> {
    let (_, end) = output.split_once("test result: ")?;
    // `---- /copy/src/file.rs:155:4 - name ----`
    let name = |line: &str| {
        let (place, name) = line.trim().strip_prefix("---- ")?.strip_suffix(" ----")?.rsplit_once(" - ")?;
        let (_, place) = place.rsplit_once("/src/")?;
        Some(format!("{}: {name}", place.split(':').next()?))
    };
    Some(end.lines().filter_map(name).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of a shell that prints this.
    fn judged(text: &str, arch: Arch, code: u8) -> Result<(), String> {
        let script = format!("printf '%b' '{text}'; exit {code}");
        run(Command::new("sh").args(["-c", &script]), arch).map_err(|failure| failure.to_string())
    }

    const PASSED: &str =
        "test a::b ... ok\\r\\n\\r\\ntest result: ok. 2 passed; 0 failed; 0 filtered out.\\r\\n";

    fn with(test: &str) -> String {
        format!("test result: FAILED. 1 passed; 1 failed.\\r\\nfailures:\\r\\n---- /w/src/{test} ----\\r\\n")
    }

    #[test]
    fn a_test_that_fails_is_named_whatever_the_exit_code_is() {
        assert_eq!(judged(PASSED, Arch::Riscv64, 0), Ok(()));
        for code in [0, 2] {
            assert_eq!(
                judged(&with("smp.rs:9:1 - call"), Arch::Riscv64, code),
                Err("ostd's tests failed: smp.rs: call".to_owned())
            );
        }
        assert!(judged(PASSED, Arch::X86_64, 2).expect_err("an exit code").contains("exit status: 2"));
    }

    #[test]
    fn a_test_that_cannot_pass_may_fail_where_it_cannot() {
        let output = with("mm/dma/test.rs:155:4 - to_device");
        assert_eq!(judged(&output, Arch::Riscv64, 0), Ok(()));
        assert!(judged(&output, Arch::X86_64, 0).is_err());
    }

    #[test]
    fn tests_that_did_not_end_are_a_failure() {
        let failure = judged("test a::b ...\\r\\n", Arch::Riscv64, 0).expect_err("no end");
        assert!(failure.starts_with("the tests did not end"), "{failure}");
    }
}
