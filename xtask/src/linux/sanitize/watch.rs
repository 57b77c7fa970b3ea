//! A guest under the plugin, until its first find.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use ceasefire_sanitizer::find::Kind;

use crate::failure::{self, At as _, Failure};
use crate::linux::guest::{must_boot_again, BEGINS, BOOTS};
use crate::sanitize::report;

/// The first find of a boot.
#[derive(Debug)]
pub(super) struct First {
    pub(super) kind: Kind,
    /// The seconds since the loads began.
    pub(super) seconds: f64,
}

/// The time between two looks at the report.
const POLL: Duration = Duration::from_millis(100);

/// Runs a guest until its loads end or the plugin finds something. Returns the first find.
pub(super) fn watch(qemu: &mut Command, path: &Path) -> Result<Option<First>, Failure> {
    let mut text = String::new();
    for _ in 0..BOOTS {
        let found = once(qemu, path, &mut text)?;
        if found.is_some() || text.lines().any(is_good_end) {
            return Ok(found);
        }
        if !must_boot_again(&text) {
            break;
        }
    }
    let last = failure::last_lines(&text, 40);
    Err(Failure::new(format!("the loads did not end; the guest's last lines:\n{last}")))
}

/// The same, once. `text` is what the guest has printed.
fn once(qemu: &mut Command, path: &Path, text: &mut String) -> Result<Option<First>, Failure> {
    let begun = Instant::now();
    let mut child = qemu.stdout(Stdio::piped()).spawn().at(qemu.get_program())?;
    let (sender, lines) = mpsc::channel();
    let output = child.stdout.take().map(BufReader::new);
    let reader = thread::spawn(move || {
        for line in output.into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
            // The guest is of no more interest after a find.
            let _ = sender.send(line);
        }
    });
    let elapsed = || begun.elapsed().as_secs_f64();
    let first = || report::read(path).finds.first().map(|find| (find.kind, elapsed()));
    let (mut loads, mut found) = (0.0, None);
    text.clear();
    while found.is_none() {
        match lines.recv_timeout(POLL) {
            Ok(line) => {
                // Firmware has not ended its last line.
                if line.contains(BEGINS) {
                    loads = elapsed();
                }
                text.push_str(&line);
                text.push('\n');
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        found = first();
    }
    // It has ended by itself unless there was a find.
    let _ = child.kill();
    child.wait().at(qemu.get_program())?;
    let _ = reader.join();
    let found = found.or_else(first);
    Ok(found.map(|(kind, time)| First { kind, seconds: time - loads }))
}

/// Whether a line says that the loads have ended well. A program that has itself seen a flush missing ends with 1.
fn is_good_end(line: &str) -> bool {
    ["exit 0", "exit 1"].contains(&line.trim_end())
}
