//! The supervision of one run of the emulator, from its start to its end, with time limits.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::protocol::{Ending, Line};
use crate::failure::{self, Failure};

/// How long a run may take, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Until the first instruction of a program.
    pub(super) boot: u64,
    /// Until its end.
    pub(super) whole: u64,
}

/// The record of a run.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) ending: Ending,
    /// The kernel's result, unchanged.
    pub(super) result: Option<String>,
    /// The first line of its report of a failure.
    pub(super) failed: Option<String>,
    /// From QEMU's start to the first instruction of a program.
    pub(super) boot: Option<Duration>,
    /// From QEMU's start to its end.
    pub(super) wall: Duration,
}

/// A line of QEMU's output.
enum Written {
    /// A line of the serial port.
    Serial(String),
    /// A line of QEMU itself, on standard error.
    Own(String),
}

/// QEMU, which is ended on drop.
struct Watched(Child);

impl Drop for Watched {
    fn drop(&mut self) {
        // Both fail only if it has ended and was waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the command and passes the kernel's output, except its result, to `say`.
pub(super) fn watch(
    command: &mut Command,
    limits: Limits,
    say: &mut dyn FnMut(&str),
) -> Result<Record, Failure> {
    let line = failure::line(command);
    let cannot_run = |error: std::io::Error| Failure::new(format!("cannot run `{line}`: {error}"));
    let start = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut qemu = Watched(command.spawn().map_err(cannot_run)?);
    let (sender, written) = mpsc::channel();
    if let (Some(serial), Some(own)) = (qemu.0.stdout.take(), qemu.0.stderr.take()) {
        read(serial, sender.clone(), Written::Serial);
        read(own, sender, Written::Own);
    }
    let mut record =
        Record { ending: Ending::Done, result: None, failed: None, boot: None, wall: Duration::ZERO };
    let stopped = record.listen(&written, start, limits, say);
    // If QEMU has ended, as it has when both streams end, its status is fixed and killing it changes nothing. If it
    // only closed its streams, it can tell nothing more.
    let _ = qemu.0.kill();
    let status = qemu.0.wait().map_err(cannot_run)?;
    record.wall = start.elapsed();
    record.ending = stopped.unwrap_or_else(|| Ending::of(status));
    Ok(record)
}

impl Record {
    /// Reads the output until QEMU has ended, or until a limit is reached, which is then returned.
    fn listen(
        &mut self,
        written: &Receiver<Written>,
        start: Instant,
        limits: Limits,
        say: &mut dyn FnMut(&str),
    ) -> Option<Ending> {
        loop {
            let boots = self.boot.is_none() && limits.boot < limits.whole;
            let limit = if boots { limits.boot } else { limits.whole };
            let left = Duration::from_secs(limit).checked_sub(start.elapsed());
            let received = left.map_or(Err(RecvTimeoutError::Timeout), |left| written.recv_timeout(left));
            match received {
                Ok(Written::Own(line)) => eprintln!("{line}"),
                Ok(Written::Serial(line)) => match Line::read(&line) {
                    Line::User => self.boot = self.boot.or_else(|| Some(start.elapsed())),
                    Line::Result(result) => self.result = Some(result.to_owned()),
                    Line::Failed(failed) => {
                        say(&line);
                        self.failed.get_or_insert_with(|| failed.to_owned());
                    }
                    Line::Text => say(&line),
                },
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if boots => return Some(Ending::NoBoot(limit)),
                Err(RecvTimeoutError::Timeout) => return Some(Ending::Timeout(limit)),
            }
        }
    }

    /// How long a program had run when the run ended.
    pub(super) fn since_user(&self) -> Option<Duration> {
        Some(self.wall.saturating_sub(self.boot?))
    }
}

/// Sends every line of the stream, in a thread of its own, until the stream or the receiver ends.
fn read(stream: impl Read + Send + 'static, sender: Sender<Written>, kind: fn(String) -> Written) {
    thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        let mut bytes = Vec::new();
        while stream.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
            // Without flushes programs print contents of other programs' pages, which must not control the terminal.
            let is_strange = |letter: char| letter.is_control() && letter != '\t';
            let line = String::from_utf8_lossy(&bytes).trim_end().replace(is_strange, "\u{fffd}");
            if sender.send(kind(line)).is_err() {
                return;
            }
            bytes.clear();
        }
    });
}

#[cfg(test)]
mod tests {
    use super::super::testing::Script;
    use super::*;

    /// Longer than any test takes.
    const LONG: Limits = Limits { boot: 60, whole: 600 };

    fn run(script: &str, limits: Limits) -> Record {
        let script = Script::new(script);
        watch(&mut Command::new(script.path()), limits, &mut |_| ()).unwrap()
    }

    #[test]
    fn a_run_is_recorded() {
        let record = run("echo booting; echo USER; printf 'RESULT {\"a\":1}\\r\\nbye'; exit 33", LONG);
        assert_eq!(record.ending, Ending::Done);
        assert_eq!(record.result.as_deref(), Some("{\"a\":1}"));
        assert_eq!(record.failed, None);
        assert!(record.boot.unwrap() <= record.wall && record.since_user().is_some());
    }

    #[test]
    fn only_text_is_passed_on() {
        let script = Script::new("printf 'a\\033[31m\\000b\\tc\\r\\n'");
        let mut said = Vec::new();
        watch(&mut Command::new(script.path()), LONG, &mut |line| said.push(line.to_owned())).unwrap();
        assert_eq!(said, ["a\u{fffd}[31m\u{fffd}b\tc"]);
    }

    #[test]
    fn the_first_failure_counts() {
        let record =
            run("echo USER; echo 'FAILED stale read: here'; echo 'FAILED panic: then'; exit 35", LONG);
        assert_eq!(record.ending, Ending::Broken);
        assert_eq!(record.failed.as_deref(), Some("stale read: here"));
        assert_eq!(record.result, None);
    }

    #[test]
    fn a_run_that_never_ends_is_ended() {
        let hangs = "exec tail -f /dev/null";
        let record = run(hangs, Limits { boot: 0, whole: 600 });
        assert_eq!(record.ending, Ending::NoBoot(0));
        let record = run(&format!("echo USER; {hangs}"), Limits { boot: 1, whole: 1 });
        assert_eq!(record.ending, Ending::Timeout(1));
        // A run that never stops printing.
        let record = run("echo USER; while :; do echo on and on; done", Limits { boot: 1, whole: 1 });
        assert_eq!(record.ending, Ending::Timeout(1));
    }

    #[test]
    fn an_emulator_that_dies_is_reported() {
        let record = run("echo 'no such option' >&2; exit 1", LONG);
        assert_eq!(record.ending.words(), "QEMU ended by itself: exit status: 1");
        assert_eq!((record.boot, record.since_user()), (None, None));
        assert!(run("kill -9 $$", LONG).ending.words().contains("signal: 9"));
        // QEMU closes its streams and keeps running.
        let record = run("exec tail -f /dev/null >/dev/null 2>&1", LONG);
        assert!(record.ending.words().contains("signal: 9"));
    }

    #[test]
    fn a_program_that_cannot_be_run_is_named() {
        let failure = watch(&mut Command::new("no-such-program-anywhere"), LONG, &mut |_| ()).unwrap_err();
        assert!(failure.to_string().contains("no-such-program-anywhere"), "{failure}");
    }
}
