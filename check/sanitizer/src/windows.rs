//! How long translations could still be used after their entries had lost what they say, by the code that changed these.
//!
//! That is no error: a kernel may flush late on purpose. It is what a late flush costs.

use std::sync::Mutex;

use foldhash::HashMap;

use crate::find::{Place, Window};
use crate::lock;

/// The windows that a report has, longest first.
const REPORTED: usize = 16;

/// The windows, by the instruction that changed the entry.
#[derive(Debug, Default)]
pub(crate) struct Windows(Mutex<HashMap<u64, Window>>);

impl Windows {
    /// A translation is dropped `ns` after an instruction has changed its entry. `given`: its frame was given to somebody
    /// else meanwhile. The place of the change is asked for if no earlier window was as long.
    pub(crate) fn note(&self, instruction: u64, ns: u64, given: bool, changed: impl FnOnce() -> Place) {
        let mut all = lock(&self.0);
        let window = all.entry(instruction).or_default();
        window.count += 1;
        window.sum += ns;
        window.given += u64::from(given);
        if ns >= window.longest {
            window.longest = ns;
            window.changed = Some(changed());
        }
    }

    /// Those with the longest windows.
    pub(crate) fn longest(&self) -> Vec<Window> {
        let mut all: Vec<Window> = lock(&self.0).values().cloned().collect();
        all.sort_by_key(|window| std::cmp::Reverse(window.longest));
        all.truncate(REPORTED);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_of_each_code_is_kept() {
        let windows = Windows::default();
        let place = |time| move || Place { cpu: 1, time, instruction: 7, callers: Vec::new() };
        for (instruction, ns, given) in [(7, 10, false), (7, 30, true), (7, 20, false), (8, 40, false)] {
            windows.note(instruction, ns, given, place(ns));
        }
        let longest = windows.longest();
        assert_eq!(longest.iter().map(|window| window.longest).collect::<Vec<_>>(), [40, 30]);
        let Window { count, sum, given, changed, .. } = &longest[1];
        assert_eq!((*count, *sum, *given, changed.as_ref().map(|place| place.time)), (3, 60, 1, Some(30)));
    }
}
