//! The failure of a task, and the execution of the commands that a task consists of.

use std::fmt::{self, Display};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, ExitStatus, Output, Stdio};

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

impl Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.message)
    }
}

/// Returns a failure of the given kind (`new`, `usage` or `inconclusive`) unless the condition holds.
macro_rules! ensure {
    ($condition:expr, $kind:ident, $($text:tt)*) => {
        if !$condition {
            return Err($crate::failure::Failure::$kind(format!($($text)*)));
        }
    };
}
pub(crate) use ensure;

/// Names the file or the thing that an error is about.
pub(crate) trait At<T> {
    fn at(self, place: impl AsRef<Path>) -> Result<T, Failure>;
}

impl<T, E: Display> At<T> for Result<T, E> {
    fn at(self, place: impl AsRef<Path>) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(format!("{}: {error}", place.as_ref().display())))
    }
}

/// Prints the command on a line of its own and runs it with the task's standard streams. The task fails with the
/// command's exit code.
pub(crate) fn run(command: &mut Command) -> Result<(), Failure> {
    let line = line(command);
    println!("==> {line}");
    let status = command.status().map_err(|error| cannot_run(&line, &error))?;
    check(status, &line)
}

/// Runs the command quietly and returns its standard output. Its standard error goes to the terminal.
pub(crate) fn stdout(command: &mut Command) -> Result<String, Failure> {
    let output = output(command.stderr(Stdio::inherit()))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs the command and returns both of its streams, if it succeeded.
pub(crate) fn output(command: &mut Command) -> Result<Output, Failure> {
    let output = command.output().map_err(|error| cannot_run(&line(command), &error))?;
    let failed = check(output.status, &line(command));
    if failed.is_err() {
        eprint!("{}", String::from_utf8_lossy(&output.stderr));
    }
    failed.map(|()| output)
}

/// Runs the command, shows both of its streams as they come, and returns them, if it succeeded.
pub(crate) fn shown(command: &mut Command) -> Result<String, Failure> {
    let (text, status) = watched(command)?;
    check(status, &line(command)).map(|()| text)
}

/// Runs the command, shows both of its streams as they come, and returns them with its status.
pub(crate) fn watched(command: &mut Command) -> Result<(String, ExitStatus), Failure> {
    let line = line(command);
    println!("==> {line}");
    let broken = |error| cannot_run(&line, &error);
    let (reader, writer) = std::io::pipe().map_err(broken)?;
    let copy = writer.try_clone().map_err(broken)?;
    let mut child = command.stdout(writer).stderr(copy).spawn().map_err(broken)?;
    // The command keeps its ends of the pipe until it is told otherwise, and then reading would never end.
    command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    let mut text = String::new();
    for bytes in BufReader::new(reader).split(b'\n') {
        let bytes = bytes.map_err(broken)?;
        let line = String::from_utf8_lossy(&bytes);
        println!("{line}");
        text += &line;
        text.push('\n');
    }
    Ok((text, child.wait().map_err(broken)?))
}

/// Fails with the exit code of a command that failed.
pub(crate) fn check(status: ExitStatus, line: &str) -> Result<(), Failure> {
    if status.success() {
        return Ok(());
    }
    // A command without a code was ended by a signal; its code is then 1.
    let code = status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1);
    Err(Failure { message: format!("`{line}` failed: {status}"), code })
}

fn cannot_run(line: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot run `{line}`: {error}"))
}

/// The command as typed in a shell, after the variables that are set for it.
pub(crate) fn line(command: &Command) -> String {
    let variables = command.get_envs().filter_map(|(name, value)| {
        Some(format!("{}=\"{}\"", name.to_string_lossy(), value?.to_string_lossy()))
    });
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    variables.chain(words.map(|word| word.to_string_lossy().into_owned())).collect::<Vec<_>>().join(" ")
}

/// The last lines of the output of a machine that should have gone on.
pub(crate) fn last_lines(output: &str, count: usize) -> String {
    let lines: Vec<&str> = output.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn a_failing_command_hands_on_its_exit_code() {
        let failure = run(&mut shell("exit 7")).unwrap_err();
        assert_eq!(failure.code(), 7);
        assert!(failure.to_string().contains("sh -c exit 7"), "{failure}");
        assert_eq!(shown(&mut shell("exit 7")).unwrap_err().code(), 7);
    }

    #[test]
    fn both_streams_are_read_to_their_end() {
        assert_eq!(shown(&mut shell("echo a; echo b >&2")).unwrap(), "a\nb\n");
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
