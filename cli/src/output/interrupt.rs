//! Ctrl-C: unfinished files go, and the command ends as a shell expects. A command that can end early with a result is
//! asked to do so first.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// The status with which a shell reports a command that Ctrl-C ended: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Whether the user has asked for an early end, of a command that can end early with a result.
static STOPPED: AtomicBool = AtomicBool::new(false);
/// Whether the command can end early with a result.
static STOPS: AtomicBool = AtomicBool::new(false);

/// From now on the first Ctrl-C asks for an early end. A second one ends the command at once. Returns whether it was
/// asked.
pub(crate) fn stops_early() -> impl Fn() -> bool {
    STOPS.store(true, Ordering::Relaxed);
    handle();
    || STOPPED.load(Ordering::Relaxed)
}

/// Removes this file if the user interrupts the command.
pub(super) fn remove_if_interrupted(path: &Path) {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
    handle();
}

/// Handles Ctrl-C from now on, and the signals with which a system ends a program.
fn handle() {
    static HANDLER: Once = Once::new();
    HANDLER.call_once(|| {
        // Without a handler the command still ends; the file then stays.
        let _ = ctrlc::set_handler(|| {
            if STOPS.load(Ordering::Relaxed) && !STOPPED.swap(true, Ordering::Relaxed) {
                return;
            }
            for path in UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                // It may have taken its place already.
                let _ = fs::remove_file(path);
            }
            process::exit(INTERRUPTED);
        });
    });
}
