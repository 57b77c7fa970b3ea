//! Requests by cause over time.

use std::collections::BTreeMap;

use crate::recording::Facts;
use crate::shootdowns::{Cause, Shootdown};

/// The requests of each cause, in steps of the time of a recording.
#[derive(Debug, Clone, Default)]
pub struct Timeline {
    facts: Facts,
    causes: BTreeMap<Cause, Vec<u64>>,
}

impl Timeline {
    /// The number of steps.
    pub const STEPS: usize = 100;

    /// An empty one for a recording.
    pub fn new(facts: Facts) -> Self {
        Self { facts, causes: BTreeMap::new() }
    }

    /// Adds the requests of a shootdown at the time of its flush.
    pub fn add(&mut self, shootdown: &Shootdown) {
        let steps = self.causes.entry(shootdown.cause).or_insert_with(|| vec![0; Self::STEPS]);
        steps[self.facts.part(shootdown.began_ns, Self::STEPS)] += shootdown.requests.len() as u64;
    }

    /// The length of a step, in seconds.
    pub fn step_s(&self) -> f64 {
        self.facts.seconds() / Self::STEPS as f64
    }

    /// The causes with their requests in each step.
    pub fn causes(&self) -> impl Iterator<Item = (Cause, &[u64])> {
        self.causes.iter().map(|(cause, steps)| (*cause, steps.as_slice()))
    }
}
