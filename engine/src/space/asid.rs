//! Address-space identifiers (ASIDs): the tags on TLB entries.
//!
//! x86 calls them PCIDs. An ASID is either one of a CPU's own slots or a global ASID. An engine without broadcasts uses
//! slots only; one with broadcasts uses both, or only global ASIDs.

/// The number of ASIDs that each CPU hands out on its own (Linux: `TLB_NR_DYN_ASIDS`, sized to two cache lines of
/// slots).
pub const DYNAMIC_ASIDS: usize = 6;

/// A tag on TLB entries. Without broadcasts it belongs to one CPU, which has [`DYNAMIC_ASIDS`] of them. With broadcasts
/// it means the same space on every CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asid(u16);

impl Asid {
    /// The tag of all spaces without an ASID of their own, where flushes are broadcast.
    pub const SHARED: Self = Self(0);

    pub(crate) const fn new(number: u16) -> Self {
        Self(number)
    }

    /// The number. It is below [`DYNAMIC_ASIDS`] for a CPU's own ASIDs.
    pub const fn get(self) -> u16 {
        self.0
    }

    /// The x86 tag (PCID) of the ASID, for ASIDs below 4095. PCID 0 is the kernel's own (Linux: `kern_pcid`).
    pub const fn pcid(self) -> u16 {
        self.0 + 1
    }

    /// The tag of the program's view of the space, where page tables are isolated. [`Asid::pcid`] is then the tag of
    /// the kernel's view while the program's space is loaded (Linux: `user_pcid`). For ASIDs below 2046 no two tags are
    /// the same.
    pub const fn user_pcid(self) -> u16 {
        self.pcid() | 1 << 11
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of them.
    #[test]
    fn no_two_asids_have_one_pcid_and_none_has_the_kernels() {
        for number in 0..4095 {
            assert_eq!(Asid(number).pcid(), number + 1);
        }
        assert_eq!(Asid(4094).pcid(), (1 << 12) - 1, "PCIDs have 12 bits");
    }

    #[test]
    fn isolated_page_tables_have_two_tags_each_and_none_twice() {
        let mut seen = [false; 1 << 12];
        for number in 0..2046 {
            for tag in [Asid(number).pcid(), Asid(number).user_pcid()] {
                assert!(
                    tag != 0 && !core::mem::replace(&mut seen[usize::from(tag)], true),
                    "{tag} of {number}"
                );
            }
        }
    }
}
