//! The answer to an unknown name: the nearest known name.

use strsim::levenshtein;

use crate::failure::Failure;

/// The failure for a `name` that is not of a known `what`. It suggests the nearest of the known names and of `others`,
/// and lists the known ones.
pub(crate) fn unknown(what: &str, name: &str, known: &[&str], others: &[&str]) -> Failure {
    let all = known.iter().chain(others);
    let nearest = all.min_by_key(|known| levenshtein(name, known)).copied().unwrap_or_default();
    let near = levenshtein(name, nearest) <= nearest.len() / 2;
    let hint = if near { format!("; did you mean '{nearest}'?") } else { String::from(".") };
    Failure::Input(format!("no {what} is called '{name}'{hint} Known {what}s: {}", known.join(", ")))
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
