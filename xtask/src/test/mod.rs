//! `cargo xtask test`: the checks of a change, those that tell most first.
//!
//! The default takes minutes: format, texts, lints, and every test with its random searches cut short. `--all` has all
//! checks: the searches whole, the other builds of the engine and the memory manager, the kernel on QEMU, the sanitizer,
//! the engine's costs, the page in a browser, the Python package. A step installs what it needs.

mod guards;
mod links;
mod named_tests;
mod texts;
mod tools;

use std::process::Command;

use crate::failure::{self, Failure};
use crate::kernel::build::{ensure_target, sized};
use crate::linux::source;
use crate::steps::Steps;
use crate::workspace::{self, Variant, Workspace, COMMAND};
use crate::{bench, kernel, litmus, nightly, page, python, sanitize};

/// The bare-metal targets that prove `no_std`: they have no `std` to link against by accident.
pub(crate) const BARE_METAL: [&str; 2] = ["x86_64-unknown-none", "aarch64-unknown-none"];

/// The examples that show a use of a package, and end with an error where they do not do what they say.
const EXAMPLES: [&str; 4] = ["port", "strict", "own_workload", "template"];

/// The runs of the program: each ends with an error if a rule was broken or a load was wrong.
const RUNS: [&str; 3] = [
    "mmap-read --scale 0.004 --repeats 1",
    "migrate migrate-huge --cpus 16 --scale 0.002 --repeats 1",
    "tlb-flush2 --mechanism batched,broadcast,all --scale 0.0004 --repeats 1",
];

/// The variable of the environment that cuts the random searches of tests short (`ceasefire_testing::cases`).
const SHORT: &str = "CEASEFIRE_SHORT";

/// The tests with random searches, and loom's models.
const SEARCHES: [&str; 2] = [
    "test --workspace --test laws --test manager --test model --test loom",
    "test --package ceasefire-adversary --lib -- random_programs_break_no_rule every_scenario_holds_with_its_guards",
];

/// The checks to make.
#[derive(Debug, clap::Parser)]
pub(crate) struct Options {
    /// All checks, with the random searches whole.
    #[arg(long)]
    all: bool,
    /// The lints and tests of one package alone, by its name or its folder's.
    #[arg(short, long, value_name = "CRATE", conflicts_with = "all")]
    package: Option<String>,
}

/// Takes every step in order and stops at the first failure, with its exit code. Prints the time of each.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let mut steps = Steps::default();
    let result = match &options.package {
        Some(name) => package(&workspace, &mut steps, name),
        None if options.all => quick(&workspace, &mut steps).and_then(|()| rest(&workspace, &mut steps)),
        None => quick(&workspace, &mut steps),
    };
    print!("{}", steps.table());
    result.map(|()| println!("==> all steps passed"))
}

/// Format, lints and tests of one package.
fn package(workspace: &Workspace, steps: &mut Steps, name: &str) -> Result<(), Failure> {
    let name = workspace.member(name)?;
    let run = |command: &mut Command| failure::run(command);
    tools::components()?;
    steps.take("format", || run(&mut workspace.cargo(&format!("fmt --package {name} --check"))))?;
    let lints = format!("clippy --package {name} --all-targets -- -D warnings");
    steps.take("clippy", || run(&mut workspace.cargo(&lints)))?;
    let tests = format!("test --package {name}");
    steps.take("tests", || run(workspace.variant(Variant::Sabotage, &tests).env(SHORT, "1")))
}

/// The checks that tell most: format, texts, lints, and every test with its random searches cut short, but for loom's
/// models, which are searched whole or not at all.
fn quick(workspace: &Workspace, steps: &mut Steps) -> Result<(), Failure> {
    let run = |command: &mut Command| failure::run(command);
    tools::components()?;
    steps.take("format", || {
        run(&mut workspace.cargo("fmt --all --check"))?;
        run(&mut workspace.cargo("fmt --manifest-path check/fuzz/Cargo.toml --check"))
    })?;
    steps.take("texts", || {
        println!("==> registry hosts, words, licences, links, named tests, packages");
        texts::check(workspace)?;
        links::check(workspace)?;
        named_tests::check(workspace)
    })?;
    steps.take("clippy", || run(&mut workspace.cargo("clippy --workspace --all-targets -- -D warnings")))?;
    // All but those that manifests leave out: `--lib` and `--doc` would take the sources built to be checked too.
    let tests = "test --workspace";
    // Without the cfg the tests that remove a guard are not there, and all others are compiled by the step before.
    let sabotaged = |line: &str| workspace.variant(Variant::Sabotage, line);
    steps.take("tests, built", || run(&mut sabotaged(&format!("{tests} --no-run"))))?;
    steps.take("tests", || run(sabotaged(tests).env(SHORT, "1")))
}

/// All other checks.
fn rest(workspace: &Workspace, steps: &mut Steps) -> Result<(), Failure> {
    let run = |command: &mut Command| failure::run(command);
    steps.take("searches of tests, whole", || {
        SEARCHES.iter().try_for_each(|line| run(&mut workspace.variant(Variant::Sabotage, line)))
    })?;
    steps.take("examples", || {
        run(&mut workspace.variant(Variant::Sabotage, "build --workspace --examples"))?;
        EXAMPLES.into_iter().try_for_each(|example| run(&mut Command::new(workspace.tested_example(example))))
    })?;
    // Each step that runs the program runs the one that the tests have built: an optimised build would take minutes.
    std::env::set_var(COMMAND, workspace.tested("ceasefire"));
    steps.take("the program", || the_program(workspace))?;
    steps.take("Python package", || {
        tools::python()?;
        python::check(workspace, true)
    })?;
    steps.take("the page", || {
        tools::debian("chromium", "chromium")?;
        page::run()
    })?;
    steps.take("parts of the searches", || nightly::run(&crate::parse("--part random programs miri")?))?;
    steps.take("Arm's model", || match litmus::find(workspace) {
        Ok(()) => nightly::run(&crate::parse("--part litmus")?),
        // It comes from a suite of Debian that changes daily.
        Err(why) => {
            println!("==> herd7 cannot be fetched here, so Arm's model judges nothing: {why}");
            Ok(())
        }
    })?;
    steps.take("series for Linux", || {
        if !source::check(workspace)? {
            println!(
                "==> Linux's sources are not here, so its patches are not applied: `cargo xtask linux fetch`"
            );
        }
        Ok(())
    })?;
    steps.take("clippy, guards removable", || {
        let guarded =
            "clippy --package ceasefire --package ceasefire-memory --package ceasefire-machine --tests";
        // The cfg goes to the linter alone, so the packages that we depend on are those of the step before.
        run(&mut workspace.cargo(&format!("{guarded} -- -D warnings --cfg ceasefire_sabotage")))
    })?;
    steps.take("tests without assertions", || {
        run(&mut workspace.variant(Variant::Sabotage, "test --package ceasefire --profile unchecked"))
    })?;
    steps.take("no guard removable", || guards::check(workspace))?;
    steps.take("small engine", || run(&mut small(workspace)))?;
    steps.take("documentation", || {
        run(workspace.cargo("doc --workspace --no-deps").env("RUSTDOCFLAGS", "-D warnings"))
    })?;
    steps.take("oldest Rust", || oldest_rust(workspace))?;
    for target in BARE_METAL {
        steps.take(target, || bare_metal(workspace, target))?;
    }
    steps.take("the kernel", || {
        tools::debian("qemu-system-x86_64", "qemu-system-x86")?;
        tools::debian("qemu-system-aarch64", "qemu-system-arm")?;
        kernel::run(&crate::parse("--check")?)
    })?;
    steps.take("the sanitizer", || sanitize::run(&crate::parse("")?))?;
    steps.take("instruction counts", || {
        tools::debian("valgrind", "valgrind")?;
        bench::run(&crate::parse("--quick")?)
    })
}

/// Runs the program, and looks for the counts that its results must have: a run that checks nothing finds nothing wrong.
fn the_program(workspace: &Workspace) -> Result<(), Failure> {
    let mut results = String::new();
    for arguments in RUNS {
        println!("==> ceasefire {arguments}");
        let options = ["--quiet", "--json", "-"];
        results += &failure::stdout(workspace.program().args(arguments.split(' ')).args(options))?;
    }
    match ["\"violations\": 0", "\"loads_wrong\": 0"].into_iter().find(|count| !results.contains(count)) {
        None => Ok(()),
        Some(count) => Err(Failure::new(format!("no result of the program has {count}"))),
    }
}

/// The engine's tests in a build for four CPUs, no broadcasts and no places that are kept, without those that need
/// broadcasts or more CPUs. Kept histories are of all machines, those with broadcasts too.
fn small(workspace: &Workspace) -> Command {
    let skipped = [
        "broadcast",
        "transitions::",
        "elsewhere::",
        "pending::",
        "presence::",
        "retirement::",
        "corpus::",
        "walkers::",
        "a_batch_that_comes_back_to_a_space_pays_for_no_debt",
        "a_payment_settles_the_epochs_that_were_closed_before_it",
        "a_cpu_that_comes_back_from_the_kernels_own_tables_gives_no_place_up",
        "lazy_and_idle_cpus_and_those_on_the_kernels_own_tables",
        "where_the_platform_flushes",
    ]
    .map(|name| format!("--skip {name}"))
    .join(" ");
    let mut command = workspace.variant(Variant::Small, &format!("test --package ceasefire -- {skipped}"));
    command.envs([("CEASEFIRE_MAX_CPUS", "4"), ("CEASEFIRE_MAX_ASIDS", "0"), ("CEASEFIRE_PLACES", "1")]);
    command
}

/// Compiles the engine with the oldest Rust that its manifest promises, which cannot read the tools' manifests. So the
/// compiler is called by itself; the engine depends on nothing.
fn oldest_rust(workspace: &Workspace) -> Result<(), Failure> {
    let engine = workspace.package("ceasefire")?;
    let version = engine["rust_version"].as_str();
    let version = version.ok_or_else(|| Failure::new("the engine's manifest has no rust-version"))?;
    // rustup would take the bare number for the last release of the line.
    let toolchain = format!("{version}.0");
    workspace::toolchain(&toolchain, &["rustc"], &[])?;
    let mut command = Command::new("rustc");
    command.arg(format!("+{toolchain}")).args([
        "--edition",
        "2021",
        "--crate-type",
        "lib",
        "--emit",
        "metadata",
    ]);
    command.args(["--crate-name", "ceasefire", "--out-dir"]).arg(workspace.target.join("msrv"));
    failure::run(command.arg("engine/src/lib.rs").current_dir(&workspace.root))
}

/// Builds what kernels depend on without an operating system, and lints the kernel as it is booted.
fn bare_metal(workspace: &Workspace, target: &str) -> Result<(), Failure> {
    ensure_target(workspace, target)?;
    let build = format!(
        "build --package ceasefire --package ceasefire-memory --package ceasefire-conformance --target {target}"
    );
    failure::run(&mut workspace.cargo(&build))?;
    // The rest of the workspace has been linted already, but most of the kernel exists on this target alone.
    let packages =
        "--package ceasefire-kernel --package ceasefire-kernel-programs --package ceasefire-kernel-abi \
                    --package ceasefire-sanitizer-guest";
    let on_target = format!("--profile checked {packages} --target {target}");
    failure::run(sized(&mut workspace.cargo(&format!("clippy {on_target} -- -D warnings"))))?;
    let doc = format!("doc {on_target} --no-deps --document-private-items");
    failure::run(sized(&mut workspace.cargo(&doc)).env("RUSTDOCFLAGS", "-D warnings"))
}
