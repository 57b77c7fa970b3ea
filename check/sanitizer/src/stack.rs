//! Where a CPU was: the instruction, and the functions that had called its own, as far as the stack tells.
//!
//! Kernels often keep no frame pointers, and nothing here reads debug information. So words of the stack that lie in the
//! kernel's code are kept, and those of them behind a call are taken for addresses to which functions return. A word that
//! an earlier call has left on the stack may be among them.

use crate::arch::{Arch, Operands, PAGE};
use crate::find::Place;
use crate::ram::Ram;

/// The words that are kept.
const KEPT: usize = 12;

/// The words of the stack that are looked at, if the stack's page has so many.
const LOOKED_AT: u64 = 128;

/// The code of a kernel. Without it no callers are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Code {
    /// Its first address.
    pub first: u64,
    /// Its bytes, of which the first 4 GiB count.
    pub bytes: u64,
}

impl Code {
    /// The offset of an address behind the first, if it is of the code.
    fn offset(&self, address: u64) -> Option<u32> {
        let offset = address.wrapping_sub(self.first);
        (offset < self.bytes).then(|| u32::try_from(offset).ok()).flatten()
    }
}

/// Words of a stack that lie in the kernel's code, newest first, as offsets in it. 0: no more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Stack([u32; KEPT]);

impl Stack {
    /// The stack of a CPU.
    pub(crate) fn of<A: Arch>(code: &Code, arch: &A, operands: &dyn Operands, ram: &Ram) -> Self {
        let mut stack = Self::default();
        if code.bytes == 0 {
            return stack;
        }
        let mut kept = stack.0.iter_mut();
        let mut keep = |word: u64| match code.offset(word) {
            Some(offset) => kept.next().map(|place| *place = offset).is_some(),
            None => true,
        };
        if let Some(link) = A::LINK {
            keep(operands.register(link));
        }
        let top = operands.register(A::STACK) & !7;
        let Some(physical) = physical(arch, top, ram) else { return stack };
        let words = LOOKED_AT.min(((1 << PAGE) - (top & ((1 << PAGE) - 1))) / 8);
        for word in 0..words {
            if !ram.load(physical + 8 * word).is_some_and(&mut keep) {
                break;
            }
        }
        stack
    }

    /// The addresses to which functions return, newest first.
    fn callers<A: Arch>(&self, code: &Code, arch: &A, ram: &Ram) -> Vec<u64> {
        let words = self.0.iter().take_while(|&&offset| offset != 0);
        let addresses = words.map(|&offset| code.first + u64::from(offset));
        let mut callers: Vec<u64> =
            addresses.filter(|&address| before(arch, address, ram).is_some_and(A::calls)).collect();
        callers.dedup();
        callers
    }
}

/// The physical address behind a virtual one.
fn physical<A: Arch>(arch: &A, address: u64, ram: &Ram) -> Option<u64> {
    let translation = arch.walk(address, &|entry| ram.load(entry))?.translation?;
    Some(translation.frame_of(address) << PAGE | address & ((1 << PAGE) - 1))
}

/// The eight bytes before an address.
fn before<A: Arch>(arch: &A, address: u64, ram: &Ram) -> Option<[u8; 8]> {
    let first = address.wrapping_sub(8);
    let word = |at: u64| ram.load(physical(arch, at, ram)?);
    let (low, shift) = (word(first & !7)?, first % 8 * 8);
    let high = if shift == 0 { 0 } else { word(address & !7)? << (64 - shift) };
    Some((low >> shift | high).to_le_bytes())
}

/// Where a CPU was, as it is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spot {
    pub(crate) cpu: usize,
    /// The time in nanoseconds.
    pub(crate) time: u64,
    pub(crate) instruction: u64,
    pub(crate) stack: Stack,
}

impl Spot {
    /// The same, as a report has it.
    pub(crate) fn place<A: Arch>(&self, code: &Code, arch: &A, ram: &Ram) -> Place {
        let Self { cpu, time, instruction, stack } = *self;
        Place { cpu, time, instruction, callers: stack.callers(code, arch, ram) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::x86::X86;

    /// A CPU with its tables in the first four pages, and its stack in the sixth.
    struct Guest;

    impl Operands for Guest {
        fn register(&self, index: usize) -> u64 {
            match X86::REGISTERS[index] {
                "cr0" => 1 << 31,
                "cr4" => 1 << 5,
                "efer" => 1 << 10,
                "rsp" => 0x5fd0,
                _ => 0,
            }
        }

        fn load(&self, _: u64) -> Option<u64> {
            None
        }
    }

    #[test]
    fn callers_are_words_of_the_stack_behind_calls() {
        let mut memory = vec![0_u64; 6 << 9];
        for level in 0..3 {
            memory[level << 9] = (level as u64 + 1) << PAGE | 7;
        }
        for page in 3..6 {
            memory[3 << 9 | page] = (page as u64) << PAGE | 7;
        }
        // Calls end at 0x4005 and 0x4011.
        memory[0x4000 / 8] = 0xe8;
        memory[0x4008 / 8] = 0x00e8 << 32;
        let words = [7, 0x4005, 0x4006, 0x9000, 0x4011, 0x4005];
        memory[0x5fd0 / 8..].copy_from_slice(&words);
        let ram = Ram::known(0, 6 << PAGE, memory.as_ptr() as u64);
        let mut arch = X86::default();
        arch.read(&Guest);
        let code = Code { first: 0x4000, bytes: 0x1000 };
        let stack = Stack::of(&code, &arch, &Guest, &ram);
        assert_eq!(stack.callers(&code, &arch, &ram), [0x4005, 0x4011, 0x4005]);
        assert_eq!(Stack::of(&Code::default(), &arch, &Guest, &ram), Stack::default());
        drop(memory);
    }
}
