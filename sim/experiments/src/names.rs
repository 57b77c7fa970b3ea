//! Names of values, and the answer to an unknown name: the nearest known name.

use std::fmt;

use ceasefire::Payment;
use ceasefire_machine::document::suggestion;
use ceasefire_memory::LruDrain;

/// The values of `settle` by their names.
pub const PAYMENTS: [(&str, Payment); 2] =
    [(payment_name(Payment::Free), Payment::Free), (payment_name(Payment::Demand), Payment::Demand)];

/// The values of `lru_drain` by their names.
pub const LRU_DRAINS: [(&str, LruDrain); 2] =
    [(drain_name(LruDrain::Eager), LruDrain::Eager), (drain_name(LruDrain::Batched), LruDrain::Batched)];

/// The name of a value of `settle` on the command line and in JSON.
pub(crate) const fn payment_name(payment: Payment) -> &'static str {
    match payment {
        Payment::Free => "free",
        Payment::Demand => "demand",
    }
}

/// The name of a value of `lru_drain` on the command line and in JSON.
pub(crate) const fn drain_name(drain: LruDrain) -> &'static str {
    match drain {
        LruDrain::Eager => "eager",
        LruDrain::Batched => "batched",
    }
}

/// The value with a name, of a known `what`.
///
/// # Errors
/// No value is called so.
pub fn named<T: Copy>(what: &str, name: &str, known: &[(&str, T)]) -> Result<T, UnknownName> {
    let found = known.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
    let names = || known.iter().map(|(name, _)| *name).collect::<Vec<_>>();
    found.ok_or_else(|| UnknownName::new(what, name, &names(), &[]))
}

/// The known names that a message lists. A terminal shows so many in a few lines.
const LISTED: usize = 40;

/// A name that is not known. Its text suggests the nearest known name, and lists up to 40 of those that are known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName {
    text: String,
    nearest: String,
}

impl UnknownName {
    /// A `name` that is not of a known `what`. `others` are suggested, but not listed.
    pub fn new(what: &str, name: &str, known: &[&str], others: &[&str]) -> Self {
        let near = suggestion(name, known.iter().chain(others).copied());
        let nearest = if near.is_empty() { ".".to_owned() } else { near };
        let (listed, more) = known.split_at(known.len().min(LISTED));
        let more = if more.is_empty() { String::new() } else { format!(", and {} more", more.len()) };
        let text =
            format!("no {what} is called '{name}'{nearest} Known {what}s: {}{more}", listed.join(", "));
        Self { text, nearest }
    }

    /// The end of a sentence about the name: `; did you mean 'NEAREST'?`, or a full stop if no known name is near.
    pub fn nearest(&self) -> &str {
        &self.nearest
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for UnknownName {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_near() {
        let message =
            |name| UnknownName::new("machine", name, &["1-socket", "small-vm"], &["list"]).to_string();
        assert_eq!(
            message("1-soket"),
            "no machine is called '1-soket'; did you mean '1-socket'? Known machines: 1-socket, small-vm"
        );
        assert!(message("lits").contains("did you mean 'list'?"));
        assert!(message("quantum-computer").contains("called 'quantum-computer'. Known"));
    }

    #[test]
    fn of_many_names_the_first_are_listed() {
        let known: Vec<String> = (0..LISTED + 2).map(|number| format!("c{number}")).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let message = UnknownName::new("thing", "other", &known, &[]).to_string();
        assert!(message.ends_with("c38, c39, and 2 more"), "{message}");
    }
}
