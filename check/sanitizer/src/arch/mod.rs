//! What architectures have in common: translations, the walk of page tables, and the invalidation of cached ones.

pub mod aarch64;
pub mod riscv64;
pub mod x86;

/// The bits of a page's offset, of the smallest size.
pub const PAGE: u32 = 12;

/// What a translation allows beyond loads by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights {
    /// Stores, without the page's being marked as written first: that takes a walk.
    pub store: bool,
    /// Accesses by programs.
    pub user: bool,
    /// Instructions.
    pub execute: bool,
}

/// A translation, as a page-table entry of the lowest level has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Translation {
    /// The first frame, in units of the smallest page.
    pub frame: u64,
    /// The size of the page: two to this power.
    pub shift: u32,
    /// What it allows.
    pub rights: Rights,
    /// It is used under every ASID.
    pub global: bool,
    /// The power of two of the pages that a CPU may cache as one, of which it is one. 0: it is alone.
    pub joint: u32,
}

impl Translation {
    /// The translation of all pages that a CPU may cache as one. `None`: it is alone.
    pub(crate) fn joined(&self) -> Option<Self> {
        let shift = self.shift + self.joint;
        let frame = self.frame >> (shift - PAGE) << (shift - PAGE);
        (self.joint > 0).then_some(Self { frame, shift, joint: 0, ..*self })
    }

    /// The frame behind an address of the page.
    pub fn frame_of(&self, address: u64) -> u64 {
        self.frame + (address >> PAGE & ((1 << (self.shift - PAGE)) - 1))
    }
}

/// The most levels of page tables.
pub const LEVELS: usize = 5;

/// A walk of page tables.
#[derive(Debug, Clone, Copy)]
pub struct Walk {
    /// The physical addresses of the entries that were read, from the root on.
    pub entries: [u64; LEVELS],
    /// The number of them.
    pub len: usize,
    /// The levels of the tables. An entry of the last one leads to no table.
    pub levels: usize,
    /// The power of two of a page and of a table.
    pub granule: u32,
    /// `None`: the last entry is not present.
    pub translation: Option<Translation>,
}

impl Walk {
    /// A walk that has read nothing yet.
    pub fn new(levels: usize, granule: u32) -> Self {
        Self { entries: [0; LEVELS], len: 0, levels, granule, translation: None }
    }

    /// The power of two of what the table with the entry of this index translates.
    pub(crate) fn table_shift(&self, index: usize) -> u32 {
        self.granule + (self.levels - index) as u32 * (self.granule - 3)
    }

    /// Notes that an entry is read next.
    pub fn reads(&mut self, entry: u64) {
        self.entries[self.len] = entry;
        self.len += 1;
    }

    /// The address of the last entry.
    pub fn last(&self) -> u64 {
        self.entries[self.len - 1]
    }
}

/// The cached translations that an instruction drops, of its own CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Invalidation {
    /// Of this ASID alone. `None`: of all.
    pub asid: Option<u16>,
    /// Of the pages with an address in this range alone: its first address, and its bytes.
    pub range: Option<(u64, u64)>,
    /// Global ones too.
    pub globals: bool,
    /// Of pages of these sizes alone: a bit for each size's power of two.
    pub sizes: u64,
    /// The page tables that a CPU may have cached on its way to them.
    pub walks: Walks,
}

/// Which of the page tables that a CPU may have cached, to walk them from there, an instruction drops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Walks {
    /// None.
    No,
    /// Those on the way to the pages that it names.
    Named,
    /// Those of the ASID that it names.
    OfAsid,
}

impl Invalidation {
    /// Whether a page table is among those that it drops: one of an ASID that translates two to this power from an address
    /// on.
    pub fn names_table(&self, asid: u16, shift: u32, address: u64) -> bool {
        let of_asid = self.asid.is_none_or(|own| own == asid);
        of_asid
            && match self.walks {
                Walks::No => false,
                Walks::Named => self.is_in_range(shift, address),
                Walks::OfAsid => true,
            }
    }

    fn is_in_range(&self, shift: u32, address: u64) -> bool {
        self.range.is_none_or(|(start, bytes)| {
            let last = start.saturating_add(bytes.saturating_sub(1));
            (start >> shift..=last >> shift).contains(&(address >> shift))
        })
    }

    /// Whether a translation is among them: one of an ASID, or a global one, of a page with a size's power of two.
    pub fn names(&self, asid: u16, global: bool, shift: u32, address: u64) -> bool {
        let of_set = if global { self.globals } else { self.asid.is_none_or(|own| own == asid) };
        of_set && self.is_in_range(shift, address) && self.sizes >> shift & 1 != 0
    }

    /// All translations.
    pub const EVERYTHING: Self =
        Self { asid: None, range: None, globals: true, sizes: u64::MAX, walks: Walks::Named };
}

/// What an instruction does to cached translations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing.
    Nothing,
    /// Nothing, but its CPU was reset since its last instruction, and has nothing cached.
    Restarts,
    /// It changes what is loaded, but the registers tell only afterwards how. They are read before the next instruction.
    Loads,
    /// It drops some of its own CPU.
    Drops(Invalidation),
    /// It begins to drop some: of its own CPU, or `everywhere`. A CPU may use them until one of the beginner's
    /// instructions completes that.
    Begins {
        /// What is dropped.
        what: Invalidation,
        /// Of all CPUs.
        everywhere: bool,
    },
    /// Its CPU has faulted for an address, and has no translation of it cached.
    Lacks {
        /// The address.
        address: u64,
        /// The ASIDs under which it may have walked.
        asids: [u16; 2],
        /// The page tables on the way to it that its CPU no longer has cached either.
        walks: Walks,
    },
    /// It overwrites a block of memory with zeros, which the emulator does not tell as a store. No frame of which a kernel
    /// clears a block so is a page table any longer.
    Zeroes {
        /// An address of the block.
        address: u64,
    },
    /// It completes what its CPU has begun: of its own translations, and those of others only if `everywhere`.
    Completes {
        /// Also of other CPUs.
        everywhere: bool,
    },
}

/// The registers and the memory of a CPU that executes an instruction.
pub trait Operands {
    /// The value of a register, by its place in [`Arch::REGISTERS`].
    fn register(&self, index: usize) -> u64;
    /// Eight bytes at a virtual address.
    fn load(&self, address: u64) -> Option<u64>;
}

/// The arguments that a function has in registers on every architecture.
pub const ARGUMENTS: usize = 6;

/// What a CPU of an architecture has loaded, and what its instructions do to translations.
pub trait Arch: Default + Send + 'static {
    /// An instruction that changes what is loaded or drops translations.
    type Instruction: Copy + std::fmt::Debug + Send + Sync;

    /// The names that QEMU has for the registers that operands may need. `|` is between names of the same one.
    const REGISTERS: &'static [&'static str];

    /// The places of those of them that a CPU may lack. They are read as 0 then.
    const LACKED: &'static [usize] = &[];

    /// A CPU that [translates](Self::translates) may be in a mode in which it does not, which no register here tells. Its
    /// accesses have their virtual addresses as physical ones, and other accesses with such addresses do not matter.
    const UNTRANSLATED: bool = false;

    /// The place of the program counter among the registers.
    const PC: usize;

    /// The places of the registers with a function's first arguments.
    const ARGUMENTS: [usize; ARGUMENTS];

    /// The place of the stack pointer among the registers.
    const STACK: usize;

    /// The place of the register with the address to which the newest function returns, until that is on the stack.
    const LINK: Option<usize> = None;

    /// Reads an instruction. `None`: it does nothing to translations.
    fn decode(bytes: &[u8]) -> Option<Self::Instruction>;

    /// Reads what is loaded from the registers.
    fn read(&mut self, operands: &dyn Operands);

    /// Does what an instruction will do to what is loaded. Returns what it does to cached translations.
    fn execute(&mut self, instruction: Self::Instruction, operands: &dyn Operands) -> Effect;

    /// Whether it translates addresses, in a mode that is known here.
    fn translates(&self) -> bool;

    /// The ASID under which the CPU caches translations that are not global.
    fn asid(&self, address: u64) -> u16;

    /// Walks the page tables. `None`: the CPU translates nothing, in a mode that is not known here, or has tables that
    /// cannot be read.
    fn walk(&self, address: u64, load: &dyn Fn(u64) -> Option<u64>) -> Option<Walk>;

    /// The physical address of the table to which an entry of an upper level leads.
    fn table(entry: u64) -> Option<u64>;

    /// Whether a translation may do what it may no longer after a change of its entry: it leads elsewhere, or has lost
    /// rights. Widened rights need no flush.
    fn narrows(before: u64, after: u64) -> bool;

    /// The frame of a page of the smallest size, of an entry of the last level.
    fn frame(entry: u64) -> Option<u64>;

    /// The thread of a program that a CPU runs, by a register that each thread has for itself. `None`: it is not known.
    fn thread(operands: &dyn Operands) -> Option<u64>;

    /// Whether code ends with a call: what is behind it is an address to which a function returns.
    fn calls(code: [u8; 8]) -> bool;

    /// What of an entry matters to a translation: not whether it was used.
    fn meaning(entry: u64) -> u64;

    /// An entry as it may be once a page was stored to, which processors mark by themselves.
    fn marked(entry: u64) -> u64;
}
