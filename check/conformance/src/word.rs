//! The words in pages under test.

/// The word that scenarios have free frames filled with.
///
/// A walker that reads it as an entry of a page table finds one that is valid on x86-64, arm64 and RISC-V, and leads to
/// memory that no machine has. So a walk through a table that was freed shows in what is loaded.
pub const POISON: u64 = 0x0000_0bad_c0de_0467;

/// The upper half of every other word.
const MARK: u64 = 0xcea5_ef13 << 32;

/// The most versions of one scenario.
pub(crate) const VERSIONS: u64 = 1 << 32;

/// The word of a version.
pub(crate) const fn word(version: u64) -> u64 {
    MARK | version
}

/// The version of a word.
pub(crate) const fn version(word: u64) -> Option<u64> {
    if word & !(VERSIONS - 1) == MARK {
        Some(word & (VERSIONS - 1))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_its_version_and_no_other_word_has_one() {
        for number in [0, 1, VERSIONS - 1] {
            assert_eq!(version(word(number)), Some(number));
        }
        for other in [0, POISON, u64::MAX] {
            assert_eq!(version(other), None);
        }
    }
}
