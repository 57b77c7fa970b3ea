//! RISC-V with 64 bits (the privileged specification, volume II: chapter "Supervisor-Level ISA", "Svnapot" and "Svinval").
//!
//! Fences of other CPUs' translations come as those CPUs' own instructions: firmware executes SFENCE.VMA in M-mode on
//! each, or the kernel does it where it interrupts them. Traps change no register that is looked at here.
//!
//! Nothing here tells the mode of a CPU. In M-mode it translates nothing, except as the mode in MPP says if MPRV is set.
//! So an access whose physical address is the virtual one is not compared ([`Arch::UNTRANSLATED`]). What firmware accesses
//! through a kernel's tables is compared, as it is translated.
//!
//! A write of SATP drops nothing, and translations stay under their ASID, 0 included. So a kernel that uses no ASIDs is
//! judged by its fences. Which mode and which bits of the ASID a write leaves, the register says after it.
//!
//! The hypervisor extension's guests are not known, nor are the HFENCE instructions. While HGATP has a mode, a CPU may be
//! in a guest, and nothing is compared. A guest without second tables, whose HGATP has none, is misjudged.
//!
//! One thing more is taken for given: that SFENCE.W.INVAL comes before SINVAL.VMA.

use super::{Arch, Effect, Invalidation, Operands, Rights, Translation, Walk, Walks, ARGUMENTS, PAGE};

/// What a CPU has loaded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Riscv64 {
    satp: u64,
    hgatp: u64,
}

/// The numbers of the two as CSRs.
const CSR_SATP: u16 = 0x180;
const CSR_HGATP: u16 = 0x680;

/// In SATP ("Supervisor Address Translation and Protection").
const MODE: u32 = 60;
const ASID: u32 = 44;
/// The root's page number, and that in an entry.
const NUMBER: u64 = (1 << 44) - 1;

/// In an entry ("Sv39", "Addressing and Memory Protection").
const VALID: u64 = 1;
const READABLE: u64 = 1 << 1;
const WRITABLE: u64 = 1 << 2;
const EXECUTABLE: u64 = 1 << 3;
const USER: u64 = 1 << 4;
const GLOBAL: u64 = 1 << 5;
/// It was stored to. A store without it faults, or the processor sets it.
const DIRTY: u64 = 1 << 7;
/// The bits of which a page has one at least, and an entry that leads to a table none.
const IS_PAGE: u64 = READABLE | WRITABLE | EXECUTABLE;
/// The lowest bit of the page number. Behind it are reserved bits, and the memory's type, which is no part of the address.
const FIRST: u32 = 10;
/// The page is a part of a larger one, whose size is in the lowest bits of the page number ("Svnapot"). All its entries
/// are alike, and a CPU may have one translation from any of them.
const NAPOT: u64 = 1 << 63;
/// The only larger size that there is, and the lowest bits for it.
const NAPOT_SHIFT: u32 = 16;
const NAPOT_NUMBER: u64 = 8;

/// The places of registers in [`Arch::REGISTERS`]. Those of general use come first and have their own numbers.
const TP: usize = 4;
const SATP: usize = 32;
const HGATP: usize = 33;
const SSCRATCH: usize = 34;

/// An instruction that matters here. Its operands are registers of general use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instruction {
    /// A write of SATP or HGATP.
    Control,
    /// SFENCE.VMA or SINVAL.VMA.
    Fence {
        /// The register with the address. 0: all addresses.
        address: u8,
        /// The register with the ASID. 0: all, and global translations too.
        asid: u8,
        /// It is SINVAL.VMA, which ends with the next SFENCE.INVAL.IR.
        begins: bool,
    },
    /// SFENCE.INVAL.IR.
    Completes,
    /// CBO.ZERO.
    Zero {
        /// The register with an address of the block.
        address: u8,
    },
}

impl Riscv64 {
    /// The levels of the page tables, in a mode that is known here.
    fn levels(&self) -> Option<u32> {
        let mode = self.satp >> MODE;
        // Sv39, Sv48 and Sv57 follow one another.
        (matches!(mode, 8..=10) && self.hgatp >> MODE == 0).then(|| mode as u32 - 5)
    }
}

/// The physical address of the table or page with the number in an entry.
fn address(entry: u64) -> u64 {
    (entry >> FIRST & NUMBER) << PAGE
}

/// The page of an entry at a level, from 0 on. `None`: an access through it faults.
fn page(entry: u64, level: u32) -> Option<(u64, u32)> {
    let (number, shift) = (entry >> FIRST & NUMBER, PAGE + 9 * level);
    let (number, shift) = match entry & NAPOT {
        0 => (number, shift),
        // The other encodings are reserved.
        _ if level == 0 && number & 0xf == NAPOT_NUMBER => (number - NAPOT_NUMBER, NAPOT_SHIFT),
        _ => return None,
    };
    // A large page begins at a multiple of its size.
    (number & ((1 << (shift - PAGE)) - 1) == 0).then_some((number, shift))
}

impl Arch for Riscv64 {
    type Instruction = Instruction;

    const REGISTERS: &'static [&'static str] = &[
        "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5",
        "a6", "a7", "s2", "s3", "s4", "s5", "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
        "satp", "hgatp", "sscratch", "pc",
    ];

    const PC: usize = 35;

    const ARGUMENTS: [usize; ARGUMENTS] = [10, 11, 12, 13, 14, 15];

    const STACK: usize = 2;

    const LINK: Option<usize> = Some(1);

    // A CPU without the hypervisor extension has no HGATP.
    const LACKED: &'static [usize] = &[HGATP];

    const UNTRANSLATED: bool = true;

    fn decode(bytes: &[u8]) -> Option<Instruction> {
        let word = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        let field = |shift: u32| (word >> shift & 0x1f) as u8;
        if word & 0xfff0_7fff == 0x0040_200f {
            return Some(Instruction::Zero { address: field(15) });
        }
        if word & 0x7f != 0x73 {
            return None;
        }
        let csr = (word >> 20) as u16;
        match (word >> 12 & 7, word >> 25) {
            (0, 0x09) if field(7) == 0 => {
                Some(Instruction::Fence { address: field(15), asid: field(20), begins: false })
            }
            (0, 0x0b) if field(7) == 0 => {
                Some(Instruction::Fence { address: field(15), asid: field(20), begins: true })
            }
            (0, _) => (word == 0x1810_0073).then_some(Instruction::Completes),
            (4, _) => None,
            // CSRRS, CSRRC and their immediate forms read only where the operand is x0 or 0 (volume I, "Zicsr").
            (function, _) if matches!(csr, CSR_SATP | CSR_HGATP) && (function & 3 == 1 || field(15) != 0) => {
                Some(Instruction::Control)
            }
            _ => None,
        }
    }

    fn read(&mut self, operands: &dyn Operands) {
        let [satp, hgatp] = [SATP, HGATP].map(|index| operands.register(index));
        *self = Self { satp, hgatp };
    }

    fn execute(&mut self, instruction: Instruction, operands: &dyn Operands) -> Effect {
        match instruction {
            // The write may have no effect at all, as for a mode that the CPU lacks, may change fewer bits, and may trap.
            // And in a guest of a hypervisor it is another register.
            Instruction::Control => Effect::Loads,
            Instruction::Completes => Effect::Completes { everywhere: false },
            Instruction::Zero { address } => Effect::Zeroes { address: operands.register(address.into()) },
            Instruction::Fence { address, asid, begins } => {
                let value = |number: u8| (number != 0).then(|| operands.register(number.into()));
                let what = Invalidation {
                    // The bits above an ASID are ignored.
                    asid: value(asid).map(|asid| asid as u16),
                    range: value(address).map(|address| (address, 1)),
                    globals: asid == 0,
                    sizes: u64::MAX,
                    // With an address it concerns entries of pages alone.
                    walks: if address == 0 { Walks::Named } else { Walks::No },
                };
                if begins {
                    Effect::Begins { what, everywhere: false }
                } else {
                    Effect::Drops(what)
                }
            }
        }
    }

    fn translates(&self) -> bool {
        self.levels().is_some()
    }

    fn asid(&self, _: u64) -> u16 {
        (self.satp >> ASID) as u16
    }

    fn walk(&self, address: u64, load: &dyn Fn(u64) -> Option<u64>) -> Option<Walk> {
        let levels = self.levels()?;
        let mut walk = Walk::new(levels as usize, PAGE);
        let mut table = (self.satp & NUMBER) << PAGE;
        // G above a page concerns all below it ("Sv39", of the bit G).
        let mut global = false;
        for level in (0..levels).rev() {
            walk.reads(table + (address >> (PAGE + 9 * level) & 0x1ff) * 8);
            let entry = load(walk.last())?;
            if entry & VALID == 0 {
                break;
            }
            global |= entry & GLOBAL != 0;
            if entry & IS_PAGE != 0 {
                let rights = Rights {
                    store: entry & WRITABLE != 0 && entry & DIRTY != 0,
                    user: entry & USER != 0,
                    execute: entry & EXECUTABLE != 0,
                };
                let found = page(entry, level);
                walk.translation =
                    found.map(|(frame, shift)| Translation { frame, shift, rights, global, joint: 0 });
                break;
            }
            table = self::address(entry);
        }
        Some(walk)
    }

    fn table(entry: u64) -> Option<u64> {
        (entry & VALID != 0 && entry & IS_PAGE == 0).then_some(address(entry))
    }

    fn narrows(before: u64, after: u64) -> bool {
        let lost = (IS_PAGE | DIRTY | USER) & before & !after;
        before & VALID != 0 && (after & VALID == 0 || (before ^ after) & (NUMBER << FIRST) != 0 || lost != 0)
    }

    fn frame(entry: u64) -> Option<u64> {
        (entry & VALID != 0 && entry & NAPOT == 0).then_some(entry >> FIRST & NUMBER)
    }

    /// Linux has its thread in TP. While a program runs, which has that register for itself, it is in SSCRATCH, which is 0
    /// otherwise.
    fn thread(operands: &dyn Operands) -> Option<u64> {
        let thread = Some(operands.register(SSCRATCH)).filter(|&thread| thread != 0);
        thread.or_else(|| Some(operands.register(TP)).filter(|&thread| thread != 0))
    }

    fn calls(code: [u8; 8]) -> bool {
        let [.., a, b, c, d] = code;
        let (word, half) = (u32::from_le_bytes([a, b, c, d]), u16::from_le_bytes([c, d]));
        // JAL and JALR that keep the address in RA, and C.JALR.
        matches!(word & 0xfff, 0x0ef | 0x0e7) || half & 0xf07f == 0x9002 && half & 0xf80 != 0
    }

    fn meaning(entry: u64) -> u64 {
        if entry & VALID == 0 {
            return 0;
        }
        entry & (VALID | IS_PAGE | dirty(entry) | USER | GLOBAL | NAPOT | NUMBER << FIRST)
    }

    fn marked(entry: u64) -> u64 {
        if entry & VALID == 0 {
            entry
        } else {
            entry | dirty(entry)
        }
    }
}

/// The bit that says that a page was stored to, of an entry that allows stores.
fn dirty(entry: u64) -> u64 {
    if entry & WRITABLE == 0 {
        0
    } else {
        DIRTY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers of which each holds `0x1_0001` times its number: one more bit than an ASID has.
    struct Cpu;

    impl Operands for Cpu {
        fn register(&self, index: usize) -> u64 {
            0x1_0001 * index as u64
        }

        fn load(&self, _: u64) -> Option<u64> {
            None
        }
    }

    fn decode(word: u32) -> Option<Instruction> {
        Riscv64::decode(&word.to_le_bytes())
    }

    fn effect(word: u32) -> Effect {
        Riscv64::default().execute(decode(word).expect("an instruction"), &Cpu)
    }

    #[test]
    fn each_fence_drops_what_its_operands_name() {
        let page = Some((0xa_000a, 1));
        let all = Invalidation::EVERYTHING;
        let of_11 = Invalidation { asid: Some(11), globals: false, ..Invalidation::EVERYTHING };
        for (word, what) in [
            (0x1200_0073, all),                                                     // sfence.vma
            (0x1205_0073, Invalidation { range: page, walks: Walks::No, ..all }),   // sfence.vma a0
            (0x12b0_0073, of_11),                                                   // sfence.vma x0, a1
            (0x12b5_0073, Invalidation { range: page, walks: Walks::No, ..of_11 }), // sfence.vma a0, a1
        ] {
            assert_eq!(effect(word), Effect::Drops(what), "{word:x}");
            let sinval = word | 1 << 26;
            assert_eq!(effect(sinval), Effect::Begins { what, everywhere: false }, "{sinval:x}");
        }
        assert_eq!(effect(0x1810_0073), Effect::Completes { everywhere: false });
    }

    #[test]
    fn a_block_that_is_zeroed_is_known() {
        // cbo.zero (a0), cbo.flush (a0), prefetch.w (a0)
        assert_eq!(effect(0x0045_200f), Effect::Zeroes { address: 0xa_000a });
        assert_eq!([0x0025_200f, 0x0035_6013].map(decode), [None; 2]);
    }

    #[test]
    fn writes_of_satp_are_known() {
        let writes = [
            0x1805_1073, // csrw satp, a0
            0x1805_15f3, // csrrw a1, satp, a0
            0x1805_25f3, // csrrs a1, satp, a0
            0x1805_3073, // csrc satp, a0
            0x1800_1073, // csrw satp, x0
            0x1800_5073, // csrwi satp, 0
            0x1800_e073, // csrsi satp, 1
            0x1800_f073, // csrci satp, 1
            0x6805_1073, // csrw hgatp, a0
        ];
        for word in writes {
            assert_eq!((decode(word), effect(word)), (Some(Instruction::Control), Effect::Loads), "{word:x}");
        }
        let others = [
            0x1800_2573, // csrr a0, satp
            0x1800_3573, // csrrc a0, satp, x0
            0x1800_6073, // csrsi satp, 0
            0x1800_7073, // csrci satp, 0
            0x1800_4073, // no such function
            0x1405_1073, // csrw sscratch, a0
            0x2805_1073, // csrw vsatp, a0
            0x1800_0073, // sfence.w.inval
            0x0000_0073, // ecall
            0x3020_0073, // mret
            0x22b5_0073, // hfence.vvma a0, a1
            0x1200_00f3, // reserved: a fence with a result
            0x0000_0013, // nop
        ];
        for word in others {
            assert_eq!(decode(word), None, "{word:x}");
        }
        assert_eq!((Riscv64::decode(&[0x82, 0x80]), Riscv64::decode(&[])), (None, None));
    }

    const NORMAL: Rights = Rights { store: true, user: false, execute: false };

    fn entry(address: u64, bits: u64) -> u64 {
        address >> 2 | bits | VALID
    }

    fn walk(satp: u64, entries: &[(u64, u64)], address: u64) -> Option<Walk> {
        let load = |place| Some(entries.iter().find(|entry| entry.0 == place).map_or(0, |entry| entry.1));
        Riscv64 { satp, hgatp: 0 }.walk(address, &load)
    }

    #[test]
    fn three_levels_lead_to_pages_of_four_sizes() {
        let data = READABLE | WRITABLE | DIRTY;
        let types = 3 << 61;
        let entries = [
            (0x1000, entry(0x2000, 0)),
            (0x1008, entry(0x4000_0000, data | GLOBAL)),
            (0x1010, entry(0x4000_1000, data)), // not aligned
            (0x1ff8, entry(0x5000, GLOBAL)),
            (0x2000, entry(0x3000, 0)),
            (0x2008, entry(0x20_0000, READABLE | EXECUTABLE | USER)),
            (0x3008, entry(0x9000, data | types | 0xc0)),
            (0x3080, entry(0x1_8000, data | NAPOT)),
            (0x3100, entry(0x1_4000, data | NAPOT)), // reserved
            (0x5ff8, entry(0x40_0000, data)),
        ];
        let satp = 8 << MODE | 7 << ASID | 1;
        let of = |address| walk(satp, &entries, address).and_then(|walk| Some((walk.translation?, walk.len)));
        let translation =
            |frame, shift| Translation { frame, shift, rights: NORMAL, global: false, joint: 0 };
        assert_eq!(of(0x1234), Some((translation(9, 12), 3)));
        assert_eq!(of(0x10008), Some((translation(0x10, 16), 3)));
        assert_eq!(translation(0x10, 16).frame_of(0x1_5000), 0x15);
        let code = Rights { store: false, user: true, execute: true };
        assert_eq!(of(0x3f_f000), Some((Translation { rights: code, ..translation(0x200, 21) }, 2)));
        assert_eq!(of(0x4000_0000), Some((Translation { global: true, ..translation(0x40000, 30) }, 1)));
        assert_eq!(of(u64::MAX), Some((Translation { global: true, ..translation(0x400, 21) }, 2)));
        assert_eq!((of(0x2_0000), of(0x8000_0000), of(0x5000)), (None, None, None));
        assert_eq!(Riscv64 { satp, hgatp: 0 }.asid(0), 7);
    }

    #[test]
    fn more_levels_and_other_modes() {
        let entries = [
            (0x1010, entry(0x2000, 0)),
            (0x2000, entry(0x3000, 0)),
            (0x3008, entry(0x20_0000, READABLE | WRITABLE | DIRTY)),
            (0x4000, entry(0x1000, 0)),
        ];
        let address = 2 << 39 | 0x20_5000;
        let of = |satp| walk(satp, &entries, address);
        let sv48 = of(9 << MODE | 1).expect("a mode that is known");
        assert_eq!((sv48.levels, sv48.len, sv48.last()), (4, 3, 0x3008));
        let expected = Translation { frame: 0x200, shift: 21, rights: NORMAL, global: false, joint: 0 };
        assert_eq!(sv48.translation, Some(expected));
        assert_eq!(expected.frame_of(address), 0x205);
        let sv57 = of(10 << MODE | 4).expect("a mode that is known");
        assert_eq!((sv57.levels, sv57.len, sv57.translation), (5, 4, Some(expected)));
        assert!(of(1).is_none() && of(11 << MODE | 1).is_none());
        let guest = Riscv64 { satp: 9 << MODE | 1, hgatp: 9 << MODE };
        assert!(!guest.translates() && guest.walk(address, &|_| Some(0)).is_none());
    }

    #[test]
    fn what_matters_of_an_entry_is_neither_its_use_nor_its_type() {
        let before = entry(0x9000, READABLE | WRITABLE | DIRTY);
        let used = before | 0x40 | 0x300 | 1 << 61;
        assert_eq!((Riscv64::meaning(used), Riscv64::meaning(before & !VALID)), (before, 0));
        assert!(!Riscv64::narrows(before, used) && !Riscv64::narrows(before & !VALID, before));
        for after in [0, before & !WRITABLE, before & !DIRTY, entry(0xa000, READABLE | WRITABLE | DIRTY)] {
            assert!(Riscv64::narrows(before, after));
        }
        assert!(!Riscv64::narrows(before & !WRITABLE, before));
        assert_eq!(
            [before & !DIRTY, before & !(DIRTY | WRITABLE), 0].map(Riscv64::marked),
            [before, before & !(DIRTY | WRITABLE), 0]
        );
        assert_eq!((Riscv64::table(before), Riscv64::table(entry(0x9000, 0))), (None, Some(0x9000)));
        assert_eq!([before, before & !VALID, before | NAPOT].map(Riscv64::frame), [Some(9), None, None]);
    }

    #[test]
    fn a_thread_is_known_in_the_kernel_and_in_a_program() {
        struct Registers(u64, u64);

        impl Operands for Registers {
            fn register(&self, index: usize) -> u64 {
                match Riscv64::REGISTERS[index] {
                    "tp" => self.0,
                    "sscratch" => self.1,
                    name => panic!("{name} tells no thread"),
                }
            }

            fn load(&self, _: u64) -> Option<u64> {
                None
            }
        }

        let threads =
            [(7, 0), (8, 7), (0, 0)].map(|(tp, sscratch)| Riscv64::thread(&Registers(tp, sscratch)));
        assert_eq!(threads, [Some(7), Some(7), None]);
    }

    #[test]
    fn calls_keep_an_address_in_ra() {
        // jal ra, jalr ra, (a0), c.jalr a0 behind another half, j, ret, c.jr a0
        let words = [0x0080_00ef_u32, 0x0005_00e7, 0x9502_0001, 0x0080_006f, 0x0000_8067, 0x8502_0001];
        let code = |word: u32| u64::to_le_bytes(u64::from(word) << 32);
        assert_eq!(words.map(|word| Riscv64::calls(code(word))), [true, true, true, false, false, false]);
    }
}
