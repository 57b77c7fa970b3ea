//! ostd's own tests, judged by what their runner prints.
//!
//! The exit code is not enough: firmware of riscv64 drops the kernel's, and two tests cannot pass there.

use std::process::Command;

use super::port::Arch;
use crate::failure::{self, ensure, Failure};

/// Runs the tests with their output on the terminal. It fails if they do not end, or if one fails that can pass.
pub(super) fn run(command: &mut Command, arch: Arch) -> Result<(), Failure> {
    let (output, status) = failure::watched(command)?;
    let failed = failed(&output).ok_or_else(|| Failure::new(format!("the tests did not end: {status}")))?;
    let (unfit, wrong): (Vec<&str>, Vec<&str>) =
        failed.iter().map(String::as_str).partition(|test| arch.unfit.contains(test));
    if !unfit.is_empty() {
        println!("cannot pass on this {}: {}", arch.name, unfit.join(", "));
    }
    ensure!(wrong.is_empty(), new, "ostd's tests failed: {}", wrong.join(", "));
    if failed.is_empty() {
        failure::check(status, &failure::line(command))?;
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
    use super::super::port::{RISCV64, X86_64};
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
        assert_eq!(judged(PASSED, RISCV64, 0), Ok(()));
        for code in [0, 2] {
            assert_eq!(
                judged(&with("smp.rs:9:1 - call"), RISCV64, code),
                Err("ostd's tests failed: smp.rs: call".to_owned())
            );
        }
        assert!(judged(PASSED, X86_64, 2).expect_err("an exit code").contains("exit status: 2"));
    }

    #[test]
    fn a_test_that_cannot_pass_may_fail_where_it_cannot() {
        let output = with("mm/dma/test.rs:155:4 - to_device");
        assert_eq!(judged(&output, RISCV64, 0), Ok(()));
        assert!(judged(&output, X86_64, 0).is_err());
    }

    #[test]
    fn tests_that_did_not_end_are_a_failure() {
        let failure = judged("test a::b ...\\r\\n", RISCV64, 0).expect_err("no end");
        assert!(failure.starts_with("the tests did not end"), "{failure}");
    }
}
