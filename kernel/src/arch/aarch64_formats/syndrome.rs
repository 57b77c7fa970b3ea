//! The exception syndrome of Arm, `ESR_EL1` (DDI 0487).
//!
//! Six bits are the exception's class. For a failed access, the bits below hold the reason, with the level of the entry
//! in the lowest bits, and whether it was a store. Newer processors say more about some aborts in the bits above
//! (ISS2). Those bits are not needed here and are not part of the class.

/// The register's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Syndrome(pub(crate) u64);

/// The classes that are handled.
pub(crate) mod class {
    pub(crate) const UNDEFINED: u64 = 0;
    pub(crate) const SYSTEM_CALL: u64 = 0x15;
    pub(crate) const PROGRAM_FETCH: u64 = 0x20;
    pub(crate) const PROGRAM_ACCESS: u64 = 0x24;
    pub(crate) const KERNEL_ACCESS: u64 = 0x25;
}

/// Why an access failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// No entry translates the address.
    Translation,
    /// An entry translates it and does not allow the access. A stale TLB entry may do so too.
    Permission,
    /// An entry leads beyond the range of addresses.
    AddressSize,
    /// Any other reason, for example two translations of one address in a TLB.
    Other,
}

impl Syndrome {
    /// The exception's class.
    pub(crate) const fn class(self) -> u64 {
        self.0 >> 26 & 0x3f
    }

    /// Why an access failed, at any level.
    pub(crate) const fn why(self) -> Why {
        match self.0 >> 2 & 0xf {
            0 => Why::AddressSize,
            1 => Why::Translation,
            3 => Why::Permission,
            _ => Why::Other,
        }
    }

    /// Whether an access was a store (`WnR`).
    pub(crate) const fn is_store(self) -> bool {
        self.0 & 1 << 6 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A data abort in a program, by the code of its fault.
    const fn abort(code: u64) -> Syndrome {
        Syndrome(class::PROGRAM_ACCESS << 26 | 1 << 25 | code)
    }

    #[test]
    fn a_class_is_six_bits_without_the_bits_above() {
        for above in [0, 1 << 32, 1 << 37, 0xff_ffff << 32] {
            assert_eq!(Syndrome(abort(7).0 | above).class(), class::PROGRAM_ACCESS, "{above:#x}");
        }
    }

    #[test]
    fn classes_are_those_of_the_manual() {
        // Each with a syndrome as processors report it: an undefined instruction, `svc #0`, a fetch from an unmapped
        // address, a program's store and the kernel's load.
        for (value, class) in [
            (0x0200_0000, class::UNDEFINED),
            (0x5600_0000, class::SYSTEM_CALL),
            (0x8200_0006, class::PROGRAM_FETCH),
            (0x9200_0047, class::PROGRAM_ACCESS),
            (0x9600_0007, class::KERNEL_ACCESS),
        ] {
            assert_eq!(Syndrome(value).class(), class, "{value:#x}");
        }
    }

    #[test]
    fn faults_are_sorted_by_their_codes() {
        for level in 0..4 {
            assert_eq!(abort(level).why(), Why::AddressSize);
            assert_eq!(abort(0b00_0100 | level).why(), Why::Translation);
            assert_eq!(abort(0b00_1000 | level).why(), Why::Other, "an access flag that is not set");
            assert_eq!(abort(0b00_1100 | level).why(), Why::Permission);
        }
        for code in [0b01_0000, 0b01_0101, 0b01_1000, 0b10_0001, 0b11_0000, 0b11_0001] {
            assert_eq!(abort(code).why(), Why::Other, "{code:#b}");
        }
        assert!(abort(1 << 6 | 0b00_1111).is_store() && !abort(0b00_1111).is_store());
    }
}
