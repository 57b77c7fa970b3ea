//! The note on a machine that no paper measured.

use ceasefire_machine::config::{Machine, Parameter};

/// A note for a machine that does not come with the program: nothing published stands beside its results, and many of
/// its numbers may be assumptions.
pub(crate) fn of_own_machine(machine: &Machine) -> Option<String> {
    if machine.built_in().is_some() {
        return None;
    }
    let all = machine.sources.len();
    let assumed = machine.sources.iter().filter(|parameter| Parameter::is_assumed(parameter)).count();
    let assumptions = if assumed == 0 {
        format!("{all} parameters")
    } else {
        format!("{assumed} of its {all} parameters are assumed, not measured")
    };
    Some(format!(
        "No paper measured this machine ({}, {assumptions}), so no published figure stands beside these.",
        &machine.hash()[..12]
    ))
}

#[cfg(test)]
mod tests {
    use ceasefire_machine::config::builtin;

    use super::*;

    #[test]
    fn assumptions_are_called_so() {
        let host = Machine::host().expect("a computer with Linux");
        assert!(of_own_machine(&host).is_some_and(|note| note.contains("are assumed, not measured")));
    }

    #[test]
    fn only_a_machine_with_other_content_has_a_note() {
        let machine = builtin("1-socket").expect("a listed name").expect("a valid file");
        assert_eq!(of_own_machine(&machine), None);
        let note = of_own_machine(&machine.with_cpus(2).expect("allowed"));
        assert!(note.is_some_and(|note| note.starts_with("No paper measured this machine (")));
    }
}
