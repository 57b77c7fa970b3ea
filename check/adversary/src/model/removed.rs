//! The guards, promises and orders that a scenario takes away, so that a rule breaks.

use ceasefire::sabotage::Guard;
use ceasefire_atomics::Ordering;

use super::promise::Promise;
use super::sites::Access;

/// What a scenario takes away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Removed {
    /// A guard of the engine.
    Guard(Guard),
    /// A guard of the memory manager.
    Manager(ceasefire_memory::sabotage::Guard),
    /// A promise of the hardware or of the platform.
    Promise(Promise),
    /// The ordering of an access, down to this one.
    Ordering(Access, Ordering),
    /// The order of two statements, in a copy of the engine: see `swaps`.
    Order(u32),
}

impl Removed {
    /// Its name on the command line.
    pub fn name(self) -> String {
        let name = match self {
            Self::Guard(guard) => format!("{guard:?}"),
            Self::Manager(guard) => format!("{guard:?}"),
            Self::Promise(promise) => format!("{promise:?}"),
            Self::Ordering(Access { site, .. }, to) => return format!("{site}={to:?}"),
            Self::Order(pair) => return format!("pair {pair}"),
        };
        let mut words = String::new();
        for letter in name.chars() {
            if letter.is_uppercase() && !words.is_empty() {
                words.push('-');
            }
            words.extend(letter.to_lowercase());
        }
        words
    }
}
