//! What a long command prints, for the reader and for its figure.

use std::io::{self, BufRead, BufReader};
use std::process::Command;

use crate::failure::{self, Failure};

/// Runs the command, shows both of its streams as they come, and returns them.
///
/// # Errors
/// As [`failure::run`].
pub(super) fn shown(command: &mut Command) -> Result<String, Failure> {
    let line = failure::line(command);
    println!("==> {line}");
    let broken = |error: io::Error| Failure::new(format!("`{line}`: {error}"));
    let (reader, writer) = io::pipe().map_err(broken)?;
    let copy = writer.try_clone().map_err(broken)?;
    let mut child = command.stdout(writer).stderr(copy).spawn().map_err(broken)?;
    // The command keeps its ends of the pipe until it is dropped or told otherwise, and then reading would never end.
    command.stdout(std::process::Stdio::inherit()).stderr(std::process::Stdio::inherit());
    let mut text = String::new();
    for line in BufReader::new(reader).split(b'\n') {
        let line = String::from_utf8_lossy(&line.map_err(broken)?).into_owned();
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
    }
    let status = child.wait().map_err(broken)?;
    failure::check(status, &line).map(|()| text)
}

/// The sum of the numbers before `unit` in the lines that contain `part`.
fn sum(text: &str, part: &str, unit: &str) -> u64 {
    let lines = text.lines().filter(|line| line.contains(part));
    lines.filter_map(|line| line.split(unit).next()?.split_whitespace().last()?.parse::<u64>().ok()).sum()
}

/// The number of tests that passed, from what the test runners print.
pub(super) fn passed(text: &str) -> u64 {
    sum(text, "test result: ok.", " passed")
}

/// A number with commas between thousands.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_streams_are_read_to_their_end() {
        let text = shown(Command::new("sh").args(["-c", "echo a; echo b >&2"])).unwrap();
        assert_eq!(text, "a\nb\n");
        assert_eq!(shown(Command::new("sh").args(["-c", "exit 7"])).unwrap_err().code(), 7);
    }

    #[test]
    fn passed_tests_of_several_runners_are_added() {
        let text = "test result: ok. 12 passed; 0 failed; 0 ignored\ntest a ... ok\n\
                    test result: ok. 30 passed; 0 failed; 1 ignored\n";
        assert_eq!(passed(text), 42);
        assert_eq!(passed("test result: FAILED. 3 passed; 1 failed\n"), 0);
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1000, 10_000_000].map(grouped), ["0", "999", "1,000", "10,000,000"]);
    }
}
