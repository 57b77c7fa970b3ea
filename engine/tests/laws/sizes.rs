//! The engine's memory: the figures of the book's page on sizes, and a bound on the total.

use std::rc::Rc;

use std::mem::size_of;
use std::num::NonZeroU64;

use ceasefire::{AddressSpace, AtomicCpuSet, Batch, Cpu, CpuSet, Engine, Gather, Owed, MAX_ASIDS, MAX_CPUS};

use crate::script::Script;

/// The engine on a platform whose references to spaces take a word.
type OnStack<'e, T, const N: usize> = Batch<'e, Script, T, fn(Owed<T>), N>;
/// A page that moves, with its source and destination.
type Moved = (NonZeroU64, u64, u64);
type Strict<'e> = Gather<'e, Script, u64, fn(u64)>;

#[test]
fn each_type_has_the_size_that_the_book_states() {
    let sizes = [
        size_of::<CpuSet>(),
        size_of::<AtomicCpuSet>(),
        size_of::<AddressSpace>(),
        size_of::<Cpu<Rc<AddressSpace>>>(),
        size_of::<OnStack<'_, u64, 32>>(),
        size_of::<OnStack<'_, Moved, 512>>(),
        size_of::<Strict<'_>>(),
    ];
    let engine = size_of::<Engine<()>>();
    println!("{MAX_CPUS} CPUs, {MAX_ASIDS} ASIDs: {sizes:?}, {engine}");
    match MAX_CPUS {
        4 | 64 => assert_eq!(sizes, [16, 16, 112, 512, 944, 12_720, 88]),
        8192 => assert_eq!(sizes, [1040, 1040, 1136, 1536, 4016, 15_792, 88]),
        // A bit for each CPU, and one for each word of these.
        _ => assert_eq!(sizes[0], 8 * (MAX_CPUS.div_ceil(64) + MAX_CPUS.div_ceil(4096))),
    }
    let expected = match (MAX_CPUS, MAX_ASIDS) {
        (4, 0) => 872,
        (64, 0) => 1000,
        (64, 65_536) => 17_384,
        (8192, 0) => 34_920,
        (8192, 65_536) => 51_304,
        _ => return,
    };
    // A build whose guards can be removed also records which were.
    let removed = if cfg!(ceasefire_sabotage) { 8 } else { 0 };
    assert!((expected..=expected + removed).contains(&engine), "{engine}");
}

/// The memory of the engine on a kernel of four CPUs without broadcasts.
#[test]
fn on_a_small_machine_the_engine_is_small() {
    if MAX_CPUS <= 4 && MAX_ASIDS == 0 {
        assert!(size_of::<Engine<Script>>() <= 4096, "{}", size_of::<Engine<Script>>());
        assert!(size_of::<AddressSpace>() <= 256, "{}", size_of::<AddressSpace>());
    }
}

/// A space for each CPU, and on each CPU a batch of migration, a batch of reclaim that interrupts it, and a strict
/// unmap.
#[test]
fn the_engine_takes_at_most_a_mebibyte_for_each_cpu() {
    let each = size_of::<Cpu<Rc<AddressSpace>>>()
        + size_of::<AddressSpace>()
        + size_of::<OnStack<'_, u64, 32>>()
        + size_of::<OnStack<'_, Moved, 512>>()
        + size_of::<Strict<'_>>();
    let engine = size_of::<Engine<()>>();
    assert!(engine + MAX_CPUS * each <= MAX_CPUS << 20, "{engine} and {each} for each CPU");
    // Nothing grows with the square of the CPUs: most of the memory is a few sets of CPUs for each CPU.
    assert!(each <= 32 << 10, "{each} for each CPU");
    assert!(engine <= 64 << 10, "{engine}");
}
