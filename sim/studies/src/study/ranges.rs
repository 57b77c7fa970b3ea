//! The uncertain numbers of a machine: those that have a range in its file.

use ceasefire_machine::config::{Change, MachineFile, Problem};

use super::axis::{Drawn, Setting};

/// The numbers of a machine that have a range, and their ranges.
#[derive(Debug, Clone)]
pub struct Ranges {
    drawn: Vec<Drawn>,
}

impl Ranges {
    /// Those of a machine file.
    pub fn of(machine: &MachineFile) -> Self {
        let parameters = machine.machine().sources.iter().filter(|parameter| parameter.range.is_some());
        Self { drawn: parameters.filter_map(|one| Drawn::of(one, is_whole(&one.key, machine))).collect() }
    }

    /// The keys, in the order of the file.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.drawn.iter().map(Drawn::key)
    }

    /// The number of keys.
    pub fn len(&self) -> usize {
        self.drawn.len()
    }

    /// Whether no number has a range.
    pub fn is_empty(&self) -> bool {
        self.drawn.is_empty()
    }

    /// The value of a key at a place from 0 to 1 of its range.
    pub(crate) fn value(&self, key: &str, at: f64) -> Option<Setting> {
        self.drawn.iter().find(|drawn| drawn.key() == key).map(|drawn| drawn.value(at))
    }

    /// All numbers, each at a place from 0 to 1 of its range, in the order of [`keys`](Self::keys).
    pub fn changes(&self, at: &[f64]) -> Vec<Change> {
        let settings = self.drawn.iter().zip(at).map(|(drawn, at)| drawn.value(*at));
        settings.filter_map(|Setting { key, value }| Change::of(&key, &value)).collect()
    }
}

/// Whether a number of a machine is a count: half of one is refused.
pub(crate) fn is_whole(key: &str, machine: &MachineFile) -> bool {
    let Ok(parameter) = machine.parameter(key) else { return false };
    let half = Change { key: key.to_owned(), value: parameter.value.floor() + 0.5, unit: None };
    let refused = machine.clone().set(&half).err().map(|error| error.problem);
    matches!(refused, Some(Problem::WrongType { expected: "a whole number", .. }))
}

#[cfg(test)]
mod tests {
    use ceasefire_machine::config::BUILTIN;

    use super::*;
    use crate::draws::{Draws, Places};

    #[test]
    fn every_draw_of_every_machine_is_a_machine_within_its_ranges() {
        for name in BUILTIN {
            let file = MachineFile::builtin(name).expect("a listed name").expect("a valid file");
            let ranges = Ranges::of(&file);
            assert!(ranges.len() > 20, "{name}: {} ranges", ranges.len());
            let ends = [vec![0.0; ranges.len()], vec![1.0; ranges.len()]].map(|at| ranges.changes(&at));
            let places = Places::new(Draws::Independent(32), ranges.len(), 1);
            for draw in 0..32 {
                let mut drawn = file.clone();
                drawn.set_all(&ranges.changes(&places.of(draw))).unwrap_or_else(|error| panic!("{error}"));
                assert_ne!(drawn.machine().hash(), file.machine().hash(), "{name}");
                for (least, most) in ends[0].iter().zip(&ends[1]) {
                    let value = drawn.parameter(&least.key).expect("a known key").value;
                    assert!((least.value..=most.value).contains(&value), "{name} {} {value}", least.key);
                }
            }
        }
    }

    #[test]
    fn a_number_without_a_range_is_not_drawn() {
        let file = MachineFile::builtin("1-socket").expect("a listed name").expect("a valid file");
        let ranges = Ranges::of(&file);
        let keys: Vec<&str> = ranges.keys().collect();
        assert!(keys.contains(&"costs.fault"));
        assert!(!keys.contains(&"costs.access"), "it was fitted");
    }
}
