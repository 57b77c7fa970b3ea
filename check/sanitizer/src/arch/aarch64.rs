//! `AArch64`: the EL1&0 translation regime with its first stage alone (Arm Architecture Reference Manual, DDI 0487,
//! chapter D8), as a kernel at EL1 has it.
//!
//! An address is taken to be physical after the first stage, so a hypervisor's guests are not known here, nor is a kernel
//! at EL2: all its accesses count as not compared. Neither are 128-bit entries, permissions by index (`FEAT_S1PIE`), whose
//! bits are read as if they had their old meaning, and TLBs that CPUs share (TTBR.CnP).
//!
//! A CPU may cache a set of entries with the contiguous bit as one, or each alone. Both are kept: an invalidation that names
//! one page drops that and the set, but not the other pages.
//!
//! The access flag is not looked at. Entries without it are never cached, but an access that was made has used one that
//! had it, and hardware may set it in memory before it is seen here (section D8.5).

mod instruction;

pub use self::instruction::Instruction;
use self::instruction::{decode, Control, Scope};
use super::{Arch, Effect, Invalidation, Operands, Rights, Translation, Walk, Walks, ARGUMENTS, PAGE};

/// What a CPU has loaded.
#[derive(Debug, Clone, Copy, Default)]
pub struct Aarch64 {
    sctlr: u64,
    tcr: u64,
    ttbr: [u64; 2],
    /// The exception level at which these were written.
    level: u8,
    /// The ASID before the one that it has.
    last_asid: u16,
    /// Whether TLBIs of an address have a hint of its level (`FEAT_TTL`). `None`: the CPU was not asked yet.
    hints: Option<bool>,
}

/// In SCTLR: addresses are translated.
const SCTLR_M: u64 = 1;

/// In TCR: TTBR1 has the ASID, not TTBR0.
const TCR_A1: u64 = 1 << 22;
/// ASIDs have 16 bits.
const TCR_AS: u64 = 1 << 36;
/// Entries of 4 and 16 KiB granules have 52 bits of address.
const TCR_DS: u64 = 1 << 59;

/// In an entry: it is valid.
const VALID: u64 = 1;
/// It leads to a table. At the last level: it is a page.
const TABLE: u64 = 1 << 1;
/// AP[1]: programs may use it.
const USER: u64 = 1 << 6;
/// AP[2]: it cannot be stored to.
const READ_ONLY: u64 = 1 << 7;
const NOT_GLOBAL: u64 = 1 << 11;
/// It and its neighbours may be cached as one.
const CONTIGUOUS: u64 = 1 << 52;
/// Hardware clears `READ_ONLY` at a store, if it manages that.
const DIRTY_MANAGED: u64 = 1 << 51;
const NO_KERNEL_EXECUTE: u64 = 1 << 53;
const NO_USER_EXECUTE: u64 = 1 << 54;
/// In an entry that leads to a table: what all below lack.
const TABLE_NO_KERNEL_EXECUTE: u64 = 1 << 59;
const TABLE_NO_USER_EXECUTE: u64 = 1 << 60;
const TABLE_NO_USER: u64 = 1 << 61;
const TABLE_READ_ONLY: u64 = 1 << 62;
/// The bits that are part of an address in some format: two low ones are of 52-bit addresses, or the shareability.
const ADDRESS: u64 = 0x0003_ffff_ffff_f300;

/// The places of registers in [`Arch::REGISTERS`] after those of general use, which have their own numbers.
const TTBR0: usize = 31;
const TTBR1: usize = 32;
const TCR: usize = 33;
const SCTLR: usize = 34;
const CPSR: usize = 35;
const FAR: usize = 36;
const ESR: usize = 37;
const FEATURES: usize = 38;
const THREAD: usize = 39;
const SP: usize = 40;

/// A register of general use as an operand. The last number is zero.
fn general(operands: &dyn Operands, number: u8) -> u64 {
    if number == 31 {
        0
    } else {
        operands.register(number.into())
    }
}

/// The half of the addresses that a TTBR translates.
#[derive(Debug, Clone, Copy)]
struct Half {
    root: u64,
    /// The bits of an address that are translated.
    bits: u32,
    /// The power of two of a page and of a full table.
    granule: u32,
    /// Entries have 52 bits of address.
    large: bool,
    /// Entries that lead to tables take no rights away.
    flat: bool,
}

impl Half {
    /// The power of two of what an entry translates, so many levels above the last.
    fn shift(&self, above: u32) -> u32 {
        shift(self.granule, above)
    }

    fn levels(&self) -> u32 {
        (self.bits - self.granule).div_ceil(self.granule - 3)
    }

    /// The address in an entry that has those below a power of two for other uses (section D8.3.1).
    fn address(&self, entry: u64, shift: u32) -> u64 {
        let of = |last: u32| entry & ((1 << (last + 1)) - (1 << shift));
        match (self.granule, self.large) {
            // Without 52-bit addresses these bits are zero.
            (16, _) => of(47) | (entry >> 12 & 0xf) << 48,
            (_, true) => of(49) | (entry >> 8 & 3) << 50,
            (_, false) => of(47),
        }
    }

    /// Whether an entry of that size may be a block.
    fn has_blocks(&self, shift: u32) -> bool {
        match self.granule {
            12 => shift <= 30 || self.large,
            14 => shift <= 25 || self.large,
            _ => shift <= 42,
        }
    }
}

/// The power of two of what an entry of a granule translates, so many levels above the last.
fn shift(granule: u32, above: u32) -> u32 {
    granule + above * (granule - 3)
}

/// The power of two of the entries, so many levels above the last, that the contiguous bit joins (section D8.7.1). 0: none.
fn joint(granule: u32, above: u32) -> u32 {
    match (granule, above) {
        (12, 0..=2) => 4,
        (14, 0) => 7,
        (14 | 16, 0 | 1) => 5,
        _ => 0,
    }
}

/// The sizes of what entries of a granule translate, so many levels above the last: a bit for each power of two.
fn sizes(granule: u32, above: u32) -> u64 {
    let alone = shift(granule, above);
    1 << alone | 1 << (alone + joint(granule, above))
}

/// The power of two of a granule, as the operands of TLBIs name it. `None`: none is named.
fn granule_named(bits: u64) -> Option<u32> {
    Some(match bits & 3 {
        1 => 12,
        2 => 14,
        3 => 16,
        _ => return None,
    })
}

/// Copies a bit of an address to all above it.
fn extend(address: u64, bit: u32) -> u64 {
    let above = !0 << bit;
    if address & 1 << bit == 0 {
        address & !above
    } else {
        address | above
    }
}

impl Aarch64 {
    /// The half of an address. `None`: it is in none, or that is off or in a mode that is not known here.
    fn half(&self, address: u64) -> Option<Half> {
        let upper = address >> 55 & 1;
        let field = |shift: u32, bits: u32| self.tcr >> shift & ((1 << bits) - 1);
        let granule = match (upper, field(14, 2), field(30, 2)) {
            (0, 0, _) | (1, _, 2) => 12,
            (0, 1, _) | (1, _, 3) => 16,
            (0, 2, _) | (1, _, 1) => 14,
            _ => return None,
        };
        let bits = 64 - field(16 * upper as u32, 6) as u32;
        let is_disabled = field(7 + 16 * upper as u32, 1) != 0;
        let has_tag = field(37 + upper as u32, 1) != 0;
        let is_wide = self.tcr & TCR_DS != 0 || granule == 16;
        let most = if is_wide { 52 } else { 48 };
        // The least is that of FEAT_TTST.
        if is_disabled || bits > most || bits < if granule == 16 { 17 } else { 16 } {
            return None;
        }
        let other = (address ^ 0_u64.wrapping_sub(upper)) << if has_tag { 8 } else { 0 };
        if other >> if has_tag { 8 + bits } else { bits } != 0 {
            return None;
        }
        let mut half = Half {
            root: 0,
            bits,
            granule,
            large: self.tcr & TCR_DS != 0 && granule != 16,
            flat: field(41 + upper as u32, 1) != 0,
        };
        let ttbr = self.ttbr[upper as usize];
        // The first table may have fewer entries, and is aligned to its size.
        let bytes = 8 << (bits - half.shift(half.levels() - 1));
        half.root = ttbr & 0x0000_ffff_ffff_fffe & !(bytes - 1);
        if half.large || granule == 16 && field(32, 3) == 6 {
            half.root = half.root & !0x3f | (ttbr >> 2 & 0xf) << 48;
        }
        Some(half)
    }

    fn own_asid(&self) -> u16 {
        self.asid_in(self.ttbr[usize::from(self.tcr & TCR_A1 != 0)])
    }

    /// The ASID in the high bits of a register.
    fn asid_in(&self, register: u64) -> u16 {
        let asid = (register >> 48) as u16;
        if self.tcr & TCR_AS == 0 {
            asid & 0xff
        } else {
            asid
        }
    }

    /// The level, above the last, that a number in an operand names: a hint, and nothing needs to be dropped if it is wrong.
    /// `None`: it names none, or one without pages.
    fn level(&self, granule: u32, level: u64) -> Option<u32> {
        let first = match granule {
            12 if self.tcr & TCR_DS == 0 => 1,
            14 if self.tcr & TCR_DS == 0 => 2,
            12 => 0,
            _ => 1,
        };
        (level >= first).then(|| 3 - level as u32)
    }

    /// What a TLBI drops. `None`: perhaps nothing.
    fn dropped(&self, scope: Scope, operand: u64) -> Option<Invalidation> {
        let asid = Some(self.asid_in(operand));
        let everything = Invalidation::EVERYTHING;
        Some(match scope {
            Scope::All => everything,
            Scope::Asid => Invalidation { asid, globals: false, ..everything },
            Scope::Address { any } => {
                // Other CPUs ignore these bits.
                let level = if self.hints == Some(true) { operand >> 44 & 0xf } else { 0 };
                let named = granule_named(level >> 2);
                let named = named.and_then(|granule| Some((granule, self.level(granule, level & 3)?)));
                let sizes = named.map_or(u64::MAX, |(granule, above)| sizes(granule, above));
                let range = Some((extend(operand << PAGE, 55) >> PAGE << PAGE, 1));
                Invalidation { asid: asid.filter(|_| !any), range, sizes, ..everything }
            }
            Scope::Range { any } => {
                let granule = granule_named(operand >> 46)?;
                let [level, number, scale] =
                    [(37, 2), (39, 5), (44, 2)].map(|(shift, bits)| operand >> shift & ((1 << bits) - 1));
                let unit = if self.tcr & TCR_DS == 0 { granule } else { 16 };
                let start = extend(operand << unit, 36 + unit) >> unit << unit;
                let bytes = (number + 1) << (5 * scale + 1) << granule;
                let named = if level == 0 { None } else { self.level(granule, level) };
                if named.is_some_and(|above| !start.is_multiple_of(1 << shift(granule, above))) {
                    // The range is not known then.
                    return None;
                }
                // No level means each.
                let levels = named.map_or(0..4, |above| above..above + 1);
                Invalidation {
                    asid: asid.filter(|_| !any),
                    range: Some((start, bytes)),
                    sizes: levels.fold(0, |all, above| all | sizes(granule, above)),
                    ..everything
                }
            }
        })
    }
}

impl Arch for Aarch64 {
    type Instruction = Instruction;

    // QEMU has SCTLR under the name that it shares with that of AArch32.
    #[rustfmt::skip] // A line for each would be long.
    const REGISTERS: &'static [&'static str] = &[
        "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15",
        "x16", "x17", "x18", "x19", "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30",
        "TTBR0_EL1", "TTBR1_EL1", "TCR_EL1", "SCTLR|SCTLR_EL1", "cpsr", "FAR_EL1", "ESR_EL1", "ID_AA64MMFR2_EL1",
        "TPIDR_EL0", "sp", "pc",
    ];

    const PC: usize = 41;

    const ARGUMENTS: [usize; ARGUMENTS] = [0, 1, 2, 3, 4, 5];

    const STACK: usize = SP;

    const LINK: Option<usize> = Some(30);

    fn decode(bytes: &[u8]) -> Option<Instruction> {
        decode(u32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn read(&mut self, operands: &dyn Operands) {
        let [sctlr, tcr, low, high, cpsr] =
            [SCTLR, TCR, TTBR0, TTBR1, CPSR].map(|index| operands.register(index));
        let hints = self.hints.or_else(|| Some(operands.register(FEATURES) >> 48 & 0xf != 0));
        *self = Self { sctlr, tcr, ttbr: [low, high], level: (cpsr >> 2 & 3) as u8, hints, ..*self };
    }

    fn execute(&mut self, instruction: Instruction, operands: &dyn Operands) -> Effect {
        match instruction {
            Instruction::Load { to, from } => {
                // A CPU that was off has other values than it had.
                self.read(operands);
                let asid = self.own_asid();
                let value = general(operands, from);
                match to {
                    Control::Sctlr => self.sctlr = value,
                    Control::Tcr => self.tcr = value,
                    Control::Ttbr(half) => self.ttbr[usize::from(half)] = value,
                }
                if asid != self.own_asid() {
                    self.last_asid = asid;
                }
                Effect::Nothing
            }
            Instruction::Zero { from } => Effect::Zeroes { address: general(operands, from) },
            Instruction::Invalidate { scope, last, everywhere, from } => {
                let walks = if last { Walks::No } else { Walks::Named };
                self.dropped(scope, general(operands, from)).map_or(Effect::Nothing, |what| Effect::Begins {
                    what: Invalidation { walks, ..what },
                    everywhere,
                })
            }
            Instruction::Fault => {
                let (address, syndrome) = (operands.register(FAR), operands.register(ESR));
                if !lacks(syndrome) {
                    return Effect::Nothing;
                }
                let own = self.own_asid();
                // On its way from a program the kernel may have changed to an ASID of its own.
                let of_program = matches!(syndrome >> 26 & 0x3f, 0x20 | 0x24);
                let asids = [own, if of_program { self.last_asid } else { own }];
                // Without a tag.
                Effect::Lacks { address: extend(address, 55), asids, walks: Walks::No }
            }
            Instruction::Barrier { everywhere } => Effect::Completes { everywhere },
        }
    }

    fn translates(&self) -> bool {
        self.level == 1 && self.sctlr & SCTLR_M != 0
    }

    fn asid(&self, _: u64) -> u16 {
        self.own_asid()
    }

    fn walk(&self, address: u64, load: &dyn Fn(u64) -> Option<u64>) -> Option<Walk> {
        if !self.translates() {
            return None;
        }
        let half = self.half(address)?;
        let levels = half.levels();
        let mut walk = Walk::new(levels as usize, half.granule);
        let mut table = half.root;
        let mut index_bits = half.bits - half.shift(levels - 1);
        let mut lacks = 0;
        for above in (0..levels).rev() {
            let shift = half.shift(above);
            walk.reads(table + (address >> shift & ((1 << index_bits) - 1)) * 8);
            index_bits = half.granule - 3;
            let entry = load(walk.last())?;
            if entry & VALID == 0 {
                return Some(walk);
            }
            if above > 0 && entry & TABLE != 0 {
                table = half.address(entry, half.granule);
                lacks |= if half.flat { 0 } else { entry };
                continue;
            }
            // A block where there are none is as not valid, and so is one at the last level.
            if (above == 0) != (entry & TABLE != 0) || !half.has_blocks(shift) {
                return Some(walk);
            }
            let may = |no: u64, below: u64| entry & no == 0 && lacks & below == 0;
            let frame = half.address(entry, shift) >> PAGE;
            let joint = if entry & CONTIGUOUS == 0 { 0 } else { joint(half.granule, above) };
            // Of a set that is not aligned nothing is known but its own pages.
            let is_aligned = (frame << PAGE ^ address) >> shift & ((1 << joint) - 1) == 0;
            walk.translation = Some(Translation {
                frame,
                shift,
                rights: Rights {
                    store: may(READ_ONLY, TABLE_READ_ONLY),
                    user: entry & USER != 0 && lacks & TABLE_NO_USER == 0,
                    execute: may(NO_USER_EXECUTE, TABLE_NO_USER_EXECUTE)
                        || may(NO_KERNEL_EXECUTE, TABLE_NO_KERNEL_EXECUTE),
                },
                global: entry & NOT_GLOBAL == 0,
                joint: if is_aligned { joint } else { 0 },
            });
            return Some(walk);
        }
        Some(walk)
    }

    fn table(entry: u64) -> Option<u64> {
        // Without the bits of addresses of more than 48 bits, whose place the entry does not tell.
        (entry & VALID != 0 && entry & TABLE != 0).then_some(entry & 0x0000_ffff_ffff_f000)
    }

    fn narrows(before: u64, after: u64) -> bool {
        let stores = |entry: u64| entry & READ_ONLY == 0;
        let lost = USER & (before & !after) | (NO_KERNEL_EXECUTE | NO_USER_EXECUTE) & (after & !before);
        let moved = (before ^ after) & (ADDRESS | TABLE) != 0;
        before & VALID != 0
            && (after & VALID == 0 || moved || lost != 0 || (stores(Self::marked(before)) && !stores(after)))
    }

    fn frame(entry: u64) -> Option<u64> {
        (entry & VALID != 0 && entry & TABLE != 0).then_some((entry & 0x0000_ffff_ffff_f000) >> PAGE)
    }

    fn thread(operands: &dyn Operands) -> Option<u64> {
        // A process and the one that it forks have threads with one value. A kernel that has the empty root in TTBR0 while
        // it runs (Linux on CPUs without PAN) is taken to return late.
        let process = operands.register(TTBR0) & 0x0000_ffff_ffff_fffe;
        let thread = Some(operands.register(THREAD)).filter(|&thread| thread != 0);
        thread.map(|thread| thread ^ process.rotate_left(32))
    }

    fn calls(code: [u8; 8]) -> bool {
        let [.., a, b, c, d] = code;
        let word = u32::from_le_bytes([a, b, c, d]);
        // BL and BLR.
        word >> 26 == 0x25 || word & 0xffff_fc1f == 0xd63f_0000
    }

    fn meaning(entry: u64) -> u64 {
        if entry & VALID == 0 {
            return 0;
        }
        let rights = USER | READ_ONLY | DIRTY_MANAGED | NO_KERNEL_EXECUTE | NO_USER_EXECUTE;
        entry & (VALID | TABLE | rights | NOT_GLOBAL | ADDRESS)
    }

    fn marked(entry: u64) -> u64 {
        if entry & VALID == 0 || entry & DIRTY_MANAGED == 0 {
            entry
        } else {
            entry & !READ_ONLY
        }
    }
}

/// Whether a syndrome is that of a fault of an instruction or an access whose entry was not valid or had no access flag:
/// neither is cached, so the CPU has walked the tables and had no translation (sections D8.15 and D24.2.40).
fn lacks(syndrome: u64) -> bool {
    let (class, status) = (syndrome >> 26 & 0x3f, syndrome & 0x3f);
    matches!(class, 0x20 | 0x21 | 0x24 | 0x25) && matches!(status, 0x04..=0x0b | 0x2b)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Registers by their places. The others are zero.
    struct Cpu<'a>(&'a [(usize, u64)]);

    impl Operands for Cpu<'_> {
        fn register(&self, index: usize) -> u64 {
            assert!(index < Aarch64::REGISTERS.len());
            self.0.iter().find(|register| register.0 == index).map_or(0, |register| register.1)
        }

        fn load(&self, _: u64) -> Option<u64> {
            None
        }
    }

    const EL1: u64 = 1 << 2;

    /// 48 bits in 4 KiB granules, and ASIDs of 16 bits in TTBR1, as Linux has them.
    const LINUX: u64 = 16 | 16 << 16 | 2 << 30 | TCR_A1 | TCR_AS | 1 << 37;

    fn on(tcr: u64, low: u64, high: u64) -> Aarch64 {
        Aarch64 { sctlr: SCTLR_M, tcr, ttbr: [low, high], level: 1, last_asid: 0, hints: Some(true) }
    }

    #[test]
    fn a_written_register_has_the_operands_value_and_the_others_their_own() {
        let mut cpu = Aarch64::default();
        let registers = Cpu(&[(6, 0x7000), (TTBR0, 0x6000), (TTBR1, 0x5000), (SCTLR, 1), (CPSR, EL1)]);
        let load = |to, from| Instruction::Load { to, from };
        assert_eq!(cpu.execute(load(Control::Ttbr(0), 6), &registers), Effect::Nothing);
        assert!(cpu.translates());
        assert_eq!(cpu.ttbr, [0x7000, 0x5000]);
        let high = Cpu(&[(6, 9 << 48), (TCR, LINUX), (TTBR1, 5 << 48), (SCTLR, 1), (CPSR, EL1)]);
        cpu.execute(load(Control::Ttbr(1), 6), &high);
        assert_eq!((cpu.asid(0), cpu.last_asid), (9, 5));
        assert_eq!(cpu.execute(load(Control::Tcr, 31), &registers), Effect::Nothing);
        assert_eq!((cpu.tcr, cpu.ttbr), (0, [0x6000, 0x5000]));
        cpu.execute(load(Control::Sctlr, 31), &registers);
        assert!(!cpu.translates() && cpu.hints == Some(false));
        // At EL2 the names are those of other registers.
        cpu.read(&Cpu(&[(SCTLR, 1), (CPSR, 2 << 2)]));
        assert!(!cpu.translates());
    }

    #[test]
    fn the_asid_is_in_the_register_that_is_chosen() {
        let (low, high) = (0x1234 << 48 | 0x1000, 0xabcd << 48 | 0x2000);
        let of = |tcr| on(tcr, low, high).asid(0);
        assert_eq!([0, TCR_A1, TCR_AS, TCR_A1 | TCR_AS].map(of), [0x34, 0xcd, 0x1234, 0xabcd]);
    }

    #[test]
    fn each_tlbi_drops_what_it_names() {
        let cpu = on(LINUX, 0, 0);
        let everything = Invalidation::EVERYTHING;
        let asid = Some(0x105);
        let operand = 0x105 << 48 | 0x1234;
        let page = Some((0x0123_4000, 1));
        for (scope, expected) in [
            (Scope::All, everything),
            (Scope::Asid, Invalidation { asid, globals: false, ..everything }),
            (Scope::Address { any: false }, Invalidation { asid, range: page, ..everything }),
            (Scope::Address { any: true }, Invalidation { range: page, ..everything }),
        ] {
            assert_eq!(cpu.dropped(scope, operand), Some(expected));
        }
        // The upper half, and ASIDs of 8 bits.
        let upper = 0x0805 << 48 | (0xffff_8000_1234_5000 & ((1 << 56) - 1)) >> 12;
        let dropped = on(LINUX & !TCR_AS, 0, 0).dropped(Scope::Address { any: false }, upper);
        let expected = Invalidation { asid: Some(5), range: Some((0xffff_8000_1234_5000, 1)), ..everything };
        assert_eq!(dropped, Some(expected));
    }

    #[test]
    fn a_level_leaves_pages_of_its_size() {
        let sizes = |tcr, level: u64| {
            on(tcr, 0, 0).dropped(Scope::Address { any: true }, level << 44).expect("an address").sizes
        };
        for (level, alone, joint) in [
            (0b0111, 12, 4),
            (0b0110, 21, 4),
            (0b0101, 30, 4),
            (0b1011, 14, 7),
            (0b1010, 25, 5),
            (0b1111, 16, 5),
            (0b1110, 29, 5),
            (0b1101, 42, 0),
        ] {
            assert_eq!(sizes(LINUX, level), 1 << alone | 1 << (alone + joint));
        }
        // The address of the upper half, whose high bits were left where the hint is: of a page of 64 KiB.
        let shifted = 0xffff_ffff_ffe0_4000 >> 12;
        let dropped = on(LINUX, 0, 0).dropped(Scope::Address { any: true }, shifted);
        let range = Some((0xffff_ffff_ffe0_4000, 1));
        assert_eq!(
            dropped,
            Some(Invalidation { range, sizes: 1 << 16 | 1 << 21, ..Invalidation::EVERYTHING })
        );
        let without = Aarch64 { hints: Some(false), ..on(LINUX, 0, 0) };
        let dropped = without.dropped(Scope::Address { any: true }, 0xf << 44);
        assert_eq!(dropped.map(|dropped| dropped.sizes), Some(u64::MAX));
        // No hints, but for 52-bit addresses.
        for (level, shift) in [(0b0100, 39), (0b1001, 36)] {
            assert_eq!((sizes(LINUX, level), sizes(LINUX | TCR_DS, level)), (u64::MAX, 1 << shift));
        }
        assert!([0b0000, 0b0011, 0b1100].iter().all(|&level| sizes(LINUX, level) == u64::MAX));
    }

    #[test]
    fn ranges_have_a_scale_and_a_granule() {
        let of = |tcr, granule: u64, level: u64, number: u64, scale: u64, base: u64| {
            let operand = 7 << 48 | granule << 46 | scale << 44 | number << 39 | level << 37 | base;
            on(tcr, 0, 0).dropped(Scope::Range { any: false }, operand)
        };
        let small = 1 << 12 | 1 << 16 | 1 << 21 | 1 << 25 | 1 << 30 | 1 << 34 | 1 << 39;
        let whole = Invalidation { asid: Some(7), sizes: small, ..Invalidation::EVERYTHING };
        let range = |start, bytes| Some(Invalidation { range: Some((start, bytes)), ..whole });
        assert_eq!(of(LINUX, 1, 0, 0, 0, 0x400), range(0x40_0000, 2 << 12));
        assert_eq!(of(LINUX, 1, 0, 31, 3, 0), range(0, 32 << 28));
        assert_eq!(of(LINUX, 1, 0, 2, 1, 0x400), range(0x40_0000, 3 << 18));
        let upper = (0xffff_8000_0040_0000_u64 >> 12) & ((1 << 37) - 1);
        assert_eq!(of(LINUX, 1, 0, 0, 0, upper), range(0xffff_8000_0040_0000, 2 << 12));
        // Of one level, which an address must fit.
        let large = Invalidation { range: Some((0x40_0000, 2 << 12)), sizes: 1 << 21 | 1 << 25, ..whole };
        assert_eq!(of(LINUX, 1, 2, 0, 0, 0x400), Some(large));
        assert_eq!(of(LINUX, 1, 2, 0, 0, 0x401), None);
        // In units of other granules, or of 64 KiB with 52-bit addresses.
        let sizes = 1 << 16 | 1 << 21 | 1 << 29 | 1 << 34 | 1 << 42 | 1 << 55;
        let of_64k = Invalidation { range: Some((0x40_0000, 2 << 16)), sizes, ..whole };
        assert_eq!(of(LINUX, 3, 0, 0, 0, 0x40), Some(of_64k));
        assert_eq!(of(LINUX | TCR_DS, 1, 0, 0, 0, 0x40), range(0x40_0000, 2 << 12));
        // A granule is not optional.
        assert_eq!(of(LINUX, 0, 0, 0, 0, 0x400), None);
    }

    #[test]
    fn tlbis_begin_what_barriers_complete() {
        let mut cpu = on(LINUX, 0, 0);
        let tlbi = decode(0xd508_831f).expect("tlbi vmalle1is");
        let begins = Effect::Begins { what: Invalidation::EVERYTHING, everywhere: true };
        assert_eq!(cpu.execute(tlbi, &Cpu(&[])), begins);
        let dsb = decode(0xd503_379f).expect("dsb nsh");
        assert_eq!(cpu.execute(dsb, &Cpu(&[])), Effect::Completes { everywhere: false });
    }

    #[test]
    fn only_a_walk_that_found_nothing_says_that_nothing_is_cached() {
        let effect = |syndrome| {
            let registers = [(FAR, 0x5a00_7000_1234_5678), (ESR, syndrome)];
            let cpu = Aarch64 { last_asid: 3, ..on(LINUX, 0, 2 << 48) };
            { cpu }.execute(Instruction::Fault, &Cpu(&registers))
        };
        let lacks = |asids| Effect::Lacks { address: 0x7000_1234_5678, asids, walks: Walks::No };
        // Of a program's or the kernel's access or instruction: translation, level 3 and 0, and access flag.
        for syndrome in [0x24 << 26 | 7, 0x20 << 26 | 0xb] {
            assert_eq!(effect(syndrome), lacks([2, 3]), "{syndrome:x}");
        }
        for syndrome in [0x25 << 26 | 0x44, 0x21 << 26 | 0xb] {
            assert_eq!(effect(syndrome), lacks([2, 2]), "{syndrome:x}");
        }
        // Permission, alignment, a system call.
        for syndrome in [0x24 << 26 | 0xf, 0x25 << 26 | 0x21, 0x15 << 26 | 7] {
            assert_eq!(effect(syndrome), Effect::Nothing, "{syndrome:x}");
        }
    }

    /// Walks tables of the given entries.
    fn walk(cpu: &Aarch64, address: u64, entries: &[(u64, u64)]) -> Option<Walk> {
        let entry = |at| entries.iter().find(|entry| entry.0 == at).map_or(0, |entry| entry.1);
        cpu.walk(address, &|at| Some(entry(at)))
    }

    /// The frame, the size and the number of entries.
    fn found(cpu: &Aarch64, address: u64, entries: &[(u64, u64)]) -> Option<(u64, u32, usize)> {
        let walk = walk(cpu, address, entries)?;
        let translation = walk.translation?;
        Some((translation.frame, translation.shift, walk.len))
    }

    #[test]
    fn granules_of_4_kib_have_pages_of_three_sizes() {
        let cpu = on(LINUX, 1, 5 << 48 | 0x4000_8000);
        let entries = [
            (0x0, 0x1000 | 3),
            (0x1000, 0x2000 | 3),
            (0x1008, 0x4000_0000 | 1),
            (0x2000, 0x3000 | 3),
            (0x2008, 0x20_0000 | 1),
            (0x3000, 0x9000 | 3),
            (0x3008, 0x9000 | 1),
            (0x8, 0x4000_0000 | 1),
            (0x4000_8800, 0x4000_9000 | 3),
            (0x4000_9000, 0x8000_0000 | 1),
        ];
        assert_eq!(found(&cpu, 0x123, &entries), Some((9, 12, 4)));
        assert_eq!(found(&cpu, 0x20_1000, &entries), Some((0x200, 21, 3)));
        assert_eq!(found(&cpu, 0x4000_1000, &entries), Some((0x40000, 30, 2)));
        assert_eq!(found(&cpu, 0xffff_8000_0000_1000, &entries), Some((0x80000, 30, 2)));
        // A block at the last level, one of 512 GiB, and an entry that is not valid: entries were read.
        for (address, len) in [(0x1000, 4), (1 << 39, 1), (1 << 40, 1)] {
            let walk = walk(&cpu, address, &entries).expect("tables");
            assert_eq!((walk.translation, walk.len, walk.levels), (None, len, 4));
        }
    }

    #[test]
    fn entries_with_the_contiguous_bit_are_joined_if_they_are_aligned() {
        let cpu = on(LINUX, 1, 0);
        let mut entries = vec![(0x0, 0x1000 | 3), (0x1000, 0x2000 | 3), (0x2000, 0x3000 | 3)];
        entries.extend([
            (0x3018, CONTIGUOUS | 0x5_3000 | 3),
            (0x3020, CONTIGUOUS | 0x5_3000 | 3),
            (0x3028, 0x5_5000 | 3),
        ]);
        let joined = |page: u64| {
            let translation = walk(&cpu, page << 12, &entries)?.translation?;
            translation.joined().map(|joined| (joined.frame, joined.shift))
        };
        assert_eq!([3, 4, 5].map(joined), [Some((0x50, 16)), None, None]);
    }

    #[test]
    fn other_granules_and_addresses_have_other_levels() {
        // 16 KiB, 47 bits: three levels with full tables, at the third 2048 entries.
        let cpu = on(0x11 | 2 << 14, 0x1_0000, 0);
        let entries = [
            (0x1_0008, 0x1_4000 | 3),
            (0x1_4010, 0x1_8000 | 3),
            (0x1_8018, 0x4_c000 | 3),
            (0x1_4018, 0x600_0001),
        ];
        let address = 1 << 36 | 2 << 25 | 3 << 14;
        assert_eq!(found(&cpu, address, &entries), Some((0x4c, 14, 3)));
        assert_eq!(found(&cpu, 1 << 36 | 3 << 25, &entries), Some((0x6000, 25, 2)));
        // 64 KiB in the upper half, 52 bits, with an address of more than 48.
        let cpu = on(12 << 16 | 3 << 30 | 6 << 32, 0, 0x10_0000 | 1 << 2);
        let entries =
            [(0x1_0000_0010_0000, 0x20_0003), (0x20_0000, 0x30_2003), (0x2_0000_0030_0008, 0x40_3003)];
        assert_eq!(found(&cpu, 0xfff0_0000_0001_0000, &entries), Some((0x30_0000_0400, 16, 3)));
        // 4 KiB with 52 bits: five levels.
        let cpu = on(0xc | TCR_DS, 0x1000 | 2 << 2, 0);
        let entries = [
            (0x2_0000_0000_1008, 0x2003 | 1 << 8),
            (0x4_0000_0000_2000, 0x3003),
            (0x3000, 0x4003),
            (0x4000, 0x5003),
            (0x5000, 0x2_0000_0000_6003 | 2 << 8),
            (0x4_0000_0000_2008, 3 << 39 | 1),
        ];
        assert_eq!(found(&cpu, 1 << 48, &entries), Some((0xa_0000_0000_6000 >> 12, 12, 5)));
        assert_eq!(found(&cpu, 1 << 48 | 1 << 39, &entries), Some((3 << 27, 39, 2)));
        // 33 bits: the first table has 8 entries.
        let cpu = on(31, 0x1040, 0);
        assert_eq!(found(&cpu, 7 << 30, &[(0x1078, 0x4000_0001)]), Some((0x40000, 30, 1)));
    }

    #[test]
    fn tables_take_rights_away() {
        let rights = |tcr, table: u64, page: u64| {
            let entries = [(0x0, 0x1000 | 3 | table), (0x1000, 0x4000_0001 | page)];
            let walk = walk(&on(tcr, 0, 0), 0, &entries);
            let translation = walk.and_then(|walk| walk.translation).expect("a block");
            (translation.rights, translation.global)
        };
        let all = Rights { store: true, user: true, execute: true };
        assert_eq!(rights(LINUX, 0, USER), (all, true));
        assert_eq!(rights(LINUX, 0, USER | NOT_GLOBAL), (all, false));
        assert_eq!(rights(LINUX, 0, READ_ONLY).0, Rights { store: false, user: false, ..all });
        let none = NO_USER_EXECUTE | NO_KERNEL_EXECUTE;
        assert_eq!(rights(LINUX, 0, USER | none).0, Rights { execute: false, ..all });
        assert_eq!(rights(LINUX, 0, USER | NO_USER_EXECUTE).0, all);
        let table = TABLE_NO_KERNEL_EXECUTE | TABLE_NO_USER | TABLE_READ_ONLY;
        let less = Rights { store: false, user: false, execute: false };
        assert_eq!(rights(LINUX, table, USER | NO_USER_EXECUTE).0, less);
        // Unless that is off.
        assert_eq!(rights(LINUX | 1 << 41, table, USER | NO_USER_EXECUTE).0, all);
    }

    #[test]
    fn what_is_off_or_unknown_is_not_walked() {
        let none = |cpu: Aarch64, address| walk(&cpu, address, &[]).is_none();
        let cpu = on(LINUX, 0x1000, 0x2000);
        assert!(!none(cpu, 0) && !none(cpu, u64::MAX));
        assert!(none(Aarch64 { sctlr: 0, ..cpu }, 0) && none(Aarch64 { level: 2, ..cpu }, 0));
        // Between the halves, and beyond.
        assert!(none(cpu, 1 << 48) && none(cpu, 0xfffe << 48) && none(cpu, 1 << 55));
        // With a tag where there are tags.
        assert!(!none(cpu, 0x5a << 56) && none(cpu, 0x5aff_ffff << 32));
        assert!(none(on(LINUX | 1 << 7, 0, 0), 0) && !none(on(LINUX | 1 << 7, 0, 0), u64::MAX));
        assert!(none(on(LINUX | 1 << 23, 0, 0), u64::MAX));
        assert!(none(on(LINUX - 1, 0, 0), 0) && none(on(LINUX | 0x3f, 0, 0), 0));
        assert!(none(on(LINUX & !(3 << 30), 0, 0), u64::MAX) && none(on(LINUX | 3 << 14, 0, 0), 0));
    }

    #[test]
    fn only_narrower_entries_need_a_flush() {
        let page = 0x9000 | 3 | USER | READ_ONLY | NO_KERNEL_EXECUTE;
        let used = 1 << 10;
        assert_eq!((Aarch64::meaning(page | used), Aarch64::meaning(page & !1)), (Aarch64::meaning(page), 0));
        for after in [page & !1, page ^ 0x1000, page & !USER, page | NO_USER_EXECUTE] {
            assert!(Aarch64::narrows(page, after), "{after:x}");
        }
        for after in [page | used, page & !READ_ONLY, page & !NO_KERNEL_EXECUTE, page | DIRTY_MANAGED] {
            assert!(!Aarch64::narrows(page, after), "{after:x}");
        }
        assert!(Aarch64::narrows(page & !READ_ONLY, page) && Aarch64::narrows(page | DIRTY_MANAGED, page));
        assert!(!Aarch64::narrows(0, page));
        assert_eq!([0x5000, 0x5001, 0x5003].map(Aarch64::table), [None, None, Some(0x5000)]);
        assert_eq!([0x5000, 0x5001, 0x5003].map(Aarch64::frame), [None, None, Some(5)]);
        let thread = |root, thread| Aarch64::thread(&Cpu(&[(THREAD, thread), (TTBR0, root)]));
        assert_eq!((thread(0, 7), thread(0x1001, 7)), (Some(7), thread(0x1000, 7)));
        assert_ne!(thread(0x1000, 7), thread(0x2000, 7));
        assert_eq!(Aarch64::thread(&Cpu(&[])), None);
        // bl, blr x1, b, br x1
        let words = [0x9400_0001_u32, 0xd63f_0020, 0x1400_0001, 0xd61f_0020];
        let code = |word: u32| u64::to_le_bytes(u64::from(word) << 32);
        assert_eq!(words.map(|word| Aarch64::calls(code(word))), [true, true, false, false]);
    }
}
