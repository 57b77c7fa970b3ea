//! Marks: what a gather leaves in the entries that it clears, so that page-table locks may be released before its flush.
//!
//! A fault that finds a mark asks whether the gather has flushed. Usually it has, for a program seldom uses an address
//! that another of its threads is giving back. If not, the fault flushes the address itself before it puts a new
//! translation there (R7).

use crate::cpu_set::CpuId;
use crate::platform::Platform;
use crate::primitive::{AtomicU32, Ordering};
use crate::Engine;

/// The bits of a CPU's number, below [`MAX_CPUS`](crate::MAX_CPUS).
const CPU: u32 = 13;
const _: () = assert!(crate::limits::MAX_CPUS <= 1 << CPU);

/// A gather that leaves marks: the CPU on which it began, and its number there. A later gather may have the same name,
/// which costs a needless flush if it is open when the mark is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark(u32);

impl Mark {
    /// Its 32 bits in an entry.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// A mark out of an entry.
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    fn new(cpu: CpuId, number: u32) -> Self {
        Self(number << CPU | cpu.index() as u32)
    }

    fn cpu(self) -> Option<CpuId> {
        CpuId::new((self.0 % (1 << CPU)) as usize).ok()
    }
}

/// The gather of a CPU that leaves marks, if one is open: its number is odd.
#[derive(Debug)]
pub(crate) struct Marking(AtomicU32);

impl Marking {
    pub(crate) const fn new() -> Self {
        Self(AtomicU32::new(0))
    }

    /// The number of a gather that begins. None if another is open.
    fn begin(&self) -> Option<u32> {
        let before = self.0.load(Ordering::Relaxed);
        let number = before.wrapping_add(1);
        let is_free = before % 2 == 0
            && self.0.compare_exchange(before, number, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        is_free.then_some(number)
    }

    /// The gather has flushed. A CPU that finds it gone acquires the flush.
    fn end(&self) {
        self.0.fetch_add(1, Ordering::Release);
    }
}

impl<P: Platform> Engine<P> {
    /// Begins a gather that leaves marks. None if the CPU has one already.
    pub(super) fn begin_marking(&self) -> Option<Mark> {
        let cpu = self.platform().this_cpu();
        Some(Mark::new(cpu, self.platform().cpu(cpu).marking.begin()?))
    }

    pub(super) fn end_marking(&self, mark: Mark) {
        if let Some(cpu) = mark.cpu() {
            self.platform().cpu(cpu).marking.end();
        }
    }

    /// Whether the gather that left a mark has flushed. If it has not, CPUs may use the translation that was there
    /// before: it must be flushed before another is put there.
    pub fn has_flushed(&self, mark: Mark) -> bool {
        let Some(cpu) = mark.cpu() else { return true };
        let number = self.platform().cpu(cpu).marking.0.load(Ordering::Acquire);
        Mark::new(cpu, number) != mark
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_has_one_open_gather_that_leaves_marks() {
        let marking = Marking::new();
        assert_eq!((marking.begin(), marking.begin()), (Some(1), None));
        marking.end();
        assert_eq!(marking.begin(), Some(3));
    }

    #[test]
    fn a_mark_names_its_cpu_and_its_number() {
        let cpu = CpuId::new(crate::limits::MAX_CPUS - 1).expect("below the bound");
        let mark = Mark::from_bits(Mark::new(cpu, 5).bits());
        assert_eq!((mark.cpu(), mark), (Some(cpu), Mark::new(cpu, 5)));
        assert_ne!(mark, Mark::new(cpu, 7));
    }
}
