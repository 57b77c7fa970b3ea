//! Kernel ranges: every online CPU is reached, and an isolated one at its next entry into the kernel at the latest.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use ceasefire::{Engine, Entry, Extent, Flush, KernelGather, PageSize, Place, SINGLE_PAGE_CEILING};
use proptest::collection::vec;
use proptest::prelude::{prop_oneof, Just, Strategy};
use proptest::test_runner::{Config, TestCaseError, TestRunner};

use crate::hands::room;
use crate::script::{broadcasting, hybrid, id, machine, Event, Machine, Point};

const PAGE: u64 = 0x1000;

/// All CPUs come online and cache kernel pages 1 to 3.
fn started(m: Machine, cpus: usize) -> Machine {
    for cpu in 0..cpus {
        m.on(cpu, Engine::online);
        fill(&m, cpu);
    }
    m.events();
    m
}

fn fill(m: &Machine, cpu: usize) {
    (1..4).for_each(|page| m.fill_kernel(cpu, page * PAGE, page));
}

fn clear<R: FnMut(u64)>(gather: &mut KernelGather<'_, crate::script::Script, u64, R>, address: u64) {
    gather.clear(address, PageSize::KIB_4, || Entry::DIRTY);
    gather.hold(address);
}

/// Whether each CPU has an entry of a page cached.
fn cached(m: &Machine, cpus: usize, page: u64) -> Vec<bool> {
    (0..cpus).map(|cpu| m.kernel_cached(cpu, page * PAGE).is_some()).collect()
}

fn invalidations(m: &Machine) -> Vec<(usize, Extent)> {
    let kernel = |event| if let Event::Kernel { cpu, extent } = event { Some((cpu, extent)) } else { None };
    m.events().into_iter().filter_map(kernel).collect()
}

#[test]
fn nothing_is_released_before_every_cpu_has_flushed() {
    let m = started(machine(4), 4);
    let released = RefCell::new(Vec::new());
    let mut held = room::<_, 8>();
    let mut gather = KernelGather::new(&m, &mut held, |address| {
        assert_eq!(cached(&m, 4, address / PAGE), [false; 4]);
        released.borrow_mut().push(address);
    });
    clear(&mut gather, PAGE);
    clear(&mut gather, 2 * PAGE);
    assert!(gather.owes() && released.borrow().is_empty() && cached(&m, 4, 1) == [true; 4]);
    gather.flush();
    assert!(!gather.owes());
    assert_eq!(*released.borrow(), [PAGE, 2 * PAGE]);
    clear(&mut gather, 3 * PAGE);
    gather.finish();
    assert_eq!(released.into_inner(), [PAGE, 2 * PAGE, 3 * PAGE]);
    assert_eq!(m.interrupted(), [1, 2, 3, 1, 2, 3]);
}

#[test]
fn a_gather_without_room_flushes_by_itself() {
    let m = started(machine(2), 2);
    for places in 0..2 {
        let released = Cell::new(0);
        let mut held: Vec<_> = (0..places).map(|_| Place::EMPTY).collect();
        let mut gather = KernelGather::new(&m, &mut held, |address| {
            assert_eq!(cached(&m, 2, address / PAGE), [false; 2]);
            released.set(released.get() + 1);
        });
        clear(&mut gather, PAGE);
        clear(&mut gather, 2 * PAGE);
        assert_eq!(released.get(), 2 - places);
        drop(gather);
        assert_eq!(released.get(), 2);
        (0..2).for_each(|cpu| fill(&m, cpu));
    }
}

#[test]
fn an_entry_that_led_nowhere_owes_nothing() {
    let m = started(machine(2), 2);
    let mut held = room::<u64, 1>();
    let mut gather = KernelGather::new(&m, &mut held, drop);
    gather.clear(PAGE, PageSize::KIB_4, || Entry::NONE);
    assert!(!gather.owes());
    gather.narrow(PAGE, PageSize::KIB_4, || Entry::WRITABLE);
    assert!(gather.owes());
    gather.finish();
    assert_eq!(cached(&m, 2, 1), [false; 2]);
    assert_eq!(cached(&m, 2, 2), [true; 2], "one page is flushed alone");
}

#[test]
fn lazy_and_idle_cpus_and_those_on_the_kernels_own_tables_are_reached() {
    let m = started(machine(5), 5);
    let p = m.space(1);
    for cpu in 1..4 {
        m.switch(cpu, &p);
    }
    m.lazy(2);
    drop(m.on(3, Engine::unload));
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(cached(&m, 5, 1), [false; 5]);
    assert_eq!((m.loaded_asid(), m.root(2)), (None, m.root(1)), "the lazy CPU keeps its space");
}

/// The kernel and each space count their flushes separately.
#[test]
fn a_cpu_that_has_done_many_flushes_of_its_space_does_the_first_of_the_kernel() {
    let m = started(machine(2), 2);
    let p = m.space(1);
    m.switch(1, &p);
    for _ in 0..5 {
        m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    }
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(cached(&m, 2, 1), [false, false]);
}

#[test]
fn a_range_beyond_the_ceiling_is_flushed_as_everything() {
    let m = started(machine(2), 2);
    for (pages, whole) in [(SINGLE_PAGE_CEILING, false), (SINGLE_PAGE_CEILING + 1, true)] {
        let end = (u64::from(pages) + 1) * PAGE;
        m.flush_kernel(Flush::range(PAGE, end, PageSize::KIB_4));
        let extents = invalidations(&m);
        assert_eq!(extents.len(), 2);
        assert!(extents.iter().all(|(_, extent)| (*extent == Extent::All) == whole));
    }
    assert_eq!(m.cpu(1).counters().flushes_full, 1);
    assert_eq!(m.cpu(1).counters().flushes_page, u64::from(SINGLE_PAGE_CEILING));
}

#[test]
fn several_sizes_and_tables_go_in_one_flush() {
    let m = started(machine(2), 2);
    let mut held = room::<u64, 1>();
    let mut gather = KernelGather::new(&m, &mut held, drop);
    gather.clear(2 << 20, PageSize::MIB_2, || Entry::DIRTY);
    gather.clear(0x1f_f000, PageSize::KIB_4, || Entry::DIRTY);
    gather.unlink(PAGE, PageSize::KIB_4, || None);
    gather.finish();
    let told = |event: &Event| matches!(event, Event::KernelDevices { flush } if flush.mixed && flush.tables);
    assert_eq!(m.events().iter().filter(|event| told(event)).count(), 1, "devices are told of the whole");
    assert!(!m.kernel_walked(0, PAGE) && !m.kernel_walked(1, PAGE));
}

#[test]
fn an_offline_cpu_is_not_waited_for_and_holds_nothing_when_it_is_back() {
    let m = started(machine(3), 3);
    drop(m.on(1, Engine::offline));
    assert!(!m.is_online(id(1)) && m.is_online(id(2)));
    m.events();
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!((m.interrupted(), cached(&m, 3, 1)), (vec![2], vec![false, true, false]));
    m.on(1, Engine::online);
    assert_eq!(cached(&m, 3, 1), [false; 3]);
    // It is up to date, so the next page is flushed alone.
    fill(&m, 1);
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!((cached(&m, 3, 1)[1], cached(&m, 3, 2)[1]), (false, true));
}

#[test]
fn a_cpu_that_goes_or_comes_while_it_is_asked_misses_nothing() {
    for point in [Point::Look, Point::Send, Point::Wait] {
        let m = started(machine(3), 3);
        m.at(point, |m| drop(m.on(1, Engine::offline)));
        m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
        m.deliver_all();
        m.at(point, |m| m.on(1, Engine::online));
        m.flush_kernel(Flush::page(2 * PAGE, PageSize::KIB_4));
        assert_eq!((cached(&m, 3, 1), cached(&m, 3, 2)), (vec![false; 3], vec![false; 3]), "{point:?}");
    }
}

/// The entry comes before the flusher's look: the flusher sees that the CPU is in the kernel, and interrupts it.
#[test]
fn an_isolated_cpu_that_enters_before_the_look_is_interrupted() {
    let m = started(machine(3).isolating([1]), 3);
    m.enter_user(1);
    m.at(Point::Look, |m| m.enter_kernel(1));
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!((m.interrupted(), cached(&m, 3, 1)), (vec![1, 2], vec![false; 3]));
}

/// The entry comes after the flusher's look: it finds the flush pending, and does it.
#[test]
fn an_isolated_cpu_that_enters_after_the_look_flushes_by_itself() {
    let m = started(machine(3).isolating([1]), 3);
    m.enter_user(1);
    let caught_up = Rc::new(Cell::new(false));
    let told = caught_up.clone();
    m.at(Point::Send, move |m| {
        m.enter_kernel(1);
        told.set(m.kernel_cached(1, PAGE).is_none());
    });
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    assert!(caught_up.get(), "before it uses a kernel range");
    assert_eq!((m.interrupted(), cached(&m, 3, 1)), (vec![2], vec![false; 3]));
}

#[test]
fn many_deferred_flushes_are_one_at_the_entry() {
    let m = started(machine(3).isolating([1]), 3);
    m.enter_user(1);
    for page in 1..4 {
        m.flush_kernel(Flush::page(page * PAGE, PageSize::KIB_4));
    }
    assert!((1..4).all(|page| cached(&m, 3, page) == [false, true, false]));
    assert_eq!(m.interrupted(), [2, 2, 2]);
    m.enter_kernel(1);
    assert_eq!(invalidations(&m), [(1, Extent::All)]);
    let counters = m.cpu(1).counters();
    assert_eq!((counters.interrupts, counters.flushes_full, counters.flushes_free), (0, 1, 1));
    m.enter_user(1);
    m.enter_kernel(1);
    assert_eq!(invalidations(&m), [], "nothing was deferred since");
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.interrupted(), [1, 2], "it is in the kernel");
}

#[test]
fn a_cpu_that_is_not_isolated_is_interrupted_while_it_runs_a_program() {
    let m = started(machine(2), 2);
    m.enter_user(1);
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!((m.interrupted(), cached(&m, 2, 1)), (vec![1], vec![false; 2]));
}

/// Its walker may read the page-table page while the program runs.
#[test]
fn a_freed_page_table_page_interrupts_an_isolated_cpu() {
    let m = started(machine(2).isolating([1]), 2);
    m.enter_user(1);
    m.flush_kernel(Flush::page(2 * PAGE, PageSize::KIB_4));
    assert_eq!(m.interrupted(), []);
    let mut held = room::<u64, 1>();
    let mut gather =
        KernelGather::new(&m, &mut held, |_| assert!((0..2).all(|cpu| !m.kernel_walked(cpu, PAGE))));
    gather.unlink(PAGE, PageSize::KIB_4, || Some(1));
    gather.finish();
    assert_eq!((m.interrupted(), cached(&m, 2, 1)), (vec![1], vec![false; 2]));
}

#[test]
fn a_flush_with_interrupts_off_ends_while_others_flush() {
    let m = started(machine(3), 3);
    let off = m.off(0);
    m.at(Point::Spin, |m| m.on(1, |engine| engine.flush_kernel(Flush::page(2 * PAGE, PageSize::KIB_4))));
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    drop(off);
    m.deliver_all();
    assert_eq!((cached(&m, 3, 1), cached(&m, 3, 2)), (vec![false; 3], vec![false; 3]));
}

#[test]
fn hardware_that_broadcasts_reaches_an_isolated_cpu_without_an_interrupt() {
    for m in [broadcasting(3, 4), hybrid(3, 1)] {
        let m = started(m.isolating([1]), 3);
        m.enter_user(1);
        let mut held = room::<u64, 2>();
        let mut gather =
            KernelGather::new(&m, &mut held, |address| assert_eq!(cached(&m, 3, address / PAGE), [false; 3]));
        clear(&mut gather, PAGE);
        gather.finish();
        assert_eq!((m.interrupted(), cached(&m, 3, 2)), (vec![], vec![true; 3]));
        assert_eq!(m.cpu(0).counters().broadcasts, 1);
        m.enter_kernel(1);
        assert_eq!(invalidations(&m), [], "nothing was deferred");
    }
}

/// CPU 1 set the window last, and CPU 0 holds an entry from before (Serenity, #3902).
#[test]
fn each_cpu_flushes_a_window_by_itself_also_where_another_has_set_it() {
    let m = started(machine(2), 2);
    for cpu in [1, 0] {
        let set = Cell::new(false);
        let found = m.on(cpu, |engine| {
            engine.window(
                Flush::page(PAGE, PageSize::KIB_4),
                || set.set(m.kernel_cached(cpu, PAGE).is_some()),
                || m.kernel_cached(cpu, PAGE),
            )
        });
        assert_eq!((set.get(), found), (true, None), "flushed between the entry and the use");
    }
    assert_eq!((m.interrupted(), cached(&m, 2, 2)), (vec![], vec![true; 2]), "nothing else");
}

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The CPU caches a page, if it is mapped and the CPU is in the kernel.
    Fill(usize, u64),
    /// The page is unmapped, and its address kept back.
    Clear(u64),
    /// The page-table page of all pages is replaced.
    Unlink,
    Flush,
    EnterUser(usize),
    EnterKernel(usize),
    Offline(usize),
    Online(usize),
    /// The next flush is interrupted at this point by this step of another CPU.
    Between(Point, usize, usize),
}

const CPUS: usize = 4;
const PAGES: u64 = 4;

fn step() -> impl Strategy<Value = Step> {
    let cpu = 1..CPUS;
    prop_oneof![
        4 => (0..CPUS, 0..PAGES).prop_map(|(cpu, page)| Step::Fill(cpu, page)),
        2 => (0..PAGES).prop_map(Step::Clear),
        1 => Just(Step::Unlink),
        2 => Just(Step::Flush),
        2 => cpu.clone().prop_map(Step::EnterUser),
        2 => cpu.clone().prop_map(Step::EnterKernel),
        1 => cpu.clone().prop_map(Step::Offline),
        1 => cpu.clone().prop_map(Step::Online),
        2 => (prop_oneof![Just(Point::Look), Just(Point::Send), Just(Point::Wait)], cpu, 0..4_usize)
            .prop_map(|(point, cpu, what)| Step::Between(point, cpu, what)),
    ]
}

/// One CPU enters or leaves the kernel, or the machine, if it is where that can be done.
fn cross(m: &Machine, cpu: usize, what: usize) {
    match (what, m.is_online(id(cpu)), m.in_user(cpu)) {
        (0, true, false) => m.enter_user(cpu),
        (1, true, true) => m.enter_kernel(cpu),
        (2, true, false) => drop(m.on(cpu, Engine::offline)),
        (3, false, _) => m.on(cpu, Engine::online),
        _ => {}
    }
}

/// Plays a history. CPU 0 unmaps and flushes; 1 and 2 are isolated.
///
/// # Errors
/// Names the CPU in the kernel that may use a released page, or the walker that may use a freed page-table page.
fn play(m: &Machine, steps: &[Step]) -> Result<(), String> {
    (0..CPUS).for_each(|cpu| m.on(cpu, Engine::online));
    let released = RefCell::new(BTreeSet::new());
    let mut held = room::<(u64, u64), 3>();
    let mut gather = KernelGather::new(m, &mut held, |what| {
        released.borrow_mut().insert(what);
    });
    // A page's translation is as old as this says; a new one is another.
    let mut stamps = [1_u64; PAGES as usize];
    let mut back = BTreeSet::new();
    let address = |page: u64| (page + 1) * PAGE;
    for (number, step) in steps.iter().enumerate() {
        let mut freed_table = false;
        match *step {
            Step::Fill(cpu, page) => {
                if m.is_online(id(cpu)) && !m.in_user(cpu) && !back.contains(&page) {
                    m.fill_kernel(cpu, address(page), stamps[page as usize]);
                }
            }
            Step::Clear(page) => {
                if back.insert(page) {
                    gather.clear(address(page), PageSize::KIB_4, || Entry::DIRTY);
                    gather.hold((address(page), stamps[page as usize]));
                }
            }
            Step::Unlink => {
                gather.unlink(address(0), PageSize::KIB_4, || None);
                gather.flush();
                freed_table = true;
            }
            Step::Flush => gather.flush(),
            Step::EnterUser(cpu) => cross(m, cpu, 0),
            Step::EnterKernel(cpu) => cross(m, cpu, 1),
            Step::Offline(cpu) => cross(m, cpu, 2),
            Step::Online(cpu) => cross(m, cpu, 3),
            Step::Between(point, cpu, what) => {
                m.forget_hook();
                m.at(point, move |m| cross(m, cpu, what));
            }
        }
        m.deliver_all();
        // Addresses that came out are mapped again, to something else.
        let out = released.borrow().clone();
        back.retain(|page| {
            let was = (address(*page), stamps[*page as usize]);
            let kept = !out.contains(&was);
            if !kept {
                stamps[*page as usize] += 1;
            }
            kept
        });
        for cpu in (0..CPUS).filter(|cpu| m.is_online(id(*cpu))) {
            if freed_table && m.kernel_walked(cpu, address(0)) {
                return Err(format!(
                    "step {number}: the walker of CPU {cpu} may read a freed page-table page"
                ));
            }
            if m.in_user(cpu) {
                continue;
            }
            for page in 0..PAGES {
                if let Some(stamp) = m.kernel_cached(cpu, address(page)) {
                    if out.contains(&(address(page), stamp)) {
                        return Err(format!(
                            "step {number}: CPU {cpu} may use page {page} after it was released"
                        ));
                    }
                }
            }
        }
    }
    m.forget_hook();
    Ok(())
}

fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    let seed = TestRunner::deterministic().new_rng();
    TestRunner::new_with_rng(config, seed)
}

fn histories(machine: impl Fn() -> Machine) {
    let played = runner(ceasefire_testing::cases(2000)).run(&vec(step(), 1..60), |steps| {
        play(&machine().isolating([1, 2]), &steps).map_err(TestCaseError::fail)
    });
    played.unwrap_or_else(|found| panic!("{found}"));
}

#[test]
fn no_history_of_entries_and_flushes_uses_what_was_released() {
    histories(|| machine(CPUS));
}

#[test]
fn no_history_with_broadcasts_uses_what_was_released() {
    histories(|| broadcasting(CPUS, 4));
}

/// Random histories find that a guard is gone, and say so in these words.
#[cfg(ceasefire_sabotage)]
fn found(guard: ceasefire::sabotage::Guard, words: &str) {
    let broken = Cell::new(false);
    let played = runner(500).run(&vec(step(), 1..60), |steps| {
        let m = machine(CPUS).isolating([1, 2]);
        m.remove_guard(guard);
        broken.set(broken.get() || play(&m, &steps).is_err_and(|what| what.contains(words)));
        Ok(())
    });
    assert!(played.is_ok() && broken.get(), "{guard:?}");
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_flush_of_kernel_ranges_what_is_released_can_be_used() {
    use ceasefire::sabotage::Guard;
    let m = started(machine(2), 2);
    m.remove_guard(Guard::KernelFlush);
    let reached = Cell::new(false);
    let mut held = room::<_, 2>();
    let mut gather = KernelGather::new(&m, &mut held, |_| reached.set(m.kernel_cached(1, PAGE).is_some()));
    clear(&mut gather, PAGE);
    gather.finish();
    assert!(reached.get(), "R1");
    found(Guard::KernelFlush, "after it was released");
    found(Guard::KernelFlush, "freed page-table page");
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_its_flush_a_window_shows_the_page_before() {
    let m = started(machine(1), 1);
    m.remove_guard(ceasefire::sabotage::Guard::Window);
    let page = Flush::page(PAGE, PageSize::KIB_4);
    assert_eq!(m.window(page, || {}, || m.kernel_cached(0, PAGE)), Some(1), "R7");
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_flush_at_the_entry_a_deferred_flush_is_lost() {
    use ceasefire::sabotage::Guard;
    let m = started(machine(2).isolating([1]), 2);
    m.remove_guard(Guard::KernelEntry);
    m.enter_user(1);
    m.flush_kernel(Flush::page(PAGE, PageSize::KIB_4));
    m.enter_kernel(1);
    assert!(m.kernel_cached(1, PAGE).is_some(), "R1");
    found(Guard::KernelEntry, "after it was released");
}
