//! Makes a failing script small.

use crate::operation::{Operation, Step};
use crate::script::Script;

/// The greatest number of runs for this.
const RUNS: usize = 3000;

/// The smallest script found that still fails, and its failure. Any failure counts.
pub(crate) fn shrink(
    script: &Script,
    failure: String,
    fails: impl Fn(&Script) -> Option<String>,
) -> (Script, String) {
    let mut best = Shrinking { script: script.clone(), failure, left: RUNS, fails };
    while best.drop_steps() | best.make_smaller() {}
    (best.script, best.failure)
}

struct Shrinking<F> {
    script: Script,
    failure: String,
    left: usize,
    fails: F,
}

impl<F: Fn(&Script) -> Option<String>> Shrinking<F> {
    /// Keeps a script if it fails too.
    fn try_script(&mut self, script: Script) -> bool {
        let Some(left) = self.left.checked_sub(1) else { return false };
        self.left = left;
        let Some(failure) = (self.fails)(&script) else { return false };
        (self.script, self.failure) = (script, failure);
        true
    }

    /// Removes pieces, half of the script first and single steps last. Returns whether any could be removed.
    fn drop_steps(&mut self) -> bool {
        let before = self.script.steps.len();
        let mut size = before.div_ceil(2);
        while size > 0 {
            let mut at = self.script.steps.len();
            while at > 0 {
                let start = at.saturating_sub(size);
                let mut shorter = self.script.clone();
                shorter.steps.drain(start..at);
                self.try_script(shorter);
                at = start.min(self.script.steps.len());
            }
            size /= 2;
        }
        self.script.steps.len() < before
    }

    /// Makes numbers smaller. Returns whether any could be.
    fn make_smaller(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.script.steps.len() {
            let step = self.script.steps[at];
            for simpler in simpler(&step) {
                let mut script = self.script.clone();
                script.steps[at] = simpler;
                if self.try_script(script) {
                    any = true;
                    break;
                }
            }
        }
        any
    }
}

/// The step with one of its numbers made smaller.
fn simpler(step: &Step) -> Vec<Step> {
    let mut all = Vec::new();
    if step.pause > 0 {
        all.push(Step { pause: 0, ..*step });
    }
    for (which, _) in step.operation.numbers().iter().filter(|(_, number)| *number > 0) {
        for divisor in [u32::MAX, 2] {
            let mut numbers = step.operation.numbers().into_iter();
            let smaller = |name: &'static str| {
                let number = numbers.next().map_or(0, |(_, number)| number);
                Ok(if name == *which { number / divisor } else { number })
            };
            if let Ok(operation) = Operation::new(step.operation.verb(), smaller) {
                all.push(Step { operation, ..*step });
            }
        }
    }
    all
}
