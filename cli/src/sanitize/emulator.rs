//! QEMU: whether it is fit, and how it is run with the plugin.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io::{self, PipeReader};
use std::os::fd::AsRawFd as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};

use ceasefire_sanitizer::emulator::{version_in, FIRST};
use ceasefire_sanitizer::free::Free;
use rustix::io::{fcntl_setfd, FdFlags};
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
        // QEMU separates the plugin's arguments by commas.
        if plugin.as_os_str().as_encoded_bytes().contains(&b',') {
            let message = "QEMU cannot take a path with a comma";
            return Err(Failure::Input(format!("{}: {message}", plugin.display())));
        }
        if arguments.iter().any(|argument| argument == "-daemonize") {
            return Err(Failure::Input(
                "-daemonize: the report ends when QEMU does, so that must stay".to_owned(),
            ));
        }
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

    /// Starts it. `code` is the first and the last address of the kernel's functions; `frees` are those that free frames.
    pub(super) fn start(&self, code: Option<(u64, u64)>, frees: &[Free]) -> Result<Running, Failure> {
        let (report, writer) = io::pipe().map_err(|error| Failure::writing("the report", &error))?;
        // The plugin opens the pipe by the path of this descriptor, which the emulator therefore needs.
        fcntl_setfd(&writer, FdFlags::empty())
            .map_err(|error| Failure::writing("the report", &error.into()))?;
        let mut plugin = self.plugin.clone().into_os_string();
        plugin.push(format!(",out=/proc/self/fd/{}", writer.as_raw_fd()));
        if let Some((first, last)) = code {
            // The last function has an end, which no symbol tells.
            plugin.push(format!(",code={first:x}+{:x}", (last - first).saturating_add(FUNCTION)));
        }
        for free in frees {
            plugin.push(format!(",free={free}"));
        }
        let mut command = Command::new(self.program);
        command.arg("-plugin").arg(plugin).args(self.arguments);
        let child = command.spawn().map_err(|error| self.cannot_run(&error))?;
        let emulator = Pid::from_child(&child);
        // Whoever ends this program ends the emulator, and what that has found is shown then.
        let _ = ctrlc::set_handler(move || {
            let _ = kill_process(emulator, Signal::TERM);
        });
        Ok(Running { child, report })
    }

    fn cannot_run(&self, error: &io::Error) -> Failure {
        Failure::Input(format!("{} cannot be run: {error}", self.name()))
    }
}

/// An emulator that runs.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    /// What the plugin writes, until the emulator has ended.
    pub(super) report: PipeReader,
}

impl Running {
    /// Waits for its end.
    pub(super) fn end(mut self) -> io::Result<ExitStatus> {
        self.child.wait()
    }
}

/// The plugin's place beside this program.
fn beside() -> Result<PathBuf, Failure> {
    let own =
        env::current_exe().map_err(|error| Failure::Input(format!("this program has no path: {error}")))?;
    Ok(own.with_file_name(PLUGIN))
}
