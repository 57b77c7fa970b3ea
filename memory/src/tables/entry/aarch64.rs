//! Entries as 64-bit Arm (`aarch64`) walks them: descriptors of VMSAv8-64 with a granule of 4 KiB (DDI 0487, chapter
//! D8).
//!
//! The hardware manages the flags (`FEAT_HAFDBS`), each by an atomic change of the entry that it read. A walk sets the
//! access flag. A store through an entry that is *writable and clean* clears the bit that forbids stores (AP\[2\]), if
//! DBM is set in the entry. So DBM means that stores are allowed, and AP\[2\] that none was made. An entry without DBM
//! has AP\[2\] set. For such an entry one of the four software bits (55 to 58) records whether something was stored
//! through it before it lost the right.
//!
//! The kernel must set up three things: memory attributes with number 0 are normal, cached and written back; the
//! hardware's management of flags is on (`TCR_EL1.HA`, `HD`); addresses have at most 48 bits.

use super::Format;

/// The format of 64-bit Arm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aarch64 {}

/// Programs can reach the page (AP\[1\]).
const USER: u64 = 1 << 6;
/// All CPUs' caches are coherent for it: inner shareable.
const SHARED: u64 = 3 << 8;
/// The translation is tagged with the ASID (nG).
const TAGGED: u64 = 1 << 11;
/// The kernel cannot execute it (PXN).
const NOT_KERNEL_CODE: u64 = 1 << 53;
/// Programs cannot execute it (UXN).
const NOT_PROGRAM_CODE: u64 = 1 << 54;
/// The entry leads to a table or, at the lowest level, to a page. Without this bit it translates 2 MiB or, at the
/// lowest level, nothing.
const TABLE_OR_PAGE: u64 = 1 << 1;

impl Format for Aarch64 {
    const PRESENT: u64 = 1;
    const PAGE: u64 = USER | SHARED | TAGGED | NOT_KERNEL_CODE;
    const KERNEL: u64 = SHARED | NOT_KERNEL_CODE | NOT_PROGRAM_CODE;
    const TABLE: u64 = TABLE_OR_PAGE;
    const WRITABLE: u64 = 1 << 51;
    const CLEAN: u64 = 1 << 7;
    const ACCESSED: u64 = 1 << 10;
    const DIRTY: u64 = 1 << 55;
    const HUGE: u64 = 1 << 56;
    const SMALL: u64 = TABLE_OR_PAGE;
    const FRAME: u64 = 0x0000_ffff_ffff_f000;
    const KIND: u64 = 3 << 57;
    const OWING: u64 = 1 << 59;
    const HIDE_AFTER: u64 = 1 << 60;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::FrameNumber;
    use crate::tables::entry::EntryOf;

    type Entry = EntryOf<Aarch64>;

    #[test]
    fn the_bits_are_those_of_the_manual() {
        let page = Entry::page(FrameNumber::new(0x1234_5678), true);
        assert_eq!(page.bits(), 0x0028_0123_4567_8bc3);
        assert_eq!(page.read_only().bits(), 0x0020_0123_4567_8bc3);
        assert_eq!(page.huge().bits(), 0x0128_0123_4567_8bc1);
        let kernel = Entry::kernel(FrameNumber::new(0x1234_5678));
        assert_eq!(kernel.bits(), 0x0068_0123_4567_8703);
        assert_eq!(Entry::table(FrameNumber::new(1)).bits(), 0x1003);
    }

    #[test]
    fn a_store_is_marked_as_the_hardware_marks_it() {
        // A store clears AP[2]; no other bit changes but the access flag.
        let page = Entry::page(FrameNumber::new(7), true);
        assert_eq!(page.used(true).bits(), page.bits() & !(1 << 7) | 1 << 10);
        // An entry that loses the right to store forbids stores, and records that there was one.
        let narrowed = page.used(true).read_only();
        assert_eq!(narrowed.bits() & (1 << 51 | 1 << 7), 1 << 7);
        assert!(narrowed.dirty() && !narrowed.clean().dirty());
        // An entry that never had the right.
        assert!(!Entry::page(FrameNumber::new(7), false).used(false).dirty());
    }
}
