//! Kernel ranges: frames, page-table pages and addresses of the kernel's own mappings are used again only when no CPU
//! can hold an old translation.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

use ceasefire::{Broadcast, Holders};
use ceasefire_memory::{
    Frame, FrameNumber, KernelArea, KernelMapError, KernelMapping, Memory, NodeId, PAGE_BYTES,
};
use proptest::collection::vec;
use proptest::prelude::{prop_oneof, Just, Strategy};
use proptest::test_runner::{Config, TestRunner};

#[cfg(ceasefire_sabotage)]
use crate::common::guards;
use crate::common::{at, config, Rig, Threads};

/// It lies across two page-table pages of the lowest level.
const START: u64 = 0xffff_8100_001f_0000;
const PAGES: u32 = 64;
/// Things that lazy unmaps keep back.
const MOST: usize = 16;
const CPUS: usize = 2;

/// A machine whose CPUs are online, the frame of the kernel's root, and an area under it.
struct Machine {
    rig: Rig,
    root: FrameNumber,
    area: KernelArea<'static, Threads>,
    /// Free frames once the area is made.
    free: u64,
}

impl Machine {
    fn new(rig: Rig) -> Self {
        for cpu in 0..CPUS {
            rig.on(cpu, || rig.memory.engine().online());
        }
        let root = rig.memory.allocate_atomic(NodeId(0)).expect("a frame for the root").number();
        // An area lives as long as its kernel.
        let memory: &'static Memory<Threads> = Box::leak(Box::new(rig.memory.clone())) as &Arc<_>;
        let area = KernelArea::new(memory, root, START, PAGES, MOST).unwrap();
        let free = rig.memory.free_frames();
        Self { rig, root, area, free }
    }

    fn by_hand() -> Self {
        Self::new(Rig::by_hand(config(256)))
    }

    fn broadcasting() -> Self {
        let broadcast = Broadcast::new(8, 4, Holders::Every).unwrap();
        Self::new(Rig::by_hand_with(config(256), Some(broadcast)))
    }

    /// A load by the CPU of this thread.
    fn read(&self, address: u64) -> Option<u64> {
        self.rig.load_kernel(self.root, address)
    }

    fn write(&self, address: u64, value: u64) -> bool {
        self.rig.store_kernel(self.root, address, value)
    }

    fn load(&self, cpu: usize, address: u64) -> Option<u64> {
        self.rig.on(cpu, || self.read(address))
    }

    fn store(&self, cpu: usize, address: u64, value: u64) -> bool {
        self.rig.on(cpu, || self.write(address, value))
    }

    /// Maps pages that every CPU has used: each holds its own address.
    fn used(&self, pages: u32) -> KernelMapping {
        let mapping = self.area.map(pages).unwrap();
        for address in pages_of(&mapping) {
            assert_eq!(self.load(0, address), Some(0), "a fresh page is full of zeros");
            for cpu in 0..CPUS {
                assert!(self.store(cpu, address, address));
            }
        }
        mapping
    }

    fn cached(&self, address: u64) -> [bool; CPUS] {
        [0, 1].map(|cpu| self.rig.platform().caches_kernel(cpu, address))
    }

    fn shootdowns(&self) -> u64 {
        let counters = self.rig.memory.counters();
        counters.shootdowns + counters.broadcasts
    }

    /// Nothing is mapped: every frame is back, and no rule was broken.
    fn finish(&self) {
        self.area.purge();
        assert_eq!(self.rig.memory.free_frames(), self.free, "frames were lost or found");
        self.rig.platform().assert_no_violation();
    }
}

fn pages_of(mapping: &KernelMapping) -> impl Iterator<Item = u64> {
    let start = mapping.start();
    (0..u64::from(mapping.pages())).map(move |page| at(start, page))
}

#[test]
fn a_mapping_is_the_same_on_every_cpu() {
    let machine = Machine::by_hand();
    let mapping = machine.area.map(3).unwrap();
    assert_eq!((mapping.start(), mapping.end(), mapping.pages()), (START, at(START, 3), 3));
    assert_eq!(machine.area.range(), START..at(START, u64::from(PAGES)));
    assert!(machine.store(0, at(START, 2), 7));
    assert_eq!((machine.load(1, at(START, 2)), machine.load(1, at(START, 1))), (Some(7), Some(0)));
    assert_eq!(machine.load(1, mapping.end()), None);
    machine.area.unmap(mapping);
    machine.finish();
}

#[test]
fn after_a_strict_unmap_no_cpu_has_the_old_entries() {
    for machine in [Machine::by_hand(), Machine::broadcasting()] {
        let (mapping, other) = (machine.used(3), machine.used(1));
        let (before, addresses) = (machine.shootdowns(), pages_of(&mapping).collect::<Vec<_>>());
        machine.area.unmap(mapping);
        assert_eq!(machine.shootdowns() - before, 1, "one flush for all pages");
        for address in addresses {
            assert_eq!(machine.cached(address), [false; CPUS]);
            assert_eq!([0, 1].map(|cpu| machine.load(cpu, address)), [None; CPUS]);
        }
        assert_eq!(machine.load(1, other.start()), Some(other.start()));
        assert_eq!(machine.cached(other.start()), [true; CPUS], "no other page is flushed");
        // The addresses are free at once.
        let again = machine.used(3);
        assert_eq!(again.start(), START);
        machine.area.unmap(again);
        machine.area.unmap(other);
        machine.finish();
    }
}

#[test]
fn a_long_mapping_is_unmapped_in_more_than_one_flush() {
    let machine = Machine::by_hand();
    let mapping = machine.used(PAGES);
    machine.area.unmap(mapping);
    (0..u64::from(PAGES)).for_each(|page| assert_eq!(machine.cached(at(START, page)), [false; CPUS]));
    machine.finish();
}

#[test]
fn a_lazy_unmap_keeps_addresses_and_frames_back() {
    let machine = Machine::by_hand();
    let mapping = machine.used(3);
    let (before, free) = (machine.shootdowns(), machine.rig.memory.free_frames());
    machine.area.unmap_lazily(mapping);
    assert_eq!((machine.shootdowns(), machine.rig.memory.free_frames()), (before, free));
    assert!(machine.area.owes());
    // A CPU that wrongly uses an old entry still finds the old frame.
    assert_eq!(machine.load(1, START), Some(START));
    let other = machine.used(2);
    assert_eq!(other.start(), at(START, 3), "the addresses are not handed out");
    machine.area.purge();
    assert!(!machine.area.owes());
    assert_eq!(machine.shootdowns() - before, 1);
    (0..3).for_each(|page| assert_eq!(machine.cached(at(START, page)), [false; CPUS]));
    let again = machine.used(3);
    assert_eq!(again.start(), START);
    machine.area.unmap_lazily(other);
    machine.area.unmap_lazily(again);
    machine.finish();
}

#[test]
fn enough_kept_back_is_flushed_at_once() {
    let machine = Machine::by_hand();
    let before = machine.shootdowns();
    // Each keeps a frame and its address back.
    for number in 0..=MOST as u64 / 2 {
        let mapping = machine.used(1);
        assert_eq!(mapping.start(), at(START, number));
        machine.area.unmap_lazily(mapping);
    }
    assert_eq!(machine.shootdowns() - before, 1);
    let mapping = machine.used(1);
    assert_eq!(mapping.start(), START);
    machine.area.unmap(mapping);
    machine.finish();
}

#[test]
fn without_a_free_address_range_the_area_purges_first() {
    let machine = Machine::by_hand();
    let rest = machine.used(PAGES - 4);
    let mapping = machine.used(4);
    machine.area.unmap_lazily(mapping);
    let before = machine.shootdowns();
    let again = machine.used(3);
    assert_eq!((machine.shootdowns() - before, again.start()), (1, rest.end()));
    assert_eq!(machine.area.map(2), Err(KernelMapError::NoRoom));
    assert_eq!(machine.area.map(PAGES + 1), Err(KernelMapError::NoRoom));
    machine.area.unmap(rest);
    machine.area.unmap(again);
    machine.finish();
}

#[test]
fn without_frames_the_area_purges_first() {
    let machine = Machine::by_hand();
    let mapping = machine.used(2);
    machine.area.unmap_lazily(mapping);
    let mut taken: Vec<Frame> =
        std::iter::from_fn(|| machine.rig.memory.allocate_atomic(NodeId(0))).collect();
    assert_eq!(machine.area.map(4), Err(KernelMapError::OutOfMemory));
    assert!(!machine.area.owes(), "all was flushed for it");
    taken.drain(..).for_each(|frame| machine.rig.memory.free(frame));
    let mapping = machine.used(4);
    machine.area.unmap(mapping);
    machine.finish();
}

#[test]
fn a_purge_frees_page_tables_that_translate_nothing() {
    let machine = Machine::by_hand();
    // 16 pages to the first table's end.
    let (first, second) = (machine.used(16), machine.used(4));
    let before = machine.rig.platform().tables_freed();
    machine.area.unmap_lazily(first);
    machine.area.purge();
    assert_eq!(machine.rig.platform().tables_freed() - before, 1);
    assert_eq!(machine.load(1, second.start()), Some(second.start()));
    let first = machine.used(16);
    machine.area.unmap(first);
    machine.area.unmap(second);
    assert_eq!(machine.rig.platform().tables_freed() - before, 1, "a strict unmap leaves tables alone");
    machine.area.purge();
    assert_eq!(machine.rig.platform().tables_freed() - before, 3);
    machine.finish();
}

#[test]
fn a_cpu_that_comes_back_has_no_old_entry() {
    let machine = Machine::by_hand();
    let mapping = machine.used(1);
    machine.rig.on(1, || drop(machine.rig.memory.engine().offline()));
    let before = machine.rig.memory.counters().interrupts;
    machine.area.unmap(mapping);
    assert_eq!(machine.rig.memory.counters().interrupts, before, "no flush waits for it");
    machine.rig.on(1, || machine.rig.memory.engine().online());
    assert_eq!(machine.load(1, START), None);
    machine.finish();
}

#[test]
#[should_panic(expected = "is a mapping of another area")]
fn a_mapping_of_another_area_is_refused() {
    let machine = Machine::by_hand();
    let memory: &'static Memory<Threads> = Box::leak(Box::new(machine.rig.memory.clone())) as &Arc<_>;
    let start = START + u64::from(PAGES) * PAGE_BYTES;
    let other = KernelArea::new(memory, machine.root, start, 4, MOST).unwrap();
    machine.area.unmap(other.map(1).unwrap());
}

#[test]
#[should_panic(expected = "a mapping has at least one page")]
fn a_mapping_of_no_page_is_refused() {
    let _ = Machine::by_hand().area.map(0);
}

#[test]
#[should_panic(expected = "are not in the kernel's half")]
fn an_area_of_programs_addresses_is_refused() {
    let machine = Machine::by_hand();
    let memory: &'static Memory<Threads> = Box::leak(Box::new(machine.rig.memory.clone())) as &Arc<_>;
    let _ = KernelArea::new(memory, machine.root, PAGE_BYTES, 4, MOST);
}

/// Without the flush the frame is freed while another CPU can reach it.
#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_flush_a_freed_frame_is_reached() {
    for lazily in [false, true] {
        let machine = Machine::by_hand();
        guards::remove(&machine.rig.memory, [guards::Engine::KernelFlush]);
        let mapping = machine.used(1);
        if lazily {
            machine.area.unmap_lazily(mapping);
            machine.area.purge();
        } else {
            machine.area.unmap(mapping);
        }
        assert!(machine.load(1, START).is_some());
        assert!(machine.rig.platform().first_violation().is_some_and(|first| first.starts_with("R1")));
    }
}

/// CPUs that map, share and unmap at once. A page holds its owner's number as long as it is mapped.
#[test]
fn threads_at_once_break_no_rule() {
    const ROUNDS: u64 = 2_000;
    for broadcast in [None, Some(Broadcast::new(8, 4, Holders::Every).unwrap())] {
        let machine = Machine::new(Rig::threaded_with(config(256), broadcast));
        // The mapping that the other CPU may use, if it takes this lock.
        let shared: [Mutex<Option<KernelMapping>>; CPUS] = [const { Mutex::new(None) }; CPUS];
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for cpu in 0..CPUS {
                let (machine, shared, done) = (&machine, &shared, &done);
                scope.spawn(move || {
                    let _failing = machine.rig.start(cpu);
                    for round in 0..ROUNDS {
                        let value = round << 1 | cpu as u64;
                        let mapping = machine.area.map(1 + (round % 3) as u32).unwrap();
                        pages_of(&mapping).for_each(|address| assert!(machine.write(address, value)));
                        let old = take(&machine.rig, &shared[cpu]).replace(mapping);
                        if let Some(old) = old {
                            match round % 4 {
                                0 => machine.area.unmap(old),
                                _ => machine.area.unmap_lazily(old),
                            }
                        }
                        if let Some(mapping) = &*take(&machine.rig, &shared[1 - cpu]) {
                            pages_of(mapping).for_each(|address| {
                                assert_eq!(machine.read(address).map(|word| word & 1), Some(1 - cpu as u64));
                            });
                        }
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                    machine.rig.platform().idle_until(|| done.load(Ordering::SeqCst) == CPUS);
                });
            }
        });
        let _failing = machine.rig.start(0);
        assert!(machine.shootdowns() > 0);
        for mapping in shared {
            machine.area.unmap_lazily(mapping.into_inner().unwrap().unwrap());
        }
        // The other thread has ended and answers nothing.
        machine.rig.on(1, || drop(machine.rig.memory.engine().offline()));
        machine.finish();
    }
}

/// Takes a lock of the test, and answers interrupts while it waits.
fn take<'a, T>(rig: &Rig, lock: &'a Mutex<T>) -> MutexGuard<'a, T> {
    loop {
        match lock.try_lock() {
            Ok(guard) => return guard,
            Err(TryLockError::WouldBlock) => rig.platform().poll(),
            Err(TryLockError::Poisoned(_)) => panic!("another CPU failed"),
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Map(u32),
    /// Gives back the mapping of that number among those that exist.
    Unmap(usize),
    UnmapLazily(usize),
    Purge,
    /// A CPU stores to a page of a mapping and loads from it.
    Use(usize, usize, u32),
    Offline,
    Online,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..12_u32).prop_map(Step::Map),
        2 => (0..99_usize).prop_map(Step::Unmap),
        3 => (0..99_usize).prop_map(Step::UnmapLazily),
        1 => Just(Step::Purge),
        6 => (0..CPUS, 0..99_usize, 0..12_u32).prop_map(|(cpu, mapping, page)| Step::Use(cpu, mapping, page)),
        1 => Just(Step::Offline),
        1 => Just(Step::Online),
    ]
}

/// Every load shows the last store to the same mapping, or zero, whatever was mapped there before.
fn run(machine: &Machine, steps: &[Step]) {
    let mut mappings: Vec<(KernelMapping, Vec<u64>)> = Vec::new();
    let mut online = true;
    let mut stores = 0;
    for &step in steps {
        let any = |number: usize, count: usize| (count > 0).then(|| number % count.max(1));
        match step {
            Step::Map(pages) => {
                if let Ok(mapping) = machine.area.map(pages) {
                    for (other, _) in &mappings {
                        assert!(mapping.end() <= other.start() || other.end() <= mapping.start());
                    }
                    mappings.push((mapping, vec![0; pages as usize]));
                }
            }
            Step::Unmap(number) => {
                if let Some(index) = any(number, mappings.len()) {
                    machine.area.unmap(mappings.swap_remove(index).0);
                }
            }
            Step::UnmapLazily(number) => {
                if let Some(index) = any(number, mappings.len()) {
                    machine.area.unmap_lazily(mappings.swap_remove(index).0);
                }
            }
            Step::Purge => machine.area.purge(),
            Step::Use(cpu, number, page) if cpu == 0 || online => {
                if let Some(index) = any(number, mappings.len()) {
                    let (mapping, words) = &mut mappings[index];
                    let page = page as usize % words.len();
                    let address = at(mapping.start(), page as u64);
                    assert_eq!(machine.load(cpu, address), Some(words[page]));
                    stores += 1;
                    assert!(machine.store(cpu, address, stores));
                    words[page] = stores;
                }
            }
            Step::Use(..) => {}
            Step::Offline => {
                machine.rig.on(1, || drop(machine.rig.memory.engine().offline()));
                online = false;
            }
            Step::Online => {
                machine.rig.on(1, || machine.rig.memory.engine().online());
                online = true;
            }
        }
        machine.rig.platform().assert_no_violation();
    }
    for (mapping, _) in mappings {
        machine.area.unmap_lazily(mapping);
    }
    machine.finish();
}

#[test]
fn random_scripts_break_no_rule() {
    for make in [Machine::by_hand, Machine::broadcasting] {
        let config =
            Config { cases: ceasefire_testing::cases(200), failure_persistence: None, ..Config::default() };
        let mut runner = TestRunner::new_with_rng(config, TestRunner::deterministic().new_rng());
        runner
            .run(&vec(step(), 1..60), |steps| {
                run(&make(), &steps);
                Ok(())
            })
            .unwrap();
    }
}
