//! The instructions of `AArch64` that matter here, as they are encoded (Arm Architecture Reference Manual, section C5).

/// A register that says how addresses are translated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// `SCTLR_EL1`.
    Sctlr,
    /// `TCR_EL1`.
    Tcr,
    /// `TTBR0_EL1`, or `TTBR1_EL1`.
    Ttbr(u8),
}

/// The cached translations that a TLBI drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Everything.
    All,
    /// An ASID's translations, but not global ones.
    Asid,
    /// An address, under an ASID or under all.
    Address {
        /// Under each ASID.
        any: bool,
    },
    /// A range of addresses.
    Range {
        /// Under each ASID.
        any: bool,
    },
}

/// An instruction that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instruction {
    /// MSR.
    Load {
        /// The register that is written.
        to: Control,
        /// The register of general use.
        from: u8,
    },
    /// TLBI of the EL1&0 regime.
    Invalidate {
        /// What it drops.
        scope: Scope,
        /// None but what is of the last level: no tables on the way.
        last: bool,
        /// Of all CPUs: an inner or outer shareable form. All CPUs of QEMU's machines are in one inner domain.
        everywhere: bool,
        /// The register of general use.
        from: u8,
    },
    /// MRS of `FAR_EL1`, as the handlers of faults begin with.
    Fault,
    /// DC ZVA or DC GZVA.
    Zero {
        /// The register of general use.
        from: u8,
    },
    /// DSB of loads and stores.
    Barrier {
        /// Not of its own CPU alone.
        everywhere: bool,
    },
}

/// Reads an instruction (section C5).
pub(super) fn decode(word: u32) -> Option<Instruction> {
    let field = |shift: u32, bits: u32| word >> shift & ((1 << bits) - 1);
    let from = field(0, 5) as u8;
    let (op1, crn, crm, op2) = (field(16, 3), field(12, 4), field(8, 4), field(5, 3));
    match word >> 19 {
        // MSR of a register with op0 = 3.
        0b1_1010_1010_0011 => {
            let to = match (op1, crn, crm, op2) {
                (0, 1, 0, 0) => Control::Sctlr,
                (0, 2, 0, half @ (0 | 1)) => Control::Ttbr(half as u8),
                (0, 2, 0, 2) => Control::Tcr,
                _ => return None,
            };
            Some(Instruction::Load { to, from })
        }
        // MRS of FAR_EL1.
        0b1_1010_1010_0111 if (op1, crn, crm, op2) == (0, 6, 0, 0) => Some(Instruction::Fault),
        0b1_1010_1010_0001 if (op1, crn, crm) == (3, 7, 4) && matches!(op2, 1 | 4) => {
            Some(Instruction::Zero { from })
        }
        // SYS. The forms with nXS do the same to memory whose attribute XS is 0, as all cached memory has it.
        0b1_1010_1010_0001 if crn == 8 || crn == 9 => {
            let scope = tlbi(op1, crm, op2)?;
            // 1 and 5: outer shareable, 2 and 3: inner shareable, 6 and 7: of the own CPU.
            let of_address = matches!(scope, Scope::Address { .. } | Scope::Range { .. });
            // VALE1 and the like.
            let last = of_address && op2 & 4 != 0;
            Some(Instruction::Invalidate { scope, last, everywhere: crm < 6, from })
        }
        // Barriers.
        0b1_1010_1010_0000 if (op1, crn, from) == (3, 3, 31) => {
            match (op2, crm) {
                // SSBB and PSSBB.
                (4, 0 | 4) => return None,
                // Section B2.3: loads alone and stores alone complete no TLBI. The numbers that are reserved are SY.
                (4, _) if crm & 3 == 1 || crm & 3 == 2 => return None,
                (4, _) => {}
                // With nXS.
                (1, _) if crm & 3 == 2 => {}
                _ => return None,
            }
            Some(Instruction::Barrier { everywhere: crm >> 2 != 1 })
        }
        _ => None,
    }
}

/// What a TLBI of the EL1&0 regime drops, by its encoding. `None`: it is of another regime or stage, or none.
fn tlbi(op1: u32, crm: u32, op2: u32) -> Option<Scope> {
    match (op1, crm, op2) {
        // VMALLE1, and ALLE1 and VMALLS12E1, which drop more than there is here.
        (0, 1 | 3 | 7, 0) | (4, 1 | 3 | 7, 4 | 6) => Some(Scope::All),
        (0, 1 | 3 | 7, 2) => Some(Scope::Asid),
        // VAE1 and VALE1, VAAE1 and VAALE1.
        (0, 1 | 3 | 7, 1 | 5) => Some(Scope::Address { any: false }),
        (0, 1 | 3 | 7, 3 | 7) => Some(Scope::Address { any: true }),
        (0, 2 | 5 | 6, 1 | 5) => Some(Scope::Range { any: false }),
        (0, 2 | 5 | 6, 3 | 7) => Some(Scope::Range { any: true }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::aarch64::Aarch64;
    use crate::arch::Arch as _;

    #[test]
    fn instructions_are_read_as_an_assembler_writes_them() {
        let everywhere = |everywhere| Some(Instruction::Barrier { everywhere });
        let load = |to, from| Some(Instruction::Load { to, from });
        let tlbi =
            |scope, everywhere, from| Some(Instruction::Invalidate { scope, last: false, everywhere, from });
        let tlbi_last =
            |scope, everywhere, from| Some(Instruction::Invalidate { scope, last: true, everywhere, from });
        let (address, range) = (|any| Scope::Address { any }, |any| Scope::Range { any });
        let all = [
            (0xd50b_7423, Some(Instruction::Zero { from: 3 })), // dc zva, x3
            (0xd50b_7421, Some(Instruction::Zero { from: 1 })), // dc zva, x1
            (0xd50b_7461, None),                                // dc gva, x1
            (0xd503_339f, everywhere(true)),                    // dsb osh
            (0xd503_379f, everywhere(false)),                   // dsb nsh
            (0xd503_3b9f, everywhere(true)),                    // dsb ish
            (0xd503_3f9f, everywhere(true)),                    // dsb sy
            (0xd503_389f, everywhere(true)),                    // dsb #8, which is reserved
            (0xd503_3a9f, None),                                // dsb ishst
            (0xd503_399f, None),                                // dsb ishld
            (0xd503_3e9f, None),                                // dsb st
            (0xd503_309f, None),                                // ssbb
            (0xd503_349f, None),                                // pssbb
            (0xd503_323f, everywhere(true)),                    // dsb oshnxs
            (0xd503_363f, everywhere(false)),                   // dsb nshnxs
            (0xd503_3a3f, everywhere(true)),                    // dsb ishnxs
            (0xd503_3e3f, everywhere(true)),                    // dsb synxs
            (0xd503_3bbf, None),                                // dmb ish
            (0xd503_3fdf, None),                                // isb
            (0xd508_871f, tlbi(Scope::All, false, 31)),         // tlbi vmalle1
            (0xd508_831f, tlbi(Scope::All, true, 31)),          // tlbi vmalle1is
            (0xd508_811f, tlbi(Scope::All, true, 31)),          // tlbi vmalle1os
            (0xd508_8723, tlbi(address(false), false, 3)),      // tlbi vae1, x3
            (0xd508_8323, tlbi(address(false), true, 3)),       // tlbi vae1is, x3
            (0xd508_8123, tlbi(address(false), true, 3)),       // tlbi vae1os, x3
            (0xd508_83be, tlbi_last(address(false), true, 30)), // tlbi vale1is, x30
            (0xd508_8361, tlbi(address(true), true, 1)),        // tlbi vaae1is, x1
            (0xd508_83ff, tlbi_last(address(true), true, 31)),  // tlbi vaale1is, xzr
            (0xd508_8742, tlbi(Scope::Asid, false, 2)),         // tlbi aside1, x2
            (0xd508_8342, tlbi(Scope::Asid, true, 2)),          // tlbi aside1is, x2
            (0xd508_8142, tlbi(Scope::Asid, true, 2)),          // tlbi aside1os, x2
            (0xd508_8624, tlbi(range(false), false, 4)),        // tlbi rvae1, x4
            (0xd508_8224, tlbi(range(false), true, 4)),         // tlbi rvae1is, x4
            (0xd508_8524, tlbi(range(false), true, 4)),         // tlbi rvae1os, x4
            (0xd508_8264, tlbi(range(true), true, 4)),          // tlbi rvaae1is, x4
            (0xd508_82a4, tlbi_last(range(false), true, 4)),    // tlbi rvale1is, x4
            (0xd508_82e4, tlbi_last(range(true), true, 4)),     // tlbi rvaale1is, x4
            (0xd50c_879f, tlbi(Scope::All, false, 31)),         // tlbi alle1
            (0xd50c_839f, tlbi(Scope::All, true, 31)),          // tlbi alle1is
            (0xd50c_819f, tlbi(Scope::All, true, 31)),          // tlbi alle1os
            (0xd50c_87df, tlbi(Scope::All, false, 31)),         // tlbi vmalls12e1
            (0xd50c_83df, tlbi(Scope::All, true, 31)),          // tlbi vmalls12e1is
            (0xd50c_81df, tlbi(Scope::All, true, 31)),          // tlbi vmalls12e1os
            (0xd508_9323, tlbi(address(false), true, 3)),       // tlbi vae1isnxs, x3
            (0xd508_971f, tlbi(Scope::All, false, 31)),         // tlbi vmalle1nxs
            (0xd50c_8023, None),                                // tlbi ipas2e1is, x3
            (0xd50c_80c3, None),                                // tlbi ripas2le1is, x3
            (0xd50c_8323, None),                                // tlbi vae2is, x3
            (0xd50c_871f, None),                                // tlbi alle2
            (0xd50e_8323, None),                                // tlbi vae3is, x3
            (0xd518_1005, load(Control::Sctlr, 5)),             // msr sctlr_el1, x5
            (0xd518_2006, load(Control::Ttbr(0), 6)),           // msr ttbr0_el1, x6
            (0xd518_2027, load(Control::Ttbr(1), 7)),           // msr ttbr1_el1, x7
            (0xd518_2048, load(Control::Tcr, 8)),               // msr tcr_el1, x8
            (0xd518_101f, load(Control::Sctlr, 31)),            // msr sctlr_el1, xzr
            (0xd538_1005, None),                                // mrs x5, sctlr_el1
            (0xd518_1041, None),                                // msr cpacr_el1, x1
            (0xd51d_1001, None),                                // msr sctlr_el12, x1
            (0xd538_6003, Some(Instruction::Fault)),            // mrs x3, far_el1
            (0xd65f_03c0, None),                                // ret
        ];
        for (word, expected) in all {
            assert_eq!(decode(word), expected, "{word:x}");
        }
        assert_eq!(Aarch64::decode(&[0x9f, 0x37, 3, 0xd5]), everywhere(false));
        assert_eq!(Aarch64::decode(&[0x9f, 0x37, 3]), None);
    }
}
