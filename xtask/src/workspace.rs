//! The information of cargo and git about this repository.

use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

use crate::failure::{self, Failure};

/// How the workspace's own packages are compiled: a wrapper of the compiler in `xtask/variants`. Cargo keeps the results of
/// each apart in one target folder, and the packages that all depend on are built once.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Variant {
    /// Tests can remove guards.
    Sabotage,
    /// For the limits of a small machine, which the environment states.
    Small,
}

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

    /// The same for a variant of the build.
    pub(crate) fn variant(&self, variant: Variant, line: &str) -> Command {
        let mut command = self.cargo(line);
        let (name, path) = self.wrapper(variant);
        command.env(name, path);
        command
    }

    /// The variable of the environment that makes a build that variant.
    pub(crate) fn wrapper(&self, variant: Variant) -> (&'static str, PathBuf) {
        let name = match variant {
            Variant::Sabotage => "sabotage",
            Variant::Small => "small",
        };
        ("RUSTC_WORKSPACE_WRAPPER", self.root.join("xtask/variants").join(name))
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

    /// A program as the tests have built it, if nothing has been built since.
    pub(crate) fn tested(&self, name: &str) -> PathBuf {
        self.target.join("debug").join(name)
    }

    /// An example as the tests have built it, if nothing has been built since.
    pub(crate) fn tested_example(&self, name: &str) -> PathBuf {
        self.target.join("debug/examples").join(name)
    }

    /// Builds one example for measuring and returns the path of the program.
    pub(crate) fn example(&self, package: &str, name: &str) -> Result<PathBuf, Failure> {
        let mut build =
            self.cargo(&format!("build --profile dist --quiet --package {package} --example {name}"));
        failure::output(build.stderr(std::process::Stdio::inherit()))?;
        Ok(self.target.join("dist/examples").join(name))
    }

    pub(crate) fn package(&self, name: &str) -> Result<&Value, Failure> {
        self.packages
            .iter()
            .find(|package| package["name"] == name)
            .ok_or_else(|| Failure::new(format!("the workspace has no package `{name}`")))
    }

    /// The name of the workspace's package that has this name, or whose folder has it.
    pub(crate) fn member(&self, name: &str) -> Result<String, Failure> {
        let members = || self.packages.iter().filter(|package| package["source"].is_null());
        let folder = |package: &&Value| {
            let manifest = package["manifest_path"].as_str().map(PathBuf::from);
            manifest.is_some_and(|file| file.parent().is_some_and(|folder| folder.ends_with(name)))
        };
        let found = members().find(|package| package["name"] == name).or_else(|| members().find(folder));
        let found = found.and_then(|package| package["name"].as_str());
        let known =
            || members().filter_map(|package| package["name"].as_str()).collect::<Vec<_>>().join(", ");
        found
            .map(str::to_owned)
            .ok_or_else(|| Failure::usage(format!("no package `{name}`; known: {}", known())))
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
