//! The answer to an unknown name: the nearest known name.

use std::fmt;

use ceasefire_machine::document::suggestion;

/// A name that is not known. Its text suggests the nearest known name, and lists all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownName(String);

impl UnknownName {
    /// A `name` that is not of a known `what`. `others` are suggested, but not listed.
    pub fn new(what: &str, name: &str, known: &[&str], others: &[&str]) -> Self {
        let near = suggestion(name, known.iter().chain(others).copied());
        let end = if near.is_empty() { "." } else { &near };
        Self(format!("no {what} is called '{name}'{end} Known {what}s: {}", known.join(", ")))
    }
}

impl fmt::Display for UnknownName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
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
}
