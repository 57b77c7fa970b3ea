//! The states in which a CPU without a thread sleeps, and the time that it takes to wake up.

use serde::Serialize;

use super::quantity::{Parameter, Picoseconds, TIME};
use super::{MachineError, Problem};
use crate::document::Entry;

/// A state of an idle CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct IdleState {
    /// The shortest idle time for which the kernel chooses this state (Linux: `target_residency`). The choice is made
    /// when the CPU goes idle, from a prediction of that time. The model takes the prediction to be right.
    pub residency: Picoseconds,
    /// The time from the interrupt that wakes the CPU to its first instruction (Linux: `exit_latency`).
    pub exit: Picoseconds,
}

impl IdleState {
    /// Reads the list `idle`, from the shallowest state to the deepest, and adds its numbers to `sources`.
    pub(super) fn read_all(
        entry: Entry<'_>,
        sources: &mut Vec<Parameter>,
    ) -> Result<Vec<Self>, MachineError> {
        let mut states: Vec<Self> = Vec::new();
        for item in entry.items()? {
            let place = item.place().clone();
            let mut section = item.section()?;
            let residency = TIME.read(section.take("residency")?, sources)?;
            let exit = TIME.read(section.take("exit")?, sources)?;
            section.finish()?;
            let deeper = |last: &Self| residency > last.residency && exit >= last.exit;
            if !states.last().is_none_or(deeper) {
                let value = format!("residency {residency} ps, exit {exit} ps");
                return Err(place.error(Problem::invalid(value, "a deeper state than the one before")));
            }
            states.push(Self { residency, exit });
        }
        Ok(states)
    }

    /// The time that a CPU takes to wake up which was idle for `time`. It was in the deepest of the `states` that pay
    /// for such a time.
    pub fn exit_after(states: &[Self], time: Picoseconds) -> Picoseconds {
        states.iter().rev().find(|state| state.residency <= time).map_or(0, |state| state.exit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    fn read(states: &[(u32, u32)]) -> Result<(Vec<IdleState>, Vec<Parameter>), String> {
        let time = |value| format!("{{ value = {value}, unit = 'us', source = 's' }}");
        let state = |&(residency, exit)| {
            format!("[[idle]]\nresidency = {}\nexit = {}\n", time(residency), time(exit))
        };
        let text: String = states.iter().map(state).collect();
        let mut sources = Vec::new();
        let states =
            parse("f", &text).and_then(|mut root| IdleState::read_all(root.take("idle")?, &mut sources));
        states.map(|states| (states, sources)).map_err(|error| error.to_string())
    }

    #[test]
    fn a_cpu_wakes_from_the_deepest_state_that_paid() {
        let (states, sources) = read(&[(2, 1), (20, 10), (600, 133)]).expect("valid");
        let keys: Vec<_> = sources.iter().map(|parameter| parameter.key.as_str()).collect();
        assert_eq!(keys[..3], ["idle[0].residency", "idle[0].exit", "idle[1].residency"]);
        let after = |us: u64| IdleState::exit_after(&states, us * 1_000_000) / 1_000_000;
        assert_eq!([0, 1, 2, 19, 20, 599, 600, 99_999].map(after), [0, 0, 1, 1, 10, 10, 133, 133]);
        assert_eq!(IdleState::exit_after(&[], 1_000_000), 0);
    }

    #[test]
    fn a_state_that_is_no_deeper_than_the_last_is_refused() {
        for states in [[(2, 1), (2, 5)], [(2, 3), (20, 1)]] {
            let error = read(&states).expect_err("must be refused");
            assert!(error.starts_with("f:4: idle[1]: residency "), "{error}");
            assert!(error.ends_with("must be a deeper state than the one before"), "{error}");
        }
    }
}
