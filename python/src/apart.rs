//! Work on a thread of its own, while this one sees signals.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

/// The longest time until a signal such as Ctrl-C is seen.
const SIGNALS: Duration = Duration::from_millis(50);

/// Does work without the interpreter's lock, and calls `meanwhile` now and then, and once after it. The work ends soon
/// once its flag is set: after a signal, or an error of `meanwhile`, which is then the result.
///
/// The work is on a thread of its own, so that no code of Python ever runs on the stacks of simulated threads.
pub(crate) fn apart<T: Send>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> T + Send,
    mut meanwhile: impl FnMut() -> PyResult<()>,
) -> PyResult<T> {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let (sender, mut ended) = channel::<()>();
        let stop = &stop;
        let thread = thread::Builder::new().spawn_scoped(scope, move || {
            // It goes when the work has ended, also if that panics.
            let _sender = sender;
            work(stop)
        })?;
        let mut seen = Ok(());
        while seen.is_ok() {
            let ended = &mut ended;
            let waited = py.detach(move || ended.recv_timeout(SIGNALS));
            seen = py.check_signals().and_then(|()| meanwhile());
            if waited == Err(RecvTimeoutError::Disconnected) {
                break;
            }
        }
        if seen.is_err() {
            // The flag orders nothing else, so relaxed accesses do.
            stop.store(true, Ordering::Relaxed);
        }
        let result = py.detach(|| thread.join()).unwrap_or_else(|panic| resume_unwind(panic));
        seen.map(|()| result)
    })
}
