//! `cargo xtask test`: all checks of a change, cheapest first where the order is free.

mod guide;
mod hosts;
mod licences;
mod links;
mod msrv;
mod named_tests;
mod packages;
mod sabotage;

use std::process::Command;

use crate::failure::{self, Failure};
use crate::kernel::build::sized;
use crate::linux::source;
use crate::python;
use crate::steps::Steps;
use crate::workspace::{Workspace, SABOTAGE};

/// The bare-metal targets that prove `no_std`: they have no `std` to link against by accident.
pub(crate) const BARE_METAL: [&str; 2] = ["x86_64-unknown-none", "aarch64-unknown-none"];

/// The examples that show a use of a package, and end with an error where they do not do what they say.
const EXAMPLES: [&str; 4] = ["port", "strict", "own_workload", "template"];

/// Runs every step in order and stops at the first failure, with its exit code. Prints the time of each.
pub(crate) fn run() -> Result<(), Failure> {
    let mut steps = Steps::default();
    let result = all(&mut steps);
    print!("{}", steps.table());
    let skipped = result?;
    if skipped.is_empty() {
        println!("==> all steps passed");
    } else {
        println!("==> all steps that could run passed; to run the others, first run: {}", skipped.join(", "));
    }
    Ok(())
}

/// Returns the commands that install what the steps lacked that were left out.
fn all(steps: &mut Steps) -> Result<Vec<String>, Failure> {
    let workspace = Workspace::load()?;
    let workspace = &workspace;
    let run = |command: &mut Command| failure::run(command);
    steps.take("format", || {
        run(&mut workspace.cargo("fmt --all --check"))?;
        run(&mut workspace.cargo("fmt --manifest-path check/fuzz/Cargo.toml --check"))
    })?;
    steps.take("texts", || {
        println!("==> registry hosts, licences, links, named tests, guide, packages");
        hosts::check(workspace)?;
        licences::check(workspace)?;
        links::check(workspace)?;
        named_tests::check(workspace)?;
        guide::check(workspace)?;
        packages::check(workspace)
    })?;
    steps.take("series for Linux", || {
        if !source::check(workspace)? {
            println!(
                "==> Linux's sources are not here, so its patches are not applied: `cargo xtask linux fetch`"
            );
        }
        Ok(())
    })?;
    steps.take("clippy", || run(&mut workspace.cargo("clippy --workspace --all-targets -- -D warnings")))?;
    steps.take("clippy, guards removable", || {
        let guarded =
            "clippy --package ceasefire --package ceasefire-memory --package ceasefire-machine --tests";
        // The cfg goes to the linter alone, so the packages that we depend on are those of the step before.
        run(&mut workspace.cargo(&format!("{guarded} -- -D warnings {SABOTAGE}")))
    })?;
    // Without the cfg the tests that remove a guard are not there, and all others are compiled by the step before.
    steps.take("tests, built", || run(&mut workspace.cargo_sabotaged("test --workspace --no-run")))?;
    steps.take("tests", || run(&mut workspace.cargo_sabotaged("test --workspace")))?;
    steps.take("tests without assertions", || {
        run(&mut workspace.cargo_sabotaged("test --package ceasefire --profile unchecked"))
    })?;
    steps.take("no guard removable", || sabotage::check(workspace))?;
    steps.take("small engine", || run(&mut small(workspace)))?;
    steps.take("examples", || {
        // The tests have built them. Cargo would build each package by itself, with fewer features of its dependencies.
        EXAMPLES.into_iter().try_for_each(|example| run(&mut Command::new(workspace.tested_example(example))))
    })?;
    steps.take("documentation", || {
        run(workspace.cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings"))
    })?;

    // These need components that a fresh installation of Rust or of the system lacks. A step that is left out is no
    // failure, but it is always reported.
    let mut skipped = vec![
        steps.take("oldest Rust", || oldest_rust(workspace))?,
        steps.take("Python package", || python_package(workspace))?,
    ];
    for target in BARE_METAL {
        skipped.push(steps.take(target, || bare_metal(workspace, target))?);
    }
    Ok(skipped.into_iter().flatten().collect())
}

/// The engine's tests in a build for four CPUs, no broadcasts and no places that are kept, in a target folder of its own,
/// without those that need broadcasts or more CPUs. Kept histories are of all machines, those with broadcasts too.
fn small(workspace: &Workspace) -> Command {
    let skipped = [
        "broadcast",
        "transitions::",
        "elsewhere::",
        "pending::",
        "presence::",
        "retirement::",
        "corpus::",
        "lazy_and_idle_cpus_and_those_on_the_kernels_own_tables",
        "where_the_platform_flushes",
    ]
    .map(|name| format!("--skip {name}"))
    .join(" ");
    let mut command = workspace.cargo(&format!("test --package ceasefire -- {skipped}"));
    command.envs([("CEASEFIRE_MAX_CPUS", "4"), ("CEASEFIRE_MAX_ASIDS", "0"), ("CEASEFIRE_PLACES", "1")]);
    command.env("CARGO_TARGET_DIR", workspace.target.join("small"));
    command
}

/// Checks the engine on the oldest Rust that it promises. Returns the command that installs it, if it is missing.
fn oldest_rust(workspace: &Workspace) -> Result<Option<String>, Failure> {
    let toolchain = msrv::toolchain(workspace)?;
    if !rustup_lists(&["toolchain", "list"], &toolchain) {
        return Ok(Some(format!("`rustup toolchain install {toolchain} --profile minimal`")));
    }
    failure::run(&mut msrv::check(workspace, &toolchain)?).map(|()| None)
}

/// Checks the Python package. Returns the command that installs what it needs, if that is missing.
fn python_package(workspace: &Workspace) -> Result<Option<String>, Failure> {
    if !python::is_possible() {
        return Ok(Some("`apt-get install python3-venv`".to_owned()));
    }
    python::check(workspace, true).map(|()| None)
}

/// Builds what kernels depend on without an operating system, and lints the kernel as it is booted. Returns the
/// command that installs the target, if it is missing.
fn bare_metal(workspace: &Workspace, target: &str) -> Result<Option<String>, Failure> {
    if !rustup_lists(&["target", "list", "--installed"], target) {
        return Ok(Some(format!("`rustup target add {target}`")));
    }
    let build = format!("build --package ceasefire --package ceasefire-memory --package ceasefire-conformance --target {target}");
    failure::run(&mut workspace.cargo(&build))?;
    // The rest of the workspace has been linted already, but most of the kernel exists on this target alone.
    let packages =
        "--package ceasefire-kernel --package ceasefire-kernel-programs --package ceasefire-kernel-abi";
    let on_target = format!("--profile checked {packages} --target {target}");
    failure::run(sized(&mut workspace.cargo(&format!("clippy {on_target} -- -D warnings"))))?;
    let doc = format!("doc {on_target} --no-deps --document-private-items");
    failure::run(sized(&mut workspace.cargo(&doc)).env("RUSTDOCFLAGS", "-D warnings")).map(|()| None)
}

/// Whether rustup lists `wanted`. It lists toolchains with their host after the version.
fn rustup_lists(list: &[&str], wanted: &str) -> bool {
    let Ok(output) = Command::new("rustup").args(list).output() else { return false };
    let names = String::from_utf8_lossy(&output.stdout);
    names.lines().any(|line| {
        let rest = line.strip_prefix(wanted);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ' ']))
    })
}
