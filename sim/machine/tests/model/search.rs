//! Runs many scripts, on a few host threads, and makes the first failing one small.

use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, Once};

use crate::call::Subject;
use crate::generate;
use crate::run::{run, Tally};
use crate::script::Script;
use crate::shrink::shrink;

/// Host threads.
const THREADS: usize = 2;

/// A number that the environment sets.
///
/// # Panics
/// If the value is not a number.
pub(crate) fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text}: a number is expected")))
}

/// A script that fails.
#[derive(Debug)]
pub(crate) struct Found {
    /// Its number among all scripts.
    pub(crate) number: u64,
    pub(crate) failure: String,
}

impl Found {
    /// The smallest failing script found, and its failure.
    pub(crate) fn smallest(&self, subject: impl Fn() -> Rc<dyn Subject>) -> (Script, String) {
        let script = generate::script(self.number);
        shrink(&script, self.failure.clone(), |script| attempt(script, subject()).err())
    }

    /// A message with it.
    pub(crate) fn shrunk(&self, subject: impl Fn() -> Rc<dyn Subject>) -> String {
        let (number, first) = (self.number, &self.failure);
        let (script, failure) = self.smallest(subject);
        format!(
            "program {number} (CEASEFIRE_SEED={number} CEASEFIRE_PROGRAMS=1 runs it again): {first}\n\
             made small: {failure}\n\
             # To replay: a file with these lines in sim/machine/tests/model/programs/, or CEASEFIRE_REPLAY=FILE.\n{script}"
        )
    }
}

/// Runs scripts until one fails. Returns the failing one with the lowest number.
pub(crate) fn search(count: u64, subject: impl Fn() -> Rc<dyn Subject> + Sync) -> (Tally, Option<Found>) {
    let first = number("CEASEFIRE_SEED").unwrap_or(0);
    let next = AtomicU64::new(first);
    let end = AtomicU64::new(first + count);
    let found: Mutex<(Tally, Option<Found>)> = Mutex::default();
    let work = || {
        let mut tally = Tally::default();
        let mut failed = None;
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= end.load(Ordering::Relaxed) {
                break;
            }
            match attempt(&generate::script(number), subject()) {
                Ok(of_run) => tally.add(&of_run),
                Err(failure) => {
                    // Scripts with lower numbers are under way or done.
                    end.fetch_min(number, Ordering::Relaxed);
                    failed = Some(Found { number, failure });
                }
            }
        }
        let mut all = found.lock().expect("no thread panics with the lock held");
        all.0.add(&tally);
        if let Some(failed) = failed {
            if all.1.as_ref().is_none_or(|other| failed.number < other.number) {
                all.1 = Some(failed);
            }
        }
    };
    std::thread::scope(|scope| (0..THREADS).for_each(|_| drop(scope.spawn(work))));
    found.into_inner().expect("no thread panicked with the lock held")
}

thread_local! {
    /// Whether a script runs, whose panics are reported later, and the place of the last panic.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
    static WHERE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Runs a script. A panic counts as a failure like others.
///
/// # Errors
/// The failure.
pub(crate) fn attempt(script: &Script, subject: Rc<dyn Subject>) -> Result<Tally, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if RUNNING.get() {
                WHERE.set(info.location().map(ToString::to_string).unwrap_or_default());
            } else {
                before(info);
            }
        }));
    });
    RUNNING.set(true);
    let result = catch_unwind(AssertUnwindSafe(|| run(script, subject)));
    RUNNING.set(false);
    result.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no text");
        Err(format!("panic at {}: {text}", WHERE.take()))
    })
}
