//! Entries as x86-64 walks them (Intel SDM volume 3, section 4.5).
//!
//! The hardware sets one bit when it uses an entry and another when it stores through it, each by an atomic change of
//! the entry that it read. In entries that translate, bits 9 to 11 are left to software.

use super::Format;

/// The format of x86-64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum X86_64 {}

/// Programs can reach the page or table.
const USER: u64 = 1 << 2;
/// The entry is the same in every space.
const GLOBAL: u64 = 1 << 8;
const NOT_CODE: u64 = 1 << 63;

impl Format for X86_64 {
    const PRESENT: u64 = 1;
    const PAGE: u64 = USER;
    const KERNEL: u64 = GLOBAL | NOT_CODE;
    const TABLE: u64 = USER | Self::WRITABLE | Self::ACCESSED;
    const WRITABLE: u64 = 1 << 1;
    const CLEAN: u64 = 0;
    const ACCESSED: u64 = 1 << 5;
    const DIRTY: u64 = 1 << 6;
    const HUGE: u64 = 1 << 7;
    const SMALL: u64 = 0;
    const FRAME: u64 = 0x000f_ffff_ffff_f000;
    const KIND: u64 = 3 << 9;
    // The hardware ignores this bit only in entries that do not translate. In others it means "global".
    const OWING: u64 = 1 << 8;
    const HIDE_AFTER: u64 = 1 << 11;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::address::FrameNumber;
    use crate::tables::entry::EntryOf;

    #[test]
    fn the_bits_are_those_of_the_manual() {
        let page = EntryOf::<X86_64>::page(FrameNumber::new(0x1234_5678), true);
        assert_eq!(page.bits(), 0x0123_4567_8007);
        assert_eq!(page.used(true).bits(), 0x0123_4567_8067);
        assert_eq!(page.used(true).read_only().huge().bits(), 0x0123_4567_80e5);
        let kernel = EntryOf::<X86_64>::kernel(FrameNumber::new(0x1234_5678));
        assert_eq!(kernel.bits(), 0x8000_0123_4567_8163);
        assert_eq!(EntryOf::<X86_64>::table(FrameNumber::new(1)).bits(), 0x1027);
    }
}
