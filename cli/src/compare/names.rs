//! The answer to an unknown name: the nearest known name.

use ceasefire_machine::document::suggestion;

use crate::failure::Failure;

/// The failure for a `name` that is not of a known `what`. It suggests the nearest of the known names and of `others`,
/// and lists the known ones.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str], others: &[&str]) -> Failure {
    let near = suggestion(name, known.iter().chain(others).copied());
    let end = if near.is_empty() { "." } else { &near };
    Failure::Input(format!("no {what} is called '{name}'{end} Known {what}s: {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_near() {
        let message = |name| match unknown("machine", name, &["1-socket", "small-vm"], &["list"]) {
            Failure::Input(message) => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(
            message("1-soket"),
            "no machine is called '1-soket'; did you mean '1-socket'? Known machines: 1-socket, small-vm"
        );
        assert!(message("lits").contains("did you mean 'list'?"));
        assert!(message("quantum-computer").contains("called 'quantum-computer'. Known"));
    }
}
