//! x86 in 64-bit mode (Intel SDM volume 3, chapter 4).

use super::{Arch, Effect, Invalidation, Operands, Rights, Translation, Walk, Walks, ARGUMENTS, PAGE};

/// What a CPU has loaded.
#[derive(Debug, Clone, Copy, Default)]
pub struct X86 {
    cr0: u64,
    cr3: u64,
    cr4: u64,
    efer: u64,
}

const CR0_WP: u64 = 1 << 16;
const CR0_PG: u64 = 1 << 31;
const CR4_PSE: u64 = 1 << 4;
const CR4_PAE: u64 = 1 << 5;
const CR4_PGE: u64 = 1 << 7;
const CR4_LA57: u64 = 1 << 12;
const CR4_PCIDE: u64 = 1 << 17;
const CR4_SMEP: u64 = 1 << 20;
const EFER_LMA: u64 = 1 << 10;
const EFER_LME: u64 = 1 << 8;
/// In a value for CR3 where there are PCIDs: nothing is dropped (section 4.10.4.1).
const CR3_KEEPS: u64 = 1 << 63;

/// In an entry.
const PRESENT: u64 = 1;
const WRITABLE: u64 = 1 << 1;
const USER: u64 = 1 << 2;
/// It was stored to. The processor sets that at a store, unless it has a translation that it made after an earlier one.
const DIRTY: u64 = 1 << 6;
const LARGE: u64 = 1 << 7;
const GLOBAL: u64 = 1 << 8;
const NO_EXECUTE: u64 = 1 << 63;
const ADDRESS: u64 = 0x000f_ffff_ffff_f000;

/// The places of registers in [`Arch::REGISTERS`] after the sixteen of general use, which have their own numbers.
const FS_BASE: usize = 16;
const GS_BASE: usize = 17;
const CR0: usize = 18;
const CR3: usize = 19;
const CR4: usize = 20;
const EFER: usize = 21;
const RIP: usize = 22;
const CR2: usize = 23;

/// An address as an instruction names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Address {
    /// The register with the base of its segment.
    segment: Option<u8>,
    base: Option<u8>,
    /// An index and its factor's power of two.
    index: Option<(u8, u8)>,
    offset: i32,
    /// It has 32 bits.
    short: bool,
}

impl Address {
    /// The address in a register.
    #[cfg(test)]
    pub(crate) fn base(register: u8) -> Self {
        Self { base: Some(register), ..Self::default() }
    }

    fn of(self, operands: &dyn Operands) -> u64 {
        let register = |number: u8| operands.register(number.into());
        let base = self.base.map_or(0, register);
        let index = self.index.map_or(0, |(number, power)| register(number) << power);
        let address = base.wrapping_add(index).wrapping_add(i64::from(self.offset) as u64);
        let address = if self.short { address & u64::from(u32::MAX) } else { address };
        address.wrapping_add(self.segment.map_or(0, register))
    }
}

/// An instruction that matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Instruction {
    /// MOV to a control register, from a register of general use.
    Control {
        /// The control register.
        number: u8,
        /// The register of general use.
        from: u8,
    },
    /// MOV from CR2, as the handlers of page faults begin with.
    Fault,
    /// INVLPG.
    Page(Address),
    /// INVPCID.
    Asid {
        /// The register with its type.
        kind: u8,
        /// The place of its descriptor.
        descriptor: Address,
    },
}

impl X86 {
    fn has_pcids(&self) -> bool {
        self.cr4 & CR4_PCIDE != 0
    }

    fn pcid(&self) -> u16 {
        if self.has_pcids() {
            (self.cr3 & 0xfff) as u16
        } else {
            0
        }
    }

    fn control(&mut self, number: u8, value: u64) -> Option<Invalidation> {
        match number {
            0 => {
                let before = std::mem::replace(&mut self.cr0, value);
                ((before ^ value) & CR0_PG != 0).then_some(Invalidation::EVERYTHING)
            }
            3 => {
                let keeps = self.has_pcids() && value & CR3_KEEPS != 0;
                self.cr3 = value & !CR3_KEEPS;
                let asid = Some(self.pcid());
                let own = Invalidation { asid, globals: false, ..Invalidation::EVERYTHING };
                (!keeps).then_some(own)
            }
            4 => {
                let before = std::mem::replace(&mut self.cr4, value);
                // Section 4.10.4.1. SMEP and PCIDE drop in one direction alone; in the other nothing is dropped.
                let changed = before ^ value;
                let drops = changed & (CR4_PGE | CR4_PSE | CR4_PAE | CR4_LA57) != 0
                    || before & !value & CR4_PCIDE != 0
                    || !before & value & CR4_SMEP != 0;
                drops.then_some(Invalidation::EVERYTHING)
            }
            _ => None,
        }
    }
}

impl X86 {
    /// What an instruction drops, of its own CPU.
    fn drops(&mut self, instruction: Instruction, operands: &dyn Operands) -> Option<Invalidation> {
        match instruction {
            Instruction::Fault => None,
            Instruction::Control { number, from } => {
                // EFER is written by another instruction, before paging begins.
                self.efer = operands.register(EFER);
                self.control(number, operands.register(from.into()))
            }
            Instruction::Page(address) => Some(Invalidation {
                asid: Some(self.pcid()),
                range: Some((address.of(operands), 1)),
                // Those of all addresses (section 4.10.4.1).
                walks: Walks::OfAsid,
                ..Invalidation::EVERYTHING
            }),
            Instruction::Asid { kind, descriptor } => {
                let descriptor = descriptor.of(operands);
                let [pcid, address] = [0, 8].map(|offset| operands.load(descriptor.wrapping_add(offset)));
                let (pcid, address) = ((pcid? & 0xfff) as u16, address?);
                let all = Invalidation::EVERYTHING;
                let own = Invalidation { asid: Some(pcid), globals: false, ..all };
                Some(match operands.register(kind.into()) {
                    0 => Invalidation { range: Some((address, 1)), ..own },
                    1 => own,
                    2 => all,
                    3 => Invalidation { globals: false, ..all },
                    _ => return None,
                })
            }
        }
    }
}

impl Arch for X86 {
    type Instruction = Instruction;

    const PC: usize = RIP;

    // RDI, RSI, RDX, RCX, R8, R9 (System V ABI).
    const ARGUMENTS: [usize; ARGUMENTS] = [7, 6, 2, 1, 8, 9];

    const STACK: usize = 4;

    const REGISTERS: &'static [&'static str] = &[
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
        "r14", "r15", "fs_base", "gs_base", "cr0", "cr3", "cr4", "efer", "rip", "cr2",
    ];

    fn decode(bytes: &[u8]) -> Option<Instruction> {
        decode(bytes)
    }

    fn read(&mut self, operands: &dyn Operands) {
        let [cr0, cr3, cr4, efer] = [CR0, CR3, CR4, EFER].map(|index| operands.register(index));
        *self = Self { cr0, cr3, cr4, efer };
    }

    fn execute(&mut self, instruction: Instruction, operands: &dyn Operands) -> Effect {
        if instruction == Instruction::Fault {
            // A page fault drops what is cached of its address, and of the tables on the way to it (section 4.10.4.1).
            let asids = [self.pcid(); 2];
            return Effect::Lacks { address: operands.register(CR2), asids, walks: Walks::Named };
        }
        if matches!(instruction, Instruction::Control { .. })
            && self.cr0 & CR0_PG != 0
            && operands.register(CR0) & CR0_PG == 0
        {
            // No instruction has ended paging: INIT, an SMI or a reset has.
            self.read(operands);
            self.drops(instruction, operands);
            return Effect::Restarts;
        }
        self.drops(instruction, operands).map_or(Effect::Nothing, Effect::Drops)
    }

    fn translates(&self) -> bool {
        let long = self.efer & (EFER_LMA | EFER_LME) != 0 && self.cr4 & CR4_PAE != 0;
        long && self.cr0 & CR0_PG != 0
    }

    fn asid(&self, _: u64) -> u16 {
        self.pcid()
    }

    fn walk(&self, address: u64, load: &dyn Fn(u64) -> Option<u64>) -> Option<Walk> {
        if !self.translates() {
            return None;
        }
        let levels = if self.cr4 & CR4_LA57 == 0 { 4 } else { 5 };
        let mut walk = Walk::new(levels as usize, PAGE);
        let mut table = self.cr3 & ADDRESS;
        let mut rights = Rights { store: true, user: true, execute: true };
        for level in (0..levels).rev() {
            let shift = PAGE + 9 * level;
            walk.reads(table + (address >> shift & 0x1ff) * 8);
            let entry = load(walk.last())?;
            if entry & PRESENT == 0 {
                return Some(walk);
            }
            rights.store &= entry & WRITABLE != 0;
            rights.user &= entry & USER != 0;
            rights.execute &= entry & NO_EXECUTE == 0;
            if level == 0 || (entry & LARGE != 0 && level < 3) {
                rights.store &= entry & DIRTY != 0;
                // The kernel may store anywhere without it.
                rights.store |= self.cr0 & CR0_WP == 0;
                walk.translation = Some(Translation {
                    frame: (entry & ADDRESS) >> shift << (shift - PAGE),
                    shift,
                    rights,
                    global: entry & GLOBAL != 0 && self.cr4 & CR4_PGE != 0,
                    joint: 0,
                });
                return Some(walk);
            }
            table = entry & ADDRESS;
        }
        Some(walk)
    }

    fn table(entry: u64) -> Option<u64> {
        (entry & PRESENT != 0 && entry & LARGE == 0).then_some(entry & ADDRESS)
    }

    fn narrows(before: u64, after: u64) -> bool {
        let lost = (WRITABLE | DIRTY | USER) & (before & !after) | NO_EXECUTE & (after & !before);
        before & PRESENT != 0 && (after & PRESENT == 0 || (before ^ after) & ADDRESS != 0 || lost != 0)
    }

    fn frame(entry: u64) -> Option<u64> {
        (entry & PRESENT != 0).then_some((entry & ADDRESS) >> PAGE)
    }

    fn thread(operands: &dyn Operands) -> Option<u64> {
        // A process and the one that it forks have threads with one base. With page-table isolation a process has two
        // roots, which differ in one bit, and two PCIDs.
        let process = operands.register(CR3) & ADDRESS & !(1 << PAGE);
        Some(operands.register(FS_BASE)).filter(|&base| base != 0).map(|base| base ^ process.rotate_left(32))
    }

    fn calls(code: [u8; 8]) -> bool {
        // CALL of a distance, and through a register or memory: FF /2, with an operand of up to six bytes.
        let through = |at: usize| code[at] == 0xff && code[at + 1] >> 3 & 7 == 2;
        code[3] == 0xe8 || [1, 2, 4, 5, 6].into_iter().any(through)
    }

    fn meaning(entry: u64) -> u64 {
        if entry & PRESENT == 0 {
            return 0;
        }
        entry & (PRESENT | WRITABLE | dirty(entry) | USER | LARGE | GLOBAL | NO_EXECUTE | ADDRESS)
    }

    fn marked(entry: u64) -> u64 {
        if entry & PRESENT == 0 {
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

/// Reads an instruction of 64-bit mode, or one of another mode with the same bytes.
fn decode(bytes: &[u8]) -> Option<Instruction> {
    let (mut segment, mut short, mut narrow, mut at) = (None, false, false, 0);
    loop {
        match *bytes.get(at)? {
            0x64 => segment = Some(FS_BASE as u8),
            0x65 => segment = Some(GS_BASE as u8),
            0x66 => narrow = true,
            0x67 => short = true,
            0x26 | 0x2e | 0x36 | 0x3e | 0xf0 | 0xf2 | 0xf3 => {}
            _ => break,
        }
        at += 1;
    }
    let rex = Some(bytes[at]).filter(|byte| byte & 0xf0 == 0x40);
    at += usize::from(rex.is_some());
    let rex = rex.unwrap_or(0);
    let rest = bytes.get(at..)?;
    let memory = |after: usize| {
        let operand = Address { segment, short, ..Address::default() };
        address(operand, rex, rest.get(after..)?, at + after)
    };
    match *rest {
        [0x0f, 0x22, mode, ..] => {
            let number = (mode >> 3 & 7) | (rex & 4) << 1;
            Some(Instruction::Control { number, from: (mode & 7) | (rex & 1) << 3 })
        }
        [0x0f, 0x20, mode, ..] if (mode >> 3 & 7) | (rex & 4) << 1 == 2 => Some(Instruction::Fault),
        [0x0f, 0x01, mode, ..] if mode >> 3 & 7 == 7 && mode >> 6 != 3 => Some(Instruction::Page(memory(2)?)),
        [0x0f, 0x38, 0x82, mode, ..] if narrow && mode >> 6 != 3 => {
            Some(Instruction::Asid { kind: (mode >> 3 & 7) | (rex & 4) << 1, descriptor: memory(3)? })
        }
        _ => None,
    }
}

/// Reads the operand in memory whose bytes begin with `ModRM`, `before` bytes after the instruction's first.
fn address(mut operand: Address, rex: u8, bytes: &[u8], before: usize) -> Option<Address> {
    let mode = *bytes.first()?;
    let mut at = 1;
    let mut has_offset = mode >> 6 == 2;
    match mode & 7 {
        4 => {
            let scaled = *bytes.get(1)?;
            at = 2;
            let index = (scaled >> 3 & 7) | (rex & 2) << 2;
            operand.index = (index != 4).then_some((index, scaled >> 6));
            if scaled & 7 == 5 && mode >> 6 == 0 {
                has_offset = true;
            } else {
                operand.base = Some((scaled & 7) | (rex & 1) << 3);
            }
        }
        5 if mode >> 6 == 0 => {
            has_offset = true;
            operand.base = Some(RIP as u8);
        }
        register => operand.base = Some(register | (rex & 1) << 3),
    }
    if has_offset {
        operand.offset = i32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?);
        at += 4;
    } else if mode >> 6 == 1 {
        operand.offset = i32::from((*bytes.get(at)?).cast_signed());
        at += 1;
    }
    if operand.base == Some(RIP as u8) {
        // It counts from the end of the instruction.
        operand.offset = operand.offset.wrapping_add_unsigned((before + at) as u32);
    }
    Some(operand)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Cpu(Vec<u64>);

    impl Operands for Cpu {
        fn register(&self, index: usize) -> u64 {
            self.0[index]
        }

        fn load(&self, address: u64) -> Option<u64> {
            Some(address)
        }
    }

    /// Registers of which each holds 0x1000 times one more than its place.
    fn cpu() -> Cpu {
        Cpu((1..=X86::REGISTERS.len() as u64).map(|place| 0x1000 * place).collect())
    }

    #[test]
    fn addresses_are_those_that_the_processor_takes() {
        let of = |bytes: &[u8]| match decode(bytes) {
            Some(Instruction::Page(address)) => address.of(&cpu()),
            other => panic!("{bytes:x?}: {other:?}"),
        };
        let all: [(&[u8], u64); 9] = [
            (&[0x0f, 0x01, 0x3f], 0x8000),                                    // (%rdi)
            (&[0x41, 0x0f, 0x01, 0x3f], 0x10000),                             // (%r15)
            (&[0x0f, 0x01, 0x7f, 0xff], 0x7fff),                              // -1(%rdi)
            (&[0x0f, 0x01, 0xbf, 0, 1, 0, 0], 0x8100),                        // 256(%rdi)
            (&[0x0f, 0x01, 0x3c, 0x24], 0x5000),                              // (%rsp)
            (&[0x0f, 0x01, 0x3c, 0xf8], 0x1000 + 8 * 0x8000),                 // (%rax,%rdi,8)
            (&[0x0f, 0x01, 0x3c, 0x25, 0x78, 0x56, 0x34, 0x12], 0x1234_5678), // absolute
            (&[0x0f, 0x01, 0x3d, 0x10, 0, 0, 0], 0x17000 + 0x17),             // 16(%rip)
            (&[0x65, 0x0f, 0x01, 0x3f], 0x1a000),                             // %gs:(%rdi)
        ];
        for (bytes, expected) in all {
            assert_eq!(of(bytes), expected, "{bytes:x?}");
        }
    }

    #[test]
    fn what_is_dropped_is_what_the_manual_says() {
        let mut cpu = X86 { cr4: CR4_PAE | CR4_PGE, ..X86::default() };
        let own = |asid| Some(Invalidation { asid: Some(asid), globals: false, ..Invalidation::EVERYTHING });
        assert_eq!(cpu.control(3, 0x5000), own(0));
        assert_eq!(cpu.control(4, CR4_PAE), Some(Invalidation::EVERYTHING));
        assert_eq!(cpu.control(4, CR4_PAE | CR4_PCIDE), None);
        assert_eq!(cpu.control(3, 0x5007), own(7));
        assert_eq!((cpu.control(3, CR3_KEEPS | 0x6008), cpu.pcid(), cpu.cr3), (None, 8, 0x6008));
        assert_eq!(cpu.control(4, CR4_PAE | CR4_PCIDE | CR4_SMEP), Some(Invalidation::EVERYTHING));
        assert_eq!(cpu.control(4, CR4_PAE | CR4_PCIDE), None);
        assert_eq!(cpu.control(4, CR4_PAE), Some(Invalidation::EVERYTHING));
        assert_eq!(cpu.control(0, CR0_PG), Some(Invalidation::EVERYTHING));
        assert_eq!((cpu.control(0, CR0_PG | 1), cpu.control(8, 3)), (None, None));
    }

    #[test]
    fn invpcid_has_four_types() {
        let decoded = decode(&[0x66, 0x0f, 0x38, 0x82, 0x07]).expect("invpcid (%rdi), %rax");
        let all = Invalidation::EVERYTHING;
        let own = Invalidation { asid: Some(0), globals: false, ..all };
        for (kind, expected) in [
            (0, Some(Invalidation { range: Some((0x8008, 1)), ..own })),
            (1, Some(own)),
            (2, Some(all)),
            (3, Some(Invalidation { globals: false, ..all })),
            (4, None),
        ] {
            let mut registers = cpu();
            registers.0[0] = kind;
            assert_eq!(X86::default().drops(decoded, &registers), expected, "{kind}");
        }
    }

    #[test]
    fn other_instructions_do_nothing() {
        let all: [&[u8]; 7] = [
            &[0x0f, 0x01, 0xf8],        // swapgs
            &[0x0f, 0x01, 0x38 | 0xc0], // a register is no page
            &[0x0f, 0x38, 0x82, 0x07],  // invpcid has a prefix
            &[0x0f, 0x20, 0xd8],        // mov from cr3
            &[0x90],
            &[0x66],
            &[],
        ];
        for bytes in all {
            assert_eq!(decode(bytes), None, "{bytes:x?}");
        }
        assert_eq!(decode(&[0x0f, 0x22, 0xdf]), Some(Instruction::Control { number: 3, from: 7 }));
        assert_eq!(decode(&[0x44, 0x0f, 0x22, 0xc0]), Some(Instruction::Control { number: 8, from: 0 }));
        assert_eq!(decode(&[0x41, 0x0f, 0x20, 0xd7]), Some(Instruction::Fault));
        // mov %cr2, %r15
    }

    #[test]
    fn a_cpu_that_no_instruction_took_out_of_paging_was_reset() {
        let control = Instruction::Control { number: 0, from: 0 };
        let (mut registers, mut own) = (cpu(), X86 { cr0: CR0_PG, ..X86::default() });
        registers.0[CR0] = CR0_PG;
        registers.0[0] = CR0_PG | CR0_WP;
        assert_eq!(own.execute(control, &registers), Effect::Nothing);
        registers.0[CR0] = 0x10;
        registers.0[0] = 0x11;
        assert_eq!((own.execute(control, &registers), own.cr0), (Effect::Restarts, 0x11));
        assert_eq!(own.execute(control, &registers), Effect::Nothing);
    }

    #[test]
    fn a_thread_is_of_a_process() {
        let of = |root: u64, base: u64| {
            let mut registers = cpu();
            (registers.0[CR3], registers.0[FS_BASE]) = (root, base);
            X86::thread(&registers)
        };
        assert_eq!((of(0x2000, 0), of(0x2000, 7)), (None, of(0x3005, 7)));
        assert!(of(0x2000, 7) != of(0x4000, 7) && of(0x2000, 7) != of(0x2000, 8));
    }

    #[test]
    fn a_fault_drops_what_is_cached_of_its_address() {
        let mut x86 = X86 { cr4: CR4_PCIDE, cr3: 7, ..X86::default() };
        let expected =
            Effect::Lacks { address: 0x1000 * (CR2 as u64 + 1), asids: [7, 7], walks: Walks::Named };
        assert_eq!(x86.execute(Instruction::Fault, &cpu()), expected);
    }

    #[test]
    fn calls_are_known_by_their_ends() {
        for (code, expected) in [
            ([0, 0, 0, 0xe8, 1, 2, 3, 4], true),       // call +x
            ([0, 0, 0, 0, 0, 0, 0xff, 0xd0], true),    // call *%rax
            ([0, 0, 0, 0, 0, 0x41, 0xff, 0xd3], true), // call *%r11
            ([0, 0, 0, 0, 0, 0xff, 0x50, 8], true),    // call *8(%rax)
            ([0, 0, 0xff, 0x15, 1, 2, 3, 4], true),    // call *x(%rip)
            ([0, 0xff, 0x14, 0xc5, 1, 2, 3, 4], true), // call *x(,%rax,8)
            ([0, 0, 0, 0, 0, 0, 0xff, 0xe0], false),   // jmp *%rax
            ([0x90; 8], false),
        ] {
            assert_eq!(X86::calls(code), expected, "{code:x?}");
        }
    }

    #[test]
    fn tables_are_walked_to_pages_of_three_sizes() {
        let cpu = X86 { cr0: CR0_PG | CR0_WP, cr3: 0x1000, cr4: CR4_PAE | CR4_PGE, efer: EFER_LME };
        let entries = [
            (0x1000, 0x2000 | 7),
            (0x2000, 0x3000 | 7),
            (0x2008, 0x4000_0000 | LARGE | GLOBAL | DIRTY | 3),
            (0x3000, 0x4000 | 7),
            (0x3008, 0x20_0000 | LARGE | 5),
            (0x4000, 0x9000 | NO_EXECUTE | DIRTY | 7),
        ];
        let load = |address| Some(entries.iter().find(|entry| entry.0 == address).map_or(0, |entry| entry.1));
        let of = |address| cpu.walk(address, &load).and_then(|walk| Some((walk.translation?, walk.len)));
        let all = Rights { store: true, user: true, execute: true };
        let page = Translation { frame: 9, shift: 12, rights: all, global: false, joint: 0 };
        let small = Translation { rights: Rights { execute: false, ..all }, ..page };
        assert_eq!(of(0), Some((small, 4)));
        let large = Translation { frame: 0x200, shift: 21, rights: Rights { store: false, ..all }, ..page };
        assert_eq!(of(0x20_0000), Some((large, 3)));
        assert_eq!(large.frame_of(0x20_3000), 0x203);
        let huge = Translation { frame: 0x40000, shift: 30, rights: Rights { user: false, ..all }, ..page };
        assert_eq!(of(0x4000_0000), Some((Translation { global: true, ..huge }, 2)));
        assert_eq!((of(0x1000), of(1 << 39)), (None, None));
        assert!(X86 { cr0: 0, ..cpu }.walk(0, &load).is_none());
    }
}
