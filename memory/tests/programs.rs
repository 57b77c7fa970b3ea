//! Random programs run all operations on their memory while it is migrated, reclaimed and paged out. They see the
//! values that they stored and the rights that they have, and leave nothing behind.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use ceasefire::{Broadcast, Holders, Payment, Platform, Schedule, DYNAMIC_ASIDS};
use ceasefire_memory::{
    Config, FaultError, ForkError, FrameNumber, Lazy, NodeId, NodeLayout, Pages, Placement, Protection,
    RemapError, UnmapError, Work, PAGE_BYTES,
};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::common::{at, between, Moment, Rig, Space};

/// A part of a program's mappings: its first page and its number of pages.
#[derive(Debug, Clone)]
struct Part {
    from: Index,
    pages: u64,
}

/// A request of a program.
#[derive(Debug, Clone)]
enum Ask {
    Map { pages: u64, huge: bool },
    Unmap(Part),
    Discard(Vec<Part>),
    Protect(Part, Protection),
    Remap { part: Part, pages: u64, place: Option<u64> },
    Free(Vec<Part>),
    Fork,
    Hint(Part),
    Lock(Part, bool),
    Collapse(Index),
    Store(Index, u64),
    Fill(Part, u64),
    Load(Index),
}

#[derive(Debug, Clone)]
enum Step {
    Ask {
        cpu: usize,
        program: usize,
        ask: Ask,
    },
    /// Pages move. When some have set out, a program makes a request.
    Migrate {
        program: usize,
        to: u16,
        after: u32,
        asker: usize,
        ask: Ask,
    },
    /// Pages go to the swap device. When some are unmapped, a program makes a request.
    PageOut {
        program: usize,
        part: Part,
        after: u32,
        asker: usize,
        ask: Ask,
    },
    Reclaim(u16),
    Tick(usize),
    Lazy(usize),
    Exit(usize),
}

fn part() -> impl Strategy<Value = Part> {
    let pages = prop_oneof![4 => 1..40u64, 1 => 400..700u64, 1 => Just(512u64)];
    (any::<Index>(), pages).prop_map(|(from, pages)| Part { from, pages })
}

fn parts() -> impl Strategy<Value = Vec<Part>> {
    prop_oneof![2 => prop::collection::vec(part(), 1), 1 => prop::collection::vec(part(), 2..5)]
}

/// Requests that change mappings and wait for no page.
fn change() -> impl Strategy<Value = Ask> {
    let protection = prop_oneof![Just(Protection::None), Just(Protection::Read), Just(Protection::ReadWrite)];
    prop_oneof![
        2 => part().prop_map(Ask::Unmap),
        2 => parts().prop_map(Ask::Discard),
        4 => (part(), protection).prop_map(|(part, protection)| Ask::Protect(part, protection)),
        3 => (part(), 1..700u64, prop::option::of(0..4096u64))
            .prop_map(|(part, pages, place)| Ask::Remap { part, pages, place }),
        1 => Just(Ask::Fork),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    prop_oneof![
        2 => (prop_oneof![1..80u64, 500..1100u64], any::<bool>())
            .prop_map(|(pages, huge)| Ask::Map { pages, huge }),
        6 => change(),
        2 => parts().prop_map(Ask::Free),
        1 => part().prop_map(Ask::Hint),
        1 => (part(), any::<bool>()).prop_map(|(part, on)| Ask::Lock(part, on)),
        1 => any::<Index>().prop_map(Ask::Collapse),
        12 => (any::<Index>(), 1..u64::MAX).prop_map(|(page, value)| Ask::Store(page, value)),
        5 => (part(), 1..u64::MAX / 2).prop_map(|(part, value)| Ask::Fill(part, value)),
        8 => any::<Index>().prop_map(Ask::Load),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let (cpu, program) = (0..2usize, 0..3usize);
    let used = prop_oneof![2 => change(), 1 => ask().boxed()].boxed();
    prop_oneof![
        30 => (cpu.clone(), program.clone(), ask()).prop_map(|(cpu, program, ask)| Step::Ask { cpu, program, ask }),
        2 => (program.clone(), 0..2u16, 0..20u32, program.clone(), change())
            .prop_map(|(program, to, after, asker, ask)| Step::Migrate { program, to, after, asker, ask }),
        3 => (program.clone(), part(), 0..20u32, program.clone(), used)
            .prop_map(|(program, part, after, asker, ask)| Step::PageOut { program, part, after, asker, ask }),
        1 => (0..2u16).prop_map(Step::Reclaim),
        2 => cpu.clone().prop_map(Step::Tick),
        1 => cpu.prop_map(Step::Lazy),
        1 => program.prop_map(Step::Exit),
    ]
}

/// Processors that do not broadcast, or have few ASIDs for broadcasts, which spaces take from each other.
fn broadcast() -> impl Strategy<Value = Option<Broadcast>> {
    let few = |asids, holders| Some(Broadcast::new(asids, 4, holders).expect("enough ASIDs"));
    let wide = few(DYNAMIC_ASIDS as u32 + 1, Holders::Wide);
    prop_oneof![2 => Just(None), 1 => Just(wide), 1 => Just(few(3, Holders::Every))]
}

fn schedule() -> impl Strategy<Value = (Schedule, Payment)> {
    let lazily = prop_oneof![Just(Payment::Free), Just(Payment::Demand)];
    prop_oneof![
        1 => Just((Schedule::PerPage, Payment::Free)),
        2 => Just((Schedule::Batched, Payment::Free)),
        3 => lazily.prop_map(|payment| (Schedule::Lazy, payment)),
    ]
}

/// The value that a program must see at a page.
#[derive(Debug, Clone, Copy)]
struct Page {
    value: u64,
    /// It may also read as zero, because its program gave up its contents.
    free: bool,
    protection: Protection,
}

struct Program {
    space: Space,
    pages: BTreeMap<u64, Page>,
}

impl Program {
    fn new(rig: &Rig) -> Self {
        Self { space: rig.memory.new_space().unwrap(), pages: BTreeMap::new() }
    }

    fn page(&self, index: Index) -> Option<u64> {
        (!self.pages.is_empty()).then(|| *self.pages.keys().nth(index.index(self.pages.len())).unwrap())
    }

    /// The addresses of a part: all mapped ones from its first up to a hole.
    fn range(&self, part: &Part) -> Option<(u64, u64)> {
        let start = self.page(part.from)?;
        let pages = (0..part.pages).take_while(|&page| self.pages.contains_key(&at(start, page))).count();
        Some((start, at(start, pages as u64)))
    }

    /// The ranges of several parts, as starts and lengths.
    fn ranges(&self, parts: &[Part]) -> Vec<(u64, Pages)> {
        let ends = parts.iter().filter_map(|part| self.range(part));
        ends.map(|(start, end)| (start, between(start, end))).collect()
    }

    fn each(&mut self, (start, end): (u64, u64), change: impl FnMut((&u64, &mut Page))) {
        self.pages.range_mut(start..end).for_each(change);
    }
}

struct World {
    rig: Rig,
    programs: Vec<Program>,
    /// A program in the middle of a call, which cannot end now.
    calling: Option<usize>,
}

impl World {
    /// Performs a program's request as `cpu`, and checks the result.
    fn ask(&mut self, cpu: usize, program: usize, ask: &Ask) -> Result<(), TestCaseError> {
        let (rig, which) = (self.rig.clone(), program);
        rig.clone().on(cpu, || {
            let program = &mut self.programs[which];
            let space = program.space.clone();
            rig.run(&space);
            let memory = &rig.memory;
            match ask {
                Ask::Map { pages, huge } => {
                    if program.pages.len() > 2500 {
                        return Ok(());
                    }
                    let start = memory.map_anonymous(&space, Pages::new(*pages)).unwrap();
                    let _ = memory.advise_huge(&space, start, Pages::new(*pages), *huge);
                    for page in 0..*pages {
                        let fresh = Page { value: 0, free: false, protection: Protection::ReadWrite };
                        prop_assert!(program.pages.insert(at(start, page), fresh).is_none());
                    }
                }
                Ask::Unmap(part) => {
                    let Some((start, end)) = program.range(part) else { return Ok(()) };
                    match memory.unmap(&space, start, between(start, end)) {
                        Ok(()) => program.pages.retain(|page, _| !(start..end).contains(page)),
                        Err(error) => prop_assert_eq!(error, UnmapError::OutOfMemory),
                    }
                }
                Ask::Discard(parts) => {
                    let ranges = program.ranges(parts);
                    if memory.discard_ranges(&space, &ranges).is_ok() {
                        for (start, pages) in ranges {
                            program.each((start, at(start, pages.get())), |(_, page)| {
                                (page.value, page.free) = (0, false);
                            });
                        }
                    }
                }
                Ask::Protect(part, protection) => {
                    let Some((start, end)) = program.range(part) else { return Ok(()) };
                    if memory.protect(&space, start, between(start, end), *protection).is_ok() {
                        program.each((start, end), |(_, page)| page.protection = *protection);
                    }
                }
                Ask::Remap { part, pages, place } => {
                    let place = place.map(|page| (1 << 30) + page * PAGE_BYTES);
                    return remap(&rig, program, part, *pages, place);
                }
                Ask::Free(parts) => {
                    let ranges = program.ranges(parts);
                    if memory.advise_free_ranges(&space, &ranges).is_ok() {
                        for (start, pages) in ranges {
                            program.each((start, at(start, pages.get())), |(_, page)| page.free = true);
                        }
                    }
                }
                Ask::Fork => match memory.fork(&space) {
                    Ok(child) => {
                        let pages = program.pages.clone();
                        let next = (which + 1) % 3;
                        let mut leaves = Program { space: child, pages };
                        if self.calling != Some(next) {
                            std::mem::swap(&mut leaves, &mut self.programs[next]);
                        }
                        leave(&rig, &leaves.space);
                    }
                    Err(error) => prop_assert_eq!(error, ForkError::OutOfMemory),
                },
                Ask::Hint(part) => {
                    let Some((start, end)) = program.range(part) else { return Ok(()) };
                    memory.hint(&space, start, between(start, end)).unwrap();
                }
                Ask::Lock(part, on) => {
                    let Some((start, end)) = program.range(part) else { return Ok(()) };
                    let end = end.min(at(start, 50));
                    let _ = if *on {
                        memory.lock(&space, start, between(start, end))
                    } else {
                        memory.unlock(&space, start, between(start, end))
                    };
                }
                Ask::Collapse(page) => {
                    let Some(page) = program.page(*page) else { return Ok(()) };
                    let _ = memory.collapse(&space, page);
                }
                Ask::Store(page, value) => {
                    let Some(address) = program.page(*page) else { return Ok(()) };
                    return store(&rig, program, address, *value);
                }
                Ask::Fill(part, value) => {
                    let Some((start, end)) = program.range(part) else { return Ok(()) };
                    for (address, value) in (start..end).step_by(PAGE_BYTES as usize).zip(*value..) {
                        store(&rig, program, address, value)?;
                    }
                }
                Ask::Load(page) => {
                    let Some(address) = program.page(*page) else { return Ok(()) };
                    return see(&rig, program, address);
                }
            }
            Ok(())
        })
    }
}

/// Gives a part of a program's memory a new length, at a given place or anywhere.
fn remap(
    rig: &Rig,
    program: &mut Program,
    part: &Part,
    pages: u64,
    place: Option<u64>,
) -> Result<(), TestCaseError> {
    let Some((start, end)) = program.range(part) else { return Ok(()) };
    let placement = place.map_or(Placement::Anywhere, Placement::At);
    let to = match rig.memory.remap(&program.space, start, between(start, end), Pages::new(pages), placement)
    {
        Ok(to) => to,
        Err(RemapError::Range(error)) => return Err(TestCaseError::fail(error.to_string())),
        Err(_) => return Ok(()),
    };
    let new_end = at(to, pages);
    let old: Vec<(u64, Page)> = program.pages.range(start..end).map(|(page, held)| (*page, *held)).collect();
    let protection = old[0].1.protection;
    program.pages.retain(|page, _| !(start..end).contains(page));
    if to != start {
        program.pages.retain(|page, _| !(to..new_end).contains(page));
    }
    let kept = old.into_iter().filter(|(address, _)| address - start < new_end - to);
    program.pages.extend(kept.map(|(address, page)| (to + (address - start), page)));
    for address in (to..new_end).step_by(PAGE_BYTES as usize) {
        program.pages.entry(address).or_insert(Page { value: 0, free: false, protection });
    }
    Ok(())
}

/// Checks the value that a program reads at an address.
fn see(rig: &Rig, program: &mut Program, address: u64) -> Result<(), TestCaseError> {
    let loaded = rig.load(&program.space, address);
    let page = program.pages.get_mut(&address).unwrap();
    match loaded {
        Ok(0) if page.free => (page.value, page.free) = (0, false),
        Err(FaultError::OutOfMemory) => {}
        _ if page.protection == Protection::None => {
            prop_assert_eq!(loaded, Err(FaultError::NoAccess(address)));
        }
        _ => prop_assert_eq!(loaded, Ok(page.value), "{:#x}", address),
    }
    Ok(())
}

/// Stores at an address, and checks whether that is allowed.
fn store(rig: &Rig, program: &mut Program, address: u64, value: u64) -> Result<(), TestCaseError> {
    let stored = rig.store(&program.space, address, value);
    let page = program.pages.get_mut(&address).unwrap();
    match page.protection {
        Protection::ReadWrite if stored.is_ok() => (page.value, page.free) = (value, false),
        Protection::ReadWrite => prop_assert_eq!(stored, Err(FaultError::OutOfMemory)),
        Protection::Read => prop_assert_eq!(stored, Err(FaultError::ReadOnly(address))),
        Protection::None => prop_assert_eq!(stored, Err(FaultError::NoAccess(address))),
    }
    Ok(())
}

/// Takes a program off all CPUs and ends it.
fn leave(rig: &Rig, space: &Space) {
    for cpu in 0..2 {
        rig.on(cpu, || drop(rig.memory.engine().unload()));
    }
    rig.memory.exit(space.clone());
}

/// Runs `body`. In its middle, when `work` is done for the time after the next `after`, the other CPU performs a
/// program's request.
fn interleave(
    rig: &Rig,
    world: &Arc<Mutex<World>>,
    (work, after): (Work, u32),
    (asker, ask): (usize, &Ask),
    body: impl FnOnce(),
) -> Result<(), TestCaseError> {
    let outcome = Arc::new(Mutex::new(Ok(())));
    let (inner, result, ask) = (world.clone(), outcome.clone(), ask.clone());
    rig.platform().after(after, Moment::Work(work), move || {
        *result.lock().unwrap() = inner.lock().unwrap().ask(1, asker, &ask);
    });
    body();
    rig.platform().forget_hooks();
    let result = std::mem::replace(&mut *outcome.lock().unwrap(), Ok(()));
    result
}

fn take(rig: &Rig, world: &Arc<Mutex<World>>, step: &Step) -> Result<(), TestCaseError> {
    let lock = || world.lock().unwrap();
    match step {
        Step::Ask { cpu, program, ask } => lock().ask(*cpu, *program, ask)?,
        Step::Migrate { program, to, after, asker, ask } => {
            let space = lock().programs[*program].space.clone();
            rig.run(&space);
            interleave(rig, world, (Work::MigratePage, *after), (*asker, ask), || {
                let _ = rig.memory.migrate_space(&space, NodeId(1 - to), NodeId(*to));
            })?;
        }
        Step::PageOut { program, part, after, asker, ask } => {
            let (space, range) = {
                let world = lock();
                let program = &world.programs[*program];
                (program.space.clone(), program.range(part))
            };
            let Some((start, end)) = range else { return Ok(()) };
            rig.run(&space);
            lock().calling = Some(*program);
            interleave(rig, world, (Work::ReclaimPage, *after), (*asker, ask), || {
                let _ = rig.memory.advise_page_out(&space, start, between(start, end));
            })?;
            lock().calling = None;
        }
        Step::Reclaim(node) => rig.memory.reclaim_node(NodeId(*node)),
        Step::Tick(cpu) => rig.on(*cpu, || rig.platform().interrupts_off(|| rig.memory.tick())),
        Step::Lazy(cpu) => rig.on(*cpu, || rig.rest()),
        Step::Exit(program) => {
            // The next program needs at least the frame of its root.
            leave(rig, &lock().programs[*program].space);
            lock().programs[*program] = Program::new(rig);
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ceasefire_testing::cases(500), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn programs_see_what_they_stored_and_leave_nothing(
        (schedule, payment) in schedule(),
        broadcast in broadcast(),
        machine in 0..3usize,
        steps in prop::collection::vec(step(), 1..200),
    ) {
        // Enough of everything, too little, and a slow node.
        let (first, frames, tier, slots) =
            [(5_003, 4096, 0, 8192), (0, 900, 0, 700), (1 << 30 | 1, 1500, 1, 700)][machine];
        let nodes = vec![NodeLayout::new(frames), NodeLayout { frames, tier }];
        let config = Config {
            first_frame: FrameNumber::new(first),
            swap_pages: slots,
            objects: 1024,
            // In reads of the clock.
            lazy: Lazy { max_age: 400, tick: 100, payment, ..Lazy::default() },
            ..Config::new(nodes, 2, schedule)
        };
        let rig = Rig::by_hand_with(config, broadcast);
        let free = rig.memory.free_frames();
        let programs = (0..3).map(|_| Program::new(&rig)).collect();
        let world = Arc::new(Mutex::new(World { rig: rig.clone(), programs, calling: None }));
        for step in &steps {
            take(&rig, &world, step)?;
            prop_assert_eq!(rig.platform().first_violation(), None, "after {:?}", step);
        }
        let mut programs = std::mem::take(&mut world.lock().unwrap().programs);
        for program in &mut programs {
            for cpu in 0..2 {
                let pages: Vec<u64> = program.pages.keys().copied().collect();
                rig.on(cpu, || {
                    rig.run(&program.space);
                    pages.into_iter().try_for_each(|address| see(&rig, program, address))
                })?;
            }
        }
        for program in programs {
            leave(&rig, &program.space);
        }
        rig.memory.list_collected();
        rig.memory.engine().pay_all();
        prop_assert_eq!(rig.memory.free_frames(), free, "frames were lost or found");
        prop_assert_eq!(rig.memory.free_slots(), slots, "slots were lost or found");
        rig.platform().assert_no_violation();
    }
}
