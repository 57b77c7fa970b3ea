//! The information of cargo and git about this repository.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::failure::{self, Failure};

/// The flags of the compiler for a build whose guards tests can remove.
pub(crate) const SABOTAGE: &str = "--cfg ceasefire_sabotage";

/// The variable of the environment that names a `ceasefire` to run. The tests of the Python package read it too.
pub(crate) const COMMAND: &str = "CEASEFIRE_COMMAND";

/// The repository, as `cargo metadata` describes it.
pub(crate) struct Workspace {
    pub(crate) root: PathBuf,
    pub(crate) target: PathBuf,
    /// The workspace's packages and all that they depend on, in cargo's description.
    pub(crate) packages: Vec<Value>,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self, Failure> {
        let text = failure::stdout(Command::new("cargo").args(["metadata", "--format-version", "1"]))?;
        let unexpected = || Failure::new("`cargo metadata` did not print a workspace");
        let metadata: Value = serde_json::from_str(&text).map_err(|_| unexpected())?;
        let path = |key: &str| metadata[key].as_str().map(PathBuf::from).ok_or_else(unexpected);
        Ok(Self {
            root: path("workspace_root")?,
            target: path("target_directory")?,
            packages: metadata["packages"].as_array().ok_or_else(unexpected)?.clone(),
        })
    }

    /// A cargo command at the root of the repository; `line` is split at its spaces.
    pub(crate) fn cargo(&self, line: &str) -> Command {
        let mut command = Command::new("cargo");
        command.args(line.split_whitespace()).current_dir(&self.root);
        command
    }

    /// The same in a build whose guards can be removed, in a target folder of its own: other flags would have cargo build
    /// everything anew, there and back.
    pub(crate) fn cargo_sabotaged(&self, line: &str) -> Command {
        let mut command = self.cargo(line);
        command.envs(self.sabotage());
        command
    }

    /// The program `ceasefire`: the one that the environment names, such as the one that the tests have built, or an
    /// optimised one with every assertion.
    pub(crate) fn program(&self) -> Command {
        match std::env::var_os(COMMAND) {
            Some(program) => {
                let mut command = Command::new(program);
                command.current_dir(&self.root);
                command
            }
            None => self.cargo("run --profile checked --quiet --package ceasefire-cli --"),
        }
    }

    /// The variables of the environment that make [`Workspace::cargo_sabotaged`] of a build.
    pub(crate) fn sabotage(&self) -> [(&'static str, OsString); 2] {
        let flags = std::env::var("RUSTFLAGS").unwrap_or_default();
        let flags = format!("{flags} {SABOTAGE}").trim_start().into();
        [("RUSTFLAGS", flags), ("CARGO_TARGET_DIR", self.sabotaged().into())]
    }

    /// The target folder of [`Workspace::cargo_sabotaged`].
    pub(crate) fn sabotaged(&self) -> PathBuf {
        self.target.join("sabotage")
    }

    /// An example as the tests have built it.
    pub(crate) fn tested_example(&self, name: &str) -> PathBuf {
        self.sabotaged().join("debug/examples").join(name)
    }

    /// Builds one example in release mode and returns the path of the program.
    pub(crate) fn example(&self, package: &str, name: &str) -> Result<PathBuf, Failure> {
        let mut build = self.cargo(&format!("build --release --quiet --package {package} --example {name}"));
        failure::output(build.stderr(std::process::Stdio::inherit()))?;
        Ok(self.target.join("release/examples").join(name))
    }

    pub(crate) fn package(&self, name: &str) -> Result<&Value, Failure> {
        self.packages
            .iter()
            .find(|package| package["name"] == name)
            .ok_or_else(|| Failure::new(format!("the workspace has no package `{name}`")))
    }

    /// The files that git tracks and those that the next `git add` would add, relative to the root.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>, Failure> {
        let mut list = Command::new("git");
        list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(&self.root);
        let names = failure::stdout(&mut list)?;
        // A file that is deleted but not yet committed is still listed.
        let exists = |file: &PathBuf| self.root.join(file).is_file();
        Ok(names.split_terminator('\0').map(PathBuf::from).filter(exists).collect())
    }
}

/// Installs a toolchain with these components and the library for these targets, where any of them is missing.
pub(crate) fn toolchain(channel: &str, components: &[&str], targets: &[&str]) -> Result<(), Failure> {
    let list = ["component", "list", "--installed", "--toolchain", channel];
    let installed = Command::new("rustup").args(list).output();
    let installed = installed.map_or_else(|_| Vec::new(), |output| output.stdout);
    let installed = String::from_utf8_lossy(&installed);
    let has = |component: &str| installed.lines().any(|line| line.starts_with(component));
    let has_target = |target: &&str| has(&format!("rust-std-{target}"));
    if components.iter().all(|component| has(component)) && targets.iter().all(has_target) {
        return Ok(());
    }
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", channel, "--profile", "minimal"]);
    install.args(components.iter().flat_map(|component| ["--component", component]));
    failure::run(install.args(targets.iter().flat_map(|target| ["--target", target])))
}
