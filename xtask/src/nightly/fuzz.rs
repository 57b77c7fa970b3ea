//! The fuzzer, on each target of `check/fuzz/`. It begins with the inputs that the tests keep, and with files of the tree.

use std::fs;

use super::searches::grouped;
use super::{toolchain, Done, Extent};
use crate::failure::{self, ensure, At as _, Failure};
use crate::workspace::Workspace;

const CARGO_FUZZ: &str = "0.13.2";

/// A target.
struct Target {
    name: &'static str,
    /// The inputs that are kept, below the root.
    kept: &'static str,
    /// A folder of files that are inputs too.
    files: Option<&'static str>,
    /// The most bytes of an input.
    longest: u32,
}

#[rustfmt::skip]
const TARGETS: [Target; 6] = [
    Target { name: "histories", kept: "engine/tests/corpus/histories", files: None, longest: 1003 },
    Target { name: "programs", kept: "sim/machine/tests/corpus/programs", files: None, longest: 804 },
    Target { name: "machine-files", kept: "sim/machine/tests/corpus/machine-files", files: Some("sim/machine/machines"), longest: 20_000 },
    Target { name: "workload-files", kept: "sim/experiments/tests/corpus/workload-files", files: Some("sim/experiments/workloads"), longest: 10_000 },
    Target { name: "imports", kept: "linux/tests/corpus/imports", files: Some("linux/recordings/import"), longest: 150_000 },
    Target { name: "formats", kept: "linux/tests/corpus/formats", files: None, longest: 4000 },
];

/// The seconds of each target.
const SECONDS: (u64, u64) = (600, 60);

pub(super) fn run(workspace: &Workspace, extent: Extent) -> Result<Done, Failure> {
    toolchain::ensure()?;
    // It does nothing if that version is installed.
    failure::run(workspace.cargo("install cargo-fuzz --locked --version").arg(CARGO_FUZZ))?;
    let seconds = extent.choose(SECONDS.0, SECONDS.1);
    let (mut all, mut failed) = (0, Vec::new());
    for target in &TARGETS {
        match fuzz(workspace, target, seconds) {
            Ok(inputs) => all += inputs,
            Err(failure) => failed.push(format!("{}: {failure}", target.name)),
        }
    }
    ensure!(failed.is_empty(), new, "{}", failed.join("; "));
    let figure = format!("{} inputs of {} targets, {seconds} s each", grouped(all), TARGETS.len());
    Ok(Done { command: "cargo xtask nightly fuzz".to_owned(), figure })
}

/// Fuzzes a target, and returns how many inputs it tried.
fn fuzz(workspace: &Workspace, target: &Target, seconds: u64) -> Result<u64, Failure> {
    // New inputs go into the first folder. They are kept by hand, in a small selection.
    let found = workspace.target.join("fuzz").join(target.name);
    fs::create_dir_all(&found).at(&found)?;
    // No sanitizer: the crates are safe Rust but for blocks that Miri and the sanitizers run, and the machine switches
    // stacks, which the sanitizer of addresses takes for errors.
    let mut command = toolchain::cargo(workspace, "fuzz run --sanitizer none --fuzz-dir .");
    command.current_dir(workspace.root.join("check/fuzz"));
    command.arg(target.name).arg(&found).arg(workspace.root.join(target.kept));
    command.args(target.files.map(|folder| workspace.root.join(folder)));
    let bounds =
        format!("-max_total_time={seconds} -max_len={} -timeout=60 -rss_limit_mb=4096", target.longest);
    command.arg("--").args(bounds.split(' ')).args(["-print_final_stats=1", "-verbosity=0"]);
    let text = failure::shown(&mut command)?;
    let inputs = text.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    let inputs = inputs.and_then(|number| number.trim().parse().ok()).filter(|inputs| *inputs > 0);
    inputs.ok_or_else(|| Failure::new(format!("the fuzzer tried no input of {}", target.name)))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// All inputs that are kept, of all targets.
    const BYTES: u64 = 500_000;

    #[test]
    fn every_target_has_kept_inputs_and_they_are_few() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let mut bytes = 0;
        for target in &TARGETS {
            let files: Vec<_> = fs::read_dir(root.join(target.kept)).expect(target.kept).collect();
            assert!(!files.is_empty(), "{}", target.kept);
            bytes += files.iter().map(|file| file.as_ref().unwrap().metadata().unwrap().len()).sum::<u64>();
            assert!(target.files.is_none_or(|folder| root.join(folder).is_dir()), "{}", target.name);
        }
        assert!(bytes < BYTES, "{bytes} bytes of inputs");
    }

    #[test]
    fn every_target_of_the_manifest_is_fuzzed() {
        let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../check/fuzz/Cargo.toml");
        let manifest: toml::Table = fs::read_to_string(manifest).unwrap().parse().unwrap();
        let names: Vec<_> = manifest["bin"].as_array().unwrap().iter().map(|bin| &bin["name"]).collect();
        assert_eq!(
            names.iter().map(|name| name.as_str().unwrap()).collect::<Vec<_>>(),
            TARGETS.map(|target| target.name)
        );
    }
}
