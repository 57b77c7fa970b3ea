//! Ctrl-C: unfinished files go, and the command ends as a shell expects.

use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, Once, PoisonError};

/// The status with which a shell reports a command that Ctrl-C ended: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Removes this file if the user interrupts the command.
pub(super) fn remove_if_interrupted(path: &Path) {
    static HANDLER: Once = Once::new();
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).push(path.to_owned());
    HANDLER.call_once(|| {
        // Without a handler the command still ends; the file then stays.
        let _ = ctrlc::set_handler(|| {
            for path in UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner).iter() {
                // It may have taken its place already.
                let _ = fs::remove_file(path);
            }
            process::exit(INTERRUPTED);
        });
    });
}
