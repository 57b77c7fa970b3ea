//! The parts of the model that a machine can go without. So a result shows what each of them adds.

use std::fmt;

use serde::Serializer;

use super::contention::Contention;
use super::machine::Machine;

/// An effect of the hardware or the kernel that makes work or a shootdown dearer under load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Lines that move more than once where CPUs contend (`[contention]`).
    Contention,
    /// Cores whose two threads slow each other down (`[smt]`).
    Smt,
    /// Idle CPUs that take time to wake up (`[[idle]]`).
    Idle,
    /// Page walks to the memory of another node (`far_walk` of `[[memory]]`).
    FarWalks,
    /// The limited bandwidth of each node's memory (`bandwidth` of `[[memory]]`).
    Bandwidth,
    /// The time that a tick takes (`[timer]`).
    Ticks,
}

impl Effect {
    /// All effects.
    pub const ALL: [Self; 6] =
        [Self::Contention, Self::Smt, Self::Idle, Self::FarWalks, Self::Bandwidth, Self::Ticks];

    /// The name on the command line and in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Contention => "contention",
            Self::Smt => "smt",
            Self::Idle => "idle",
            Self::FarWalks => "far-walks",
            Self::Bandwidth => "bandwidth",
            Self::Ticks => "ticks",
        }
    }

    /// Whether a parameter of the machine belongs to the effect.
    fn owns(self, key: &str) -> bool {
        match self {
            Self::Contention => key.starts_with("contention."),
            Self::Smt => key.starts_with("smt."),
            Self::Idle => key.starts_with("idle["),
            Self::FarWalks => key.starts_with("memory[") && key.ends_with(".far_walk"),
            Self::Bandwidth => key.starts_with("memory[") && key.ends_with(".bandwidth"),
            Self::Ticks => key.starts_with("timer."),
        }
    }
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Serializes the names of effects. The order in which they were left out makes no difference.
pub(super) fn sorted_names<S: Serializer>(effects: &[Effect], serializer: S) -> Result<S::Ok, S::Error> {
    let mut names: Vec<&str> = effects.iter().map(|effect| effect.name()).collect();
    names.sort_unstable();
    serializer.collect_seq(names)
}

impl Machine {
    /// The same machine without some effects. Their parameters are gone too, with their marks.
    #[must_use]
    pub fn without(&self, effects: &[Effect]) -> Self {
        let mut machine = self.clone();
        for &effect in effects {
            if machine.without.contains(&effect) {
                continue;
            }
            match effect {
                Effect::Contention => machine.contention = Contention::default(),
                Effect::Smt => machine.smt = None,
                Effect::Idle => machine.idle.clear(),
                Effect::FarWalks => machine.memory.iter_mut().for_each(|tier| tier.far_walk = None),
                Effect::Bandwidth => machine.memory.iter_mut().for_each(|tier| tier.page = None),
                Effect::Ticks => machine.tick = 0,
            }
            machine.sources.retain(|parameter| !effect.owns(&parameter.key));
            machine.without.push(effect);
        }
        machine
    }
}

#[cfg(test)]
mod tests {
    use super::super::builtin::{builtin, BUILTIN};
    use super::*;

    fn machines() -> impl Iterator<Item = Machine> {
        BUILTIN.iter().map(|name| builtin(name).expect("a listed name").expect("a valid file"))
    }

    #[test]
    fn a_machine_without_an_effect_has_none_of_its_parameters() {
        for effect in Effect::ALL {
            let mut had = 0;
            for machine in machines() {
                let bare = machine.without(&[effect, effect]);
                assert_eq!(bare.without, [effect]);
                assert!(bare.sources.iter().all(|parameter| !effect.owns(&parameter.key)));
                had += machine.sources.len() - bare.sources.len();
                let rest = Machine { sources: machine.sources.clone(), without: Vec::new(), ..bare };
                assert_eq!(
                    rest == machine,
                    rest.sources.iter().all(|one| !effect.owns(&one.key)),
                    "{effect}"
                );
            }
            assert!(had > 0, "no machine has {effect}");
        }
    }

    #[test]
    fn without_all_effects_a_machine_is_as_simple_as_one_that_states_none() {
        for machine in machines() {
            let bare = machine.without(&Effect::ALL);
            assert_eq!((bare.contention, bare.smt, bare.tick), (Contention::default(), None, 0));
            assert!(bare.idle.is_empty());
            assert!(bare.memory.iter().all(|tier| tier.far_walk.is_none() && tier.page.is_none()));
        }
    }
}
