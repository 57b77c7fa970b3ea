//! What the engine takes in memory: the figures of the book's page on sizes, and the bound on all of it.

use std::rc::Rc;

use std::mem::size_of;
use std::num::NonZeroU64;

use ceasefire::{AddressSpace, AtomicCpuSet, Batch, Cpu, CpuSet, Engine, Gather, Owed, MAX_CPUS};

use crate::script::Script;

/// The engine on a platform whose references to spaces take a word.
type OnStack<'e, T, const N: usize> = Batch<'e, Script, T, fn(Owed<T>), N>;
/// A page that moves, from where to where.
type Moved = (NonZeroU64, u64, u64);
type Strict<'e> = Gather<'e, Script, u64, fn(u64)>;

#[test]
fn what_the_book_says_of_each_type_is_so() {
    let sizes = [
        size_of::<CpuSet>(),
        size_of::<AtomicCpuSet>(),
        size_of::<AddressSpace>(),
        size_of::<Cpu<Rc<AddressSpace>>>(),
        size_of::<OnStack<'_, u64, 32>>(),
        size_of::<OnStack<'_, Moved, 512>>(),
        size_of::<Strict<'_>>(),
    ];
    assert_eq!(sizes, [1040, 1040, 1136, 1472, 4008, 15784, 72]);
    // One that can be sabotaged knows what was taken from it.
    assert!((50_256..=50_264).contains(&size_of::<Engine<()>>()));
}

/// A space for each CPU, and on each CPU a batch of migration, one of reclaim that it is interrupted by, and a strict unmap.
#[test]
fn all_that_the_engine_takes_on_the_largest_machine_is_a_mebibyte_a_cpu_at_most() {
    let each = size_of::<Cpu<Rc<AddressSpace>>>()
        + size_of::<AddressSpace>()
        + size_of::<OnStack<'_, u64, 32>>()
        + size_of::<OnStack<'_, Moved, 512>>()
        + size_of::<Strict<'_>>();
    let engine = size_of::<Engine<()>>();
    assert!(engine + MAX_CPUS * each <= MAX_CPUS << 20, "{engine} and {each} for each CPU");
    // Nothing grows with the square of the CPUs: most of it is a few sets of CPUs for each.
    assert!(each <= 32 << 10, "{each} for each CPU");
    assert!(engine <= 64 << 10, "{engine}");
}
