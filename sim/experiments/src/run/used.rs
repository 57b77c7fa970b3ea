//! The parameters of a machine that can have influenced a run.
//!
//! A parameter counts as used unless a count of the whole run shows that its event never happened. A mark on a parameter
//! that no count covers therefore always counts, so no figure is called a prediction by mistake. The alternative, to
//! record in the simulator each cost that is charged, would add a store to the path of every access and give the same
//! labels: every run uses almost all other costs.

use ceasefire_machine::config::Parameter;
use ceasefire_machine::Reading;

/// A key, and the count of the event without which the parameter is not used.
type Event = (&'static str, fn(&Reading) -> u64);

const EVENTS: [Event; 6] = [
    ("costs.broadcast_send", |run| run.counters.broadcasts),
    ("costs.broadcast_wait", |run| run.counters.broadcasts),
    ("processor.broadcast_pages", |run| run.counters.broadcasts),
    ("processor.broadcast_interval", |run| run.counters.broadcasts),
    // A request needs a flush that interrupts.
    ("contention.enqueue", |run| run.counters.shootdowns),
    ("contention.request", |run| run.counters.shootdowns),
];

/// Whether the run with these counts, from its start to its end, can have used the parameter.
pub(super) fn is_used(parameter: &Parameter, run: &Reading) -> bool {
    EVENTS.iter().all(|(key, count)| parameter.key != *key || count(run) > 0)
}

#[cfg(test)]
mod tests {
    use ceasefire_machine::config::builtin;

    use super::*;

    /// The keys that a run with so many shootdowns and broadcasts does not use.
    fn unused(shootdowns: u64, broadcasts: u64) -> Vec<String> {
        let mut run = Reading::default();
        (run.counters.shootdowns, run.counters.broadcasts) = (shootdowns, broadcasts);
        let machine = builtin("milan-72").expect("a listed name").expect("a valid file");
        let parameters = machine.sources.into_iter().filter(|parameter| !is_used(parameter, &run));
        parameters.map(|parameter| parameter.key).collect()
    }

    #[test]
    fn a_parameter_is_unused_only_if_its_event_never_happened() {
        let broadcast = [
            "costs.broadcast_send",
            "costs.broadcast_wait",
            "processor.broadcast_interval",
            "processor.broadcast_pages",
        ];
        assert_eq!(unused(1, 1), [""; 0]);
        assert_eq!(unused(0, 1), ["contention.enqueue", "contention.request"]);
        let mut found = unused(1, 0);
        found.sort_unstable();
        assert_eq!(found, broadcast);
    }
}
