//! The failure of a task, and the execution of the commands that a task consists of.

use std::fmt;
use std::process::{Command, Output, Stdio};

/// Why a task failed: a line for the reader, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// A task that ran and found something wrong.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 1 }
    }

    /// A command line with an unknown task or option.
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 2 }
    }

    /// A task that found nothing wrong, but could not check all that it should.
    pub(crate) fn inconclusive(message: impl Into<String>) -> Self {
        Self { message: message.into(), code: 3 }
    }

    pub(crate) fn code(&self) -> u8 {
        self.code
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// Prints the command on a line of its own and runs it with the task's standard streams. The task fails with the
/// command's exit code.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let line = line(command);
    println!("==> {line}");
    let status = command.status().map_err(|error| cannot_run(command, &error))?;
    check(status, &line)
}

/// Runs the command quietly and returns its standard output. Its standard error goes to the terminal.
pub(crate) fn stdout(command: &mut Command) -> Result<String, Failure> {
    let output = output(command.stderr(Stdio::inherit()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs the command and returns both of its streams, if it succeeded.
pub(crate) fn output(command: &mut Command) -> Result<Output, Failure> {
    let output = command.output().map_err(|error| cannot_run(command, &error))?;
    let failed = check(output.status, &line(command));
    if failed.is_err() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    failed.map(|()| output)
}

/// Fails with the exit code of a command that failed.
pub(crate) fn check(status: std::process::ExitStatus, line: &str) -> Result<(), Failure> {
    if status.success() {
        return Ok(());
    }
    // A command without a code was ended by a signal; its code is then 1.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failure { message: format!("`{line}` failed: {status}"), code })
}

fn cannot_run(command: &Command, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot run `{}`: {error}", line(command)))
}

/// The command as typed in a shell, after the variables that are set for it.
pub(crate) fn line(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}=\"{}\"", name.to_string_lossy(), value?.to_string_lossy()))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    variables.chain(words.map(|word| word.to_string_lossy().into_owned())).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failing_command_hands_on_its_exit_code() {
        let failure = run(Command::new("sh").args(["-c", "exit 7"])).unwrap_err();
        assert_eq!(failure.code(), 7);
        assert!(failure.to_string().contains("sh -c exit 7"), "{failure}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let failure = stdout(&mut Command::new("no-such-program-anywhere")).unwrap_err();
        assert!(failure.to_string().contains("no-such-program-anywhere"), "{failure}");
    }

    #[test]
    fn the_line_shows_variables_before_words() {
        let mut command = Command::new("cargo");
        command.arg("doc").env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(line(&command), "RUSTDOCFLAGS=\"-D warnings\" cargo doc");
    }
}
