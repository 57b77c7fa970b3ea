//! Calls of libraries that panic on some damaged files: those that read Parquet files and formats of events.

use std::any::Any;
use std::cell::Cell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

thread_local! {
    /// Whether a panic of this thread is an error that is returned.
    static IS_CAUGHT: Cell<bool> = const { Cell::new(false) };
}

/// Silences the messages of panics that are caught here.
static SILENCE: Once = Once::new();

/// Reads a part of a file. The error is the first line of the library's panic: the file is damaged. Nothing that the
/// library had in hand is used again then.
pub(crate) fn guarded<R>(read: impl FnOnce() -> R) -> Result<R, String> {
    SILENCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !IS_CAUGHT.get() {
                report(info);
            }
        }));
    });
    let outer = IS_CAUGHT.replace(true);
    let done = panic::catch_unwind(AssertUnwindSafe(read));
    IS_CAUGHT.set(outer);
    done.map_err(|panic| reason(&*panic).to_owned())
}

/// The first line of a panic's message.
fn reason(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.and_then(|text| text.lines().next()).unwrap_or("it cannot be decoded")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_an_error_of_one_line() {
        let read = |fails: bool| {
            guarded(|| {
                assert!(!fails, "a page\nwithout a dictionary");
                7
            })
        };
        assert_eq!((read(false), read(true)), (Ok(7), Err("a page".to_owned())));
        assert!(!IS_CAUGHT.get());
    }
}
