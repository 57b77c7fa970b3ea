//! QEMU: whether it is fit, and how it is run with the plugin.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use ceasefire_sanitizer::emulator::{version_in, FIRST};
use rustix::process::{kill_process, Pid, Signal};

use crate::failure::Failure;

/// The file that cargo makes of the plugin.
const PLUGIN: &str = "libceasefire_plugin.so";

/// The bytes that a function has at most.
const FUNCTION: u64 = 1 << 16;

/// An emulator that can load the plugin, and its arguments.
#[derive(Debug)]
pub(super) struct Emulator<'a> {
    program: &'a OsStr,
    arguments: &'a [OsString],
    plugin: PathBuf,
}

impl<'a> Emulator<'a> {
    /// Checks the emulator of a command line, and looks for the plugin.
    pub(super) fn find(command: &'a [OsString], plugin: Option<&Path>) -> Result<Self, Failure> {
        let [program, arguments @ ..] = command else {
            return Err(Failure::Input("-- must be followed by QEMU and its arguments".to_owned()));
        };
        let plugin = match plugin {
            Some(path) => path.to_owned(),
            None => beside()?,
        };
        if !plugin.is_file() {
            let message =
                "the plugin is not there: build it with `cargo build --release`, or name it with --plugin";
            return Err(Failure::Input(format!("{}: {message}", plugin.display())));
        }
        check_commas(&plugin)?;
        let emulator = Self { program, arguments, plugin };
        emulator.check()?;
        Ok(emulator)
    }

    /// Its name, as it was given.
    pub(super) fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }

    fn check(&self) -> Result<(), Failure> {
        let output = |argument: &[&str]| Command::new(self.program).args(argument).output();
        let version = output(&["--version"]).map_err(|error| self.cannot_run(&error))?;
        let text = String::from_utf8_lossy(&version.stdout).into_owned();
        let (major, minor) = version_in(&text)
            .ok_or_else(|| Failure::Input(format!("{}: it does not say that it is QEMU", self.name())))?;
        if (major, minor) < FIRST {
            let message = "plugins can read registers since 9.2; Debian has newer ones in its backports";
            return Err(Failure::Input(format!("{} is QEMU {major}.{minor}: {message}", self.name())));
        }
        let help = output(&["-plugin", "help"]).map_err(|error| self.cannot_run(&error))?;
        if !help.status.success() {
            return Err(Failure::Input(format!("{} was built without plugins", self.name())));
        }
        Ok(())
    }

    /// Runs it until it ends. The report is written to `report` meanwhile. `code` is the first and the last address of the
    /// kernel's functions.
    pub(super) fn run(&self, report: &Path, code: Option<(u64, u64)>) -> Result<ExitStatus, Failure> {
        if report.metadata().is_ok_and(|found| !found.is_file()) {
            return Err(Failure::Input(format!("{}: the report must be a file", report.display())));
        }
        // Now, and not in the emulator, which could say no more than that the plugin failed.
        std::fs::File::create(report).map_err(|error| Failure::writing(report.display(), &error))?;
        let report =
            std::path::absolute(report).map_err(|error| Failure::writing(report.display(), &error))?;
        check_commas(&report)?;
        let mut plugin = self.plugin.clone().into_os_string();
        plugin.push(",out=");
        plugin.push(report);
        if let Some((first, last)) = code {
            // The last function has an end, which no symbol tells.
            plugin.push(format!(",code={first:x}+{:x}", (last - first).saturating_add(FUNCTION)));
        }
        let mut command = Command::new(self.program);
        command.arg("-plugin").arg(plugin).args(self.arguments);
        let mut child = command.spawn().map_err(|error| self.cannot_run(&error))?;
        let emulator = Pid::from_child(&child);
        // Whoever ends this program ends the emulator, and what that has found is shown then.
        let _ = ctrlc::set_handler(move || {
            let _ = kill_process(emulator, Signal::TERM);
        });
        child.wait().map_err(|error| self.cannot_run(&error))
    }

    fn cannot_run(&self, error: &io::Error) -> Failure {
        Failure::Input(format!("{} cannot be run: {error}", self.name()))
    }
}

/// QEMU separates the plugin's arguments by commas.
fn check_commas(path: &Path) -> Result<(), Failure> {
    if path.as_os_str().as_encoded_bytes().contains(&b',') {
        return Err(Failure::Input(format!("{}: QEMU cannot take a path with a comma", path.display())));
    }
    Ok(())
}

/// The plugin's place beside this program.
fn beside() -> Result<PathBuf, Failure> {
    let own =
        env::current_exe().map_err(|error| Failure::Input(format!("this program has no path: {error}")))?;
    Ok(own.with_file_name(PLUGIN))
}
