//! What tests of tracing have in common.

use std::fs;
use std::path::PathBuf;

use ceasefire_linux::tracefs::Tracefs;

/// Whether events can be read. If not, the reason is printed.
pub(crate) fn can_trace() -> bool {
    match Tracefs::find() {
        Ok(_) => true,
        Err(reason) => {
            println!("not tested: {reason}");
            false
        }
    }
}

/// The kernel's buffers that belong to a process.
pub(crate) fn instances_of(process: u32) -> Vec<PathBuf> {
    let mine = format!("ceasefire-{process}-");
    let folders = ["/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances"];
    let all = folders.into_iter().flat_map(fs::read_dir).flatten().flatten();
    all.filter(|entry| entry.file_name().to_string_lossy().starts_with(&mine))
        .map(|entry| entry.path())
        .collect()
}
