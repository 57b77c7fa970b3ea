//! The identity of a machine: its content, not its name.
//!
//! Two machines are the same if every number that a run can depend on is the same. So a copy of a file is the machine
//! that it was copied from, under any name, and a copy with one cost changed is another machine, even under the old
//! name. Published figures belong to the machines that come with the program ([`built_in`](Machine::built_in)), and to
//! no other.

use std::fmt::Write as _;
use std::sync::OnceLock;

use sha2::{Digest, Sha256};

use super::builtin::{builtin, BUILTIN};
use super::effect::Effect;
use super::machine::Machine;

impl Machine {
    /// The SHA-256 of everything that a run can depend on, in 64 hexadecimal digits. The serialized machine has just
    /// that: names, descriptions, sources and ranges are not part of it.
    pub fn hash(&self) -> String {
        // Lists, numbers, flags and names can always be written as JSON.
        sha256(&serde_json::to_vec(self).unwrap_or_default())
    }

    /// The name of the built-in machine with the same content. Effects that were left out of this machine are left out
    /// of the built-in one too.
    pub fn built_in(&self) -> Option<&'static str> {
        static WHOLE: OnceLock<Vec<String>> = OnceLock::new();
        let hashes = |without: &[Effect]| -> Vec<String> {
            let machines = BUILTIN.iter().map(|name| builtin(name).and_then(Result::ok));
            machines
                .map(|machine| machine.map_or(String::new(), |machine| machine.without(without).hash()))
                .collect()
        };
        let hash = self.hash();
        let place = if self.without.is_empty() {
            WHOLE.get_or_init(|| hashes(&[])).iter().position(|known| *known == hash)
        } else {
            hashes(&self.without).iter().position(|known| *known == hash)
        };
        place.map(|place| BUILTIN[place])
    }
}

/// The SHA-256 of some content, in 64 hexadecimal digits.
pub fn sha256(content: &[u8]) -> String {
    Sha256::digest(content).iter().fold(String::new(), |mut text, byte| {
        // Writing to a string does not fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = include_str!("../../machines/1-socket.toml");

    fn machine(name: &str, text: &str) -> Machine {
        Machine::from_toml(name, text, "".as_ref()).expect("a valid file")
    }

    #[test]
    fn a_copy_is_the_same_machine_under_any_name() {
        let copy = TEXT.replace("name = \"1-socket\"", "name = \"mine\"");
        assert_ne!(copy, TEXT);
        let copy = machine("mine.toml", &copy);
        assert_eq!((copy.name.as_str(), copy.built_in()), ("mine", Some("1-socket")));
    }

    #[test]
    fn a_copy_with_one_number_changed_is_another_machine() {
        let own = machine("1-socket.toml", TEXT);
        for (from, to) in [
            ("[costs.l2_hit]\nvalue = 3.5\n", "[costs.l2_hit]\nvalue = 3.6\n"),
            ("[tlb.walk_cache]\nentries = 32\n", "[tlb.walk_cache]\nentries = 33\n"),
        ] {
            assert!(TEXT.contains(from));
            let changed = machine("1-socket.toml", &TEXT.replace(from, to));
            assert_eq!((changed.name.as_str(), changed.built_in()), ("1-socket", None), "{to}");
            assert_ne!(changed.hash(), own.hash());
        }
        assert_eq!(own.with_cpus(2).expect("allowed").built_in(), None);
        assert_eq!(own.scaled(0.5).expect("allowed").built_in(), None);
    }

    #[test]
    fn a_hash_is_written_in_hexadecimal_digits() {
        // FIPS 180-4's example, with bytes below 16.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(b"abc"), expected);
    }

    #[test]
    fn a_source_in_other_words_is_not_another_machine() {
        let changed = machine("f", &TEXT.replace("assumed", "guessed"));
        assert_eq!(changed.built_in(), Some("1-socket"));
        assert_eq!(changed.hash().len(), 64);
    }

    #[test]
    fn a_range_is_not_part_of_the_machine() {
        let range = "range.from = 20\nrange.to = 40\n";
        assert!(TEXT.contains(range));
        let changed = machine("f", &TEXT.replace(range, "range.from = 2\nrange.to = 400\n"));
        assert_eq!(changed.built_in(), Some("1-socket"));
    }

    #[test]
    fn effects_are_left_out_of_both() {
        for name in BUILTIN {
            let machine = builtin(name).expect("a listed name").expect("a valid file");
            assert_eq!(machine.built_in(), Some(*name));
            let bare = machine.without(&[Effect::Ticks, Effect::Contention]);
            assert_eq!(bare.built_in(), Some(*name));
            assert_ne!(bare.hash(), machine.hash());
            assert_eq!(bare.hash(), machine.without(&[Effect::Contention, Effect::Ticks]).hash());
        }
    }
}
