//! `cargo xtask python`: builds the Python package, installs it into a fresh virtual environment and runs its tests.
//!
//! The tests compare the package with the command line, which is built too. Both are built as tests are, not as users
//! install them, so that the step ends soon. pip brings maturin, pyarrow and, for the tests alone, Ray, and what the
//! notebook needs.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use crate::failure::{self, Failure};
use crate::workspace::{Variant, Workspace, COMMAND};

/// The interpreter that makes the virtual environment.
const PYTHON: &str = "python3";

/// Builds, installs and tests the package.
pub(crate) fn run() -> Result<(), Failure> {
    check(&Workspace::load()?, false)
}

/// Whether there is an interpreter with the module for virtual environments, which Debian packs separately.
pub(crate) fn is_possible() -> bool {
    let tried = Command::new(PYTHON).args(["-c", "import venv, ensurepip"]).output();
    tried.is_ok_and(|output| output.status.success())
}

/// The same in this workspace. `is_tested` says that its tests have been built: the command and most dependencies are
/// then those of that build, which knows how to remove guards and does not.
pub(crate) fn check(workspace: &Workspace, is_tested: bool) -> Result<(), Failure> {
    if !is_possible() {
        return Err(Failure::new("no Python with virtual environments: install Debian's `python3-venv`"));
    }
    if !is_tested {
        failure::run(&mut workspace.cargo("build --package ceasefire-cli"))?;
    }
    let environment = workspace.target.join("python");
    match fs::remove_dir_all(&environment) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(Failure::new(format!("{}: {error}", environment.display())));
        }
        _ => {}
    }
    failure::run(Command::new(PYTHON).args(["-m", "venv"]).arg(&environment))?;
    let python = || {
        let mut command = Command::new(environment.join("bin/python"));
        command.current_dir(&workspace.root);
        command
    };
    let install = "-m pip install --quiet --disable-pip-version-check ./python";
    let mut install = with(python(), install);
    if is_tested {
        let (name, wrapper) = workspace.wrapper(Variant::Sabotage);
        install.env(name, wrapper).env("CARGO_TARGET_DIR", &workspace.target);
    }
    failure::run(install.env("MATURIN_PEP517_ARGS", "--profile dev"))?;
    // Some packages have no wheel for some Pythons and processors.
    for (packages, tests) in [("ray", "studies on Ray"), ("marimo matplotlib", "the notebook")] {
        let install = "-m pip install --quiet --disable-pip-version-check --only-binary :all:";
        if failure::run(&mut with(with(python(), install), packages)).is_err() {
            println!("{packages} cannot be installed for this Python: the tests of {tests} are left out");
        }
    }
    let mut tests = with(python(), "-m unittest discover --start-directory python/tests");
    failure::run(tests.env(COMMAND, workspace.tested("ceasefire")))
}

/// The command with more arguments, split at spaces.
fn with(mut command: Command, line: &str) -> Command {
    command.args(line.split_whitespace());
    command
}
