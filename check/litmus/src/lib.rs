//! Litmus tests of the flush paths, for Arm's own model of virtual memory.
//!
//! A litmus test is a few instructions on each of two or three CPUs, and an outcome. Arm publishes a machine-readable
//! model of its architecture (`aarch64.cat`), and the program herd7 says by it whether any execution has the outcome.
//! The tests here are the flush paths of the engine and of the kernel's port to 64-bit Arm. Each outcome breaks a rule:
//! a frame is read after its reuse, or an access succeeds after the call that forbids it has returned.
//!
//! - `port` reads the instructions from the kernel's sources, `line` gives each weaker forms in turn.
//! - `scene` has what a flush makes safe, `paths` the flush paths in their scenes, and `written` writes them for herd.
//! - The verdict of each test follows from one rule: as written never, with any instruction weaker sometimes. It has
//!   the `exceptions` of one table.
//! - `unmodelled` lists the barriers and the properties that no test can have.

mod exceptions;
mod line;
mod paths;
mod port;
mod scene;
mod unmodelled;
mod written;

use std::fmt::Write as _;

pub use port::Unread;
pub use unmodelled::{BARRIERS, PROPERTIES};

use exceptions::Why;
use line::weaker;
use written::{Model, Written};

/// Whether an execution has the outcome of a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No execution has it.
    Never,
    /// At least one has it.
    Sometimes,
}

/// How herd judges a test.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Judge {
    /// By the model as it comes.
    AsItIs,
    /// By the model in which DSB NSH is a barrier of its CPU, as in Arm's since January 2026.
    NonShareable,
    /// By the model of instruction fetches.
    Fetches,
}

/// A test.
#[derive(Debug, Clone)]
pub struct Test {
    /// Its name: that of the sequence, and the changes.
    pub name: String,
    /// The name of the sequence as it is written.
    pub sequence: String,
    /// Its text for herd.
    pub text: String,
    /// The place of the instruction that is weaker, such as `broadcast_wait: DSB ISH`; none as it is written.
    pub place: Option<String>,
    /// How herd judges it.
    pub judge: Judge,
    /// The verdict that the rule and its exceptions say.
    pub expected: Verdict,
    /// Why a weaker instruction suffices.
    pub reason: Option<String>,
    /// The promise of the adversary's machine that the sequence keeps.
    pub promise: &'static str,
}

impl Test {
    /// Whether the test is one of those that every change can wait for: without a third CPU that changes the entry, and
    /// of the forms of TLBI only that for a page.
    pub fn is_short(&self) -> bool {
        let path = self.sequence.split('.').next().unwrap_or_default();
        let form = path.split_once('-').map_or("", |(_, form)| form);
        let is_another = form.contains("E1") && !form.starts_with("VAE1");
        let by_a_third = self.sequence.rsplit('.').next() == Some("other");
        !is_another && !by_a_third
    }
}

/// All tests.
///
/// # Errors
/// [`Unread`] if the kernel's sources have changed so that a test cannot be made.
pub fn tests() -> Result<Vec<Test>, Unread> {
    Ok(paths::written()?.iter().flat_map(of_sequence).collect())
}

/// A change of a sequence: the process, the number of the instruction, and its weaker form.
type Change = (usize, usize, Option<String>);

/// The tests of a sequence: as it is written, with each instruction weaker in turn, and with two weaker where one covers
/// the other.
fn of_sequence(written: &Written) -> Vec<Test> {
    let reaches_far = written.has("DSB NSH");
    let judge = match written.model {
        Model::Fetches => Judge::Fetches,
        Model::VirtualMemory if reaches_far => Judge::NonShareable,
        Model::VirtualMemory => Judge::AsItIs,
    };
    let mut tests = vec![test(written, &[], judge, Verdict::Never, None)];
    if reaches_far {
        // The model as it comes takes DSB NSH for no barrier.
        let (expected, reason) = match written.name.as_str() {
            "root.recycled-asid" => {
                (Verdict::Never, Some("the DSB ISH of the two loads of a root stand around the invalidation"))
            }
            _ => (Verdict::Sometimes, None),
        };
        let mut packaged = test(written, &[], Judge::AsItIs, expected, reason.map(str::to_owned));
        packaged.name += "+model-as-it-is";
        packaged.text = written.text(&packaged.name);
        tests.push(packaged);
    }
    for (process, at, place) in written.places() {
        for form in weaker(&written.processes[process][at].text) {
            // In that model it would be as strong.
            if judge == Judge::NonShareable && form.as_deref() == Some("DSB NSH") {
                continue;
            }
            let name = form.clone().unwrap_or_else(|| "removed".to_owned());
            let change: Change = (process, at, form);
            let Some(exception) = exceptions::of(&written.name, place, &name) else {
                tests.push(test(written, &[change], judge, Verdict::Sometimes, None));
                continue;
            };
            let reason = match exception.why {
                Why::Free(reason) => reason.to_owned(),
                Why::Covered(by) => format!("covered by `{by}`"),
            };
            tests.push(test(written, std::slice::from_ref(&change), judge, Verdict::Never, Some(reason)));
            if let Why::Covered(by) = exception.why {
                let covering = written.places().find(|(_, _, place)| *place == by);
                let (process, at, _) = covering.unwrap_or_else(|| panic!("{} has no `{by}`", written.name));
                let weakest = weaker(&written.processes[process][at].text).swap_remove(0);
                tests.push(test(written, &[change, (process, at, weakest)], judge, Verdict::Sometimes, None));
            }
        }
    }
    tests
}

/// A sequence with some changes.
fn test(
    written: &Written,
    changes: &[Change],
    judge: Judge,
    expected: Verdict,
    reason: Option<String>,
) -> Test {
    let mut name = written.name.clone();
    for (process, at, form) in changes {
        let line = &written.processes[*process][*at];
        let form = form.as_deref().unwrap_or("removed").split([',', '[']).next().unwrap_or_default();
        let _ = write!(name, "+{}-{form}", line.place.as_deref().unwrap_or_default());
    }
    let name = name.replace(": ", ".").replace("::", ".").replace(' ', ".");
    let place = changes.first().and_then(|(process, at, _)| written.processes[*process][*at].place.clone());
    let text = written.with(changes).text(&name);
    let sequence = written.name.clone();
    Test { name, sequence, text, place, judge, expected, reason, promise: written.promise }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::exceptions::EXCEPTIONS;

    fn all() -> Vec<Test> {
        tests().unwrap()
    }

    #[test]
    fn there_are_many_tests_and_each_has_a_name_of_its_own() {
        let tests = all();
        let names: BTreeSet<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        assert_eq!(names.len(), tests.len());
        assert!(tests.len() >= 1000, "{}", tests.len());
    }

    /// An outcome that no execution can have would prove nothing.
    #[test]
    fn every_sequence_has_its_outcome_in_some_weaker_form() {
        let tests = all();
        for written in tests.iter().filter(|test| test.name == test.sequence) {
            let mut weaker =
                tests.iter().filter(|test| test.sequence == written.name && test.place.is_some());
            assert!(weaker.any(|test| test.expected == Verdict::Sometimes), "{}", written.name);
        }
    }

    #[test]
    fn every_exception_is_of_a_test() {
        let mut used = BTreeSet::new();
        for written in paths::written().unwrap() {
            for (process, at, place) in written.places() {
                for form in weaker(&written.processes[process][at].text) {
                    let form = form.unwrap_or_else(|| "removed".to_owned());
                    if let Some(exception) = exceptions::of(&written.name, place, &form) {
                        used.insert(std::ptr::from_ref(exception));
                    }
                }
            }
        }
        for exception in EXCEPTIONS {
            assert!(used.contains(&std::ptr::from_ref(exception)), "no test has {exception:?}");
        }
    }

    #[test]
    fn every_promise_is_one_of_the_adversarys() {
        let promises = include_str!("../../adversary/src/model/promise.rs");
        for test in all() {
            assert!(promises.contains(&format!("    {},\n", test.promise)), "{}", test.promise);
        }
    }

    #[test]
    fn a_barrier_is_removed_from_its_process_alone() {
        let tests = all();
        let text = |name: &str| &tests.iter().find(|test| test.name == name).unwrap().text;
        let written = text("broadcast-VAE1IS.reuse.own");
        assert!(written.contains("| LDR W0,[X1] ;\n STR X12,[X11] |  ;\n DSB ISH |  ;\n TLBI VAE1IS,X5 |  ;\n DSB ISH |  ;\n ISB |  ;\n STR W8,[X6] |  ;\n"), "{written}");
        assert!(written
            .contains("\n 0:X5=x; 0:X6=y; 0:X8=2; 0:X11=PTE(x); 0:X12=(oa:PA(x),valid:0);\n 1:X1=x;\n"));
        let without = text("broadcast-VAE1IS.reuse.own+broadcast_wait.DSB.ISH-removed");
        let name = "+broadcast_wait.DSB.ISH-removed";
        assert_eq!(without.replace(name, ""), written.replace(" DSB ISH |  ;\n ISB", " ISB"));
    }
}
