//! The supervision of one run of the emulator, from its start to its end.
//!
//! The kernel finds hangs by itself, and the lines on its serial port are signs of life. Without one a run counts as hung
//! when the emulator has used much processor time: on a busy host it has used little. The host's clock bounds only runs
//! that go on.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use super::protocol::{Ending, Line};
use crate::failure::{self, Failure};
use crate::steps::{processor_time, Of};

/// From one look at the emulator to the next, if it prints nothing.
const LOOK: Duration = Duration::from_secs(1);

/// The same while it ends: newer ones close the serial port some time before.
const LAST_LOOK: Duration = Duration::from_millis(5);

/// The bounds of a run, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// Processor time that the emulator may use without a sign of life.
    pub(super) silence: u64,
    /// Time until the run's end.
    pub(super) whole: u64,
}

/// A moment of a run: the time since the emulator's start, and the processor time that it has used, where the host tells.
type Moment = (Duration, Option<Duration>);

/// The record of a run.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) ending: Ending,
    /// The kernel's result, unchanged.
    pub(super) result: Option<String>,
    /// The first line of its report of a failure.
    pub(super) failed: Option<String>,
    /// What its program could not test in time.
    pub(super) lacks: Vec<String>,
    /// From QEMU's start to the first instruction of a program.
    pub(super) boot: Option<Duration>,
    /// From QEMU's start to its end.
    pub(super) wall: Duration,
    /// The emulator's processor time at the last sign of life.
    pub(super) heard: Duration,
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

/// Runs the command and passes the kernel's output to `say`, until it ends or `is_over`.
pub(super) fn watch(
    command: &mut Command,
    limits: Limits,
    is_over: &dyn Fn() -> bool,
    say: &mut dyn FnMut(&str),
) -> Result<Record, Failure> {
    let line = failure::line(command);
    let cannot_run = |error: std::io::Error| Failure::new(format!("cannot run `{line}`: {error}"));
    let start = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut qemu = Watched(command.spawn().map_err(cannot_run)?);
    let (sender, lines) = mpsc::channel();
    if let Some(serial) = qemu.0.stdout.take() {
        thread::spawn(move || read(serial, &sender));
    }
    let mut record = Record::new();
    let process = qemu.0.id().to_string();
    let now = || (start.elapsed(), processor_time(&process, Of::Itself));
    let stopped = loop {
        if let Some(ending) = record.overdue(now(), limits) {
            break Some(ending);
        }
        if is_over() {
            break Some(Ending::Stopped);
        }
        match lines.recv_timeout(LOOK) {
            Ok(line) => record.hear(&line, now(), say),
            Err(RecvTimeoutError::Disconnected) if qemu.0.try_wait().map_err(cannot_run)?.is_some() => {
                break None
            }
            Err(RecvTimeoutError::Disconnected) => thread::sleep(LAST_LOOK),
            Err(RecvTimeoutError::Timeout) => {}
        }
    };
    // If QEMU has ended, its status is fixed and killing it changes nothing.
    let _ = qemu.0.kill();
    let status = qemu.0.wait().map_err(cannot_run)?;
    record.wall = start.elapsed();
    record.ending = stopped.unwrap_or_else(|| Ending::of(status));
    Ok(record)
}

impl Record {
    /// Of a run that begins.
    pub(super) fn new() -> Self {
        let (wall, heard) = (Duration::ZERO, Duration::ZERO);
        Self { ending: Ending::Done, result: None, failed: None, lacks: Vec::new(), boot: None, wall, heard }
    }

    /// Notes a line of the serial port, which is a sign of life.
    fn hear(&mut self, line: &str, (elapsed, worked): Moment, say: &mut dyn FnMut(&str)) {
        self.heard = worked.unwrap_or_default();
        match Line::read(line) {
            Line::User => self.boot = self.boot.or(Some(elapsed)),
            Line::Result(result) => {
                say(line);
                self.result = Some(result.to_owned());
            }
            Line::Beat => {}
            Line::Text => say(line),
            Line::Failed(failed) => {
                say(line);
                self.failed.get_or_insert_with(|| failed.to_owned());
            }
            Line::Lacks(lacks) => {
                say(line);
                self.lacks.push(lacks.to_owned());
            }
        }
    }

    /// The ending of a run that has reached a limit.
    fn overdue(&self, (elapsed, worked): Moment, limits: Limits) -> Option<Ending> {
        let Limits { silence, whole } = limits;
        let in_silence = worked.unwrap_or_default().saturating_sub(self.heard);
        if in_silence >= Duration::from_secs(silence) {
            return Some(Ending::Silent(silence));
        }
        let late = if self.boot.is_none() { Ending::NoBoot(whole) } else { Ending::Timeout(whole) };
        (elapsed >= Duration::from_secs(whole)).then_some(late)
    }

    /// How long a program had run when the run ended.
    pub(super) fn since_user(&self) -> Option<Duration> {
        Some(self.wall.saturating_sub(self.boot?))
    }
}

/// Sends every line of the stream, until the stream or the receiver ends.
fn read(stream: impl Read, sender: &Sender<String>) {
    let mut stream = BufReader::new(stream);
    let mut bytes = Vec::new();
    while stream.read_until(b'\n', &mut bytes).is_ok_and(|count| count > 0) {
        // Without flushes programs print contents of other programs' pages, which must not control the terminal.
        let is_strange = |letter: char| letter.is_control() && letter != '\t';
        let line = String::from_utf8_lossy(&bytes).trim_end().replace(is_strange, "\u{fffd}");
        if sender.send(line).is_err() {
            return;
        }
        bytes.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Script;
    use super::*;

    /// Longer than any test takes.
    const LONG: Limits = Limits { silence: 600, whole: 600 };

    fn run(script: &str, limits: Limits) -> Record {
        let script = Script::new(script);
        watch(&mut Command::new(script.path()), limits, &|| false, &mut |_| ()).unwrap()
    }

    #[test]
    fn a_run_is_recorded() {
        let record = run("echo booting; echo USER; printf 'RESULT {\"a\":1}\\r\\nbye'; exit 33", LONG);
        assert_eq!((record.ending.clone(), record.result.as_deref()), (Ending::Done, Some("{\"a\":1}")));
        assert_eq!(record.failed, None);
        assert!(record.boot.unwrap() <= record.wall && record.since_user().is_some());
        // The first failure counts.
        let record =
            run("echo USER; echo 'FAILED stale read: here'; echo 'FAILED panic: then'; exit 35", LONG);
        assert_eq!((record.ending, record.result), (Ending::Broken, None));
        assert_eq!(record.failed.as_deref(), Some("stale read: here"));
    }

    #[test]
    fn only_text_is_passed_on() {
        let script = Script::new("printf 'a\\033[31m\\000b\\tc\\r\\n'");
        let mut said = Vec::new();
        watch(&mut Command::new(script.path()), LONG, &|| false, &mut |line| said.push(line.to_owned()))
            .unwrap();
        assert_eq!(said, ["a\u{fffd}[31m\u{fffd}b\tc"]);
    }

    #[test]
    fn a_run_that_never_ends_is_ended() {
        let record = run("exec tail -f /dev/null", Limits { silence: 600, whole: 0 });
        assert_eq!(record.ending, Ending::NoBoot(0));
        let mut qemu = Command::new("tail");
        let record = watch(qemu.args(["-f", "/dev/null"]), LONG, &|| true, &mut |_| ()).unwrap();
        assert_eq!(record.ending, Ending::Stopped);
        // A run that never stops printing.
        let record = run("while :; do echo on and on; done", Limits { silence: 600, whole: 1 });
        assert_eq!(record.ending, Ending::NoBoot(1));
    }

    fn moment(elapsed: u64, worked: Option<u64>) -> Moment {
        (Duration::from_secs(elapsed), worked.map(Duration::from_secs))
    }

    /// The ending at a moment of a run with these lines, each after so many seconds, and after so many of processor time.
    fn ending(lines: &[(&str, u64, u64)], elapsed: u64, worked: Option<u64>) -> Option<Ending> {
        let mut record = Record::new();
        for &(line, elapsed, worked) in lines {
            record.hear(line, moment(elapsed, Some(worked)), &mut |_| ());
        }
        record.overdue(moment(elapsed, worked), Limits { silence: 30, whole: 100 })
    }

    #[test]
    fn a_slow_host_makes_no_hang() {
        // The emulator gets a hundredth of a processor, and its CPUs take a tick now and then.
        let slow = [("USER", 40, 1), ("BEAT", 99, 2)];
        assert_eq!(ending(&slow, 99, Some(3)), None);
        // It gets none at all.
        assert_eq!(ending(&slow, 99, Some(2)), None);
        assert_eq!(ending(&slow, 100, Some(2)), Some(Ending::Timeout(100)));
        assert_eq!(ending(&[], 100, Some(2)), Some(Ending::NoBoot(100)));
        // Where the host tells no processor time, the clock alone ends a run.
        assert_eq!(ending(&[("USER", 1, 1)], 99, None), None);
        assert_eq!(ending(&[("USER", 1, 1)], 100, None), Some(Ending::Timeout(100)));
    }

    #[test]
    fn an_emulator_that_works_without_a_sign_of_life_has_hung() {
        let mut lines = vec![("USER", 1, 1), ("BEAT", 2, 5)];
        assert_eq!(ending(&lines, 17, Some(34)), None);
        assert_eq!(ending(&lines, 17, Some(35)), Some(Ending::Silent(30)));
        // Any line is a sign of life, also that of a program.
        lines.push(("hello", 17, 34));
        assert_eq!(ending(&lines, 32, Some(63)), None);
        // Before the first sign too.
        assert_eq!(ending(&[], 15, Some(30)), Some(Ending::Silent(30)));
    }

    #[test]
    fn beats_are_not_shown_and_all_that_lacks_is_kept() {
        let mut said = Vec::new();
        let mut record = Record::new();
        for line in ["USER", "BEAT", "INCONCLUSIVE stale/a", "INCONCLUSIVE stale/b", "RESULT {}"] {
            record.hear(line, Moment::default(), &mut |line| said.push(line.to_owned()));
        }
        assert_eq!(said, ["INCONCLUSIVE stale/a", "INCONCLUSIVE stale/b", "RESULT {}"]);
        assert_eq!(record.lacks, ["stale/a", "stale/b"]);
        assert_eq!(record.result.as_deref(), Some("{}"));
    }

    #[test]
    fn an_emulator_that_dies_is_reported() {
        let record = run("echo 'no such option' >&2; exit 1", LONG);
        assert_eq!(record.ending.words(), "QEMU ended by itself: exit status: 1");
        assert_eq!((record.boot, record.since_user()), (None, None));
        assert!(run("kill -9 $$", LONG).ending.words().contains("signal: 9"));
        // It closes the serial port, and ends later or not at all.
        let record =
            run("exec >/dev/null; i=0; while [ $i -lt 50000 ]; do i=$((i + 1)); done; exit 35", LONG);
        assert_eq!(record.ending, Ending::Broken);
        let record = run("exec tail -f /dev/null >/dev/null 2>&1", Limits { whole: 1, ..LONG });
        assert_eq!(record.ending, Ending::NoBoot(1));
    }

    #[test]
    fn a_program_that_cannot_be_run_is_named() {
        let mut missing = Command::new("no-such-program-anywhere");
        let failure = watch(&mut missing, LONG, &|| false, &mut |_| ()).unwrap_err();
        assert!(failure.to_string().contains("no-such-program-anywhere"), "{failure}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn time_is_counted_while_a_process_works() {
        let used = || processor_time("self", Of::Itself).expect("a process may see its own time");
        let before = used();
        while used() == before {
            std::hint::spin_loop();
        }
        assert!(used() > before);
        assert_eq!(processor_time("no-process", Of::Itself), None);
    }
}
