//! Random interleavings: CPUs switch, unmap, reclaim, tick and end spaces between any two steps of each other.
//!
//! The [random histories](crate::random) do one thing after the other. Here everything happens at once, on a machine
//! that checks only the frames that a program sees: none that it may no longer reach, and none of another program.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use ceasefire::{
    AddressSpace, Batch, Bounds, Capabilities, Condition, Engine, Entry, Flush, Gather, Owed, PageSize,
    Payment, Platform, Root, Schedule, Stamp, TableGuard,
};

use crate::hands::room;
use crate::script::{every, wide, PROMISES};
use crate::threads::{Threads, PAGES};

const STEPS: usize = 120;

/// A page of a root.
type Page = (Root, u64);

/// A space's place. When the space ends, another takes the place.
#[derive(Debug)]
struct Place {
    space: Mutex<Arc<AddressSpace>>,
    /// The page-table lock.
    locked: AtomicBool,
    ending: AtomicBool,
    /// The CPUs that are about to switch to it.
    entering: AtomicUsize,
}

struct Locked<'a>(&'a AtomicBool, Arc<AddressSpace>);

// SAFETY: the threads change translations under this lock alone. It names one space.
unsafe impl TableGuard<Threads> for Locked<'_> {
    fn space(&self) -> &Arc<AddressSpace> {
        &self.1
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.store(false, SeqCst);
    }
}

impl Place {
    fn new(engine: &Engine<Threads>, root: u64) -> Self {
        Self {
            space: Mutex::new(Arc::new(engine.new_space(Root(root)))),
            locked: AtomicBool::new(false),
            ending: AtomicBool::new(false),
            entering: AtomicUsize::new(0),
        }
    }

    fn space(&self) -> Arc<AddressSpace> {
        self.space.lock().expect("a failure ends the run").clone()
    }

    fn lock(&self, engine: &Engine<Threads>) -> Locked<'_> {
        while self.locked.swap(true, SeqCst) {
            engine.platform().pause();
        }
        Locked(&self.locked, self.space())
    }
}

/// The state that all CPUs share.
struct History {
    places: Vec<Place>,
    roots: AtomicU64,
    frames: AtomicU64,
    /// Pages taken away by batches and not settled: the frame, and the stamp of its debt if it is known.
    owed: Mutex<Vec<(Page, u64, Option<Stamp>)>>,
    schedule: Schedule,
}

impl History {
    /// A strict unmap of `pages`, and of the tables if `tables`.
    fn unmap(&self, engine: &Engine<Threads>, place: &Place, pages: std::ops::Range<u64>, tables: bool) {
        let lock = place.lock(engine);
        let (space, world) = (place.space(), || engine.platform().world());
        let lock = engine.settle(lock);
        let owed = self.owed.lock().expect("a failure ends the run");
        world()
            .gone
            .extend(owed.iter().filter(|(page, ..)| page.0 == space.root()).map(|(_, frame, _)| frame));
        drop(owed);
        let mut room = room::<_, 4>();
        let mut gather: Gather<'_, _, Option<u64>, _> =
            Gather::new(engine, &space, &mut room, |frame| world().gone.extend(frame));
        let mut changes = gather.under(lock);
        for page in pages {
            let frame = world().tables.remove(&(space.root(), page));
            if frame.is_some() {
                changes.clear(page << 12, PageSize::KIB_4, |_| Entry::READ_ONLY, |_| Some(frame));
            }
        }
        if tables {
            changes.unlink(0, PageSize::KIB_4, |_| Some(None));
        }
        drop(changes);
        gather.finish();
    }

    /// Ends the space in a place, which no CPU begins to run any more, and puts another space there.
    fn renew(&self, engine: &Engine<Threads>, place: &Place) {
        let space = place.space();
        if engine.platform().random(2) == 0 {
            // The first call may be too early, while other CPUs run the space: the ASID stays, or no CPU has it loaded.
            let _ = engine.retire(&space);
        }
        drop(engine.unload());
        self.unmap(engine, place, 0..PAGES, true);
        while place.entering.load(SeqCst) > 0 || engine.platform().is_loaded(space.root()) {
            engine.platform().pause();
        }
        // CPUs that are switching now keep their places in the set, and do not keep the ASID.
        assert_eq!(engine.retire(&space), Ok(()), "no CPU has it loaded");
        let next = engine.new_space(Root(self.roots.fetch_add(1, SeqCst)));
        *place.space.lock().expect("a failure ends the run") = Arc::new(next);
        place.ending.store(false, SeqCst);
    }

    /// Removes the frames of debts that are settled by now.
    fn reap(&self, engine: &Engine<Threads>) {
        let settled = engine.settled_stamp();
        let mut world = engine.platform().world();
        self.owed.lock().expect("a failure ends the run").retain(|&(_, frame, stamp)| {
            let done = stamp.is_some_and(|stamp| stamp <= settled);
            world.gone.extend(done.then_some(frame));
            !done
        });
    }

    /// The place whose program this CPU runs.
    fn runs(&self, engine: &Engine<Threads>) -> Option<&Place> {
        let cpu = engine.platform().cpu(engine.platform().this_cpu());
        let (loaded, lazy) = (cpu.loaded(), cpu.is_lazy());
        self.places.iter().find(|place| !lazy && place.space().id() == loaded)
    }

    /// The program that runs here maps a page if nothing is owed and no lock is held, and uses all its pages.
    fn access(&self, engine: &Engine<Threads>, page: u64) {
        let Some(place) = self.runs(engine) else { return };
        if place.ending.load(SeqCst) {
            drop(engine.unload());
            return;
        }
        let page = (place.space().root(), page);
        let owed = self.owed.lock().expect("a failure ends the run").iter().any(|(owed, ..)| *owed == page);
        if !owed && !place.locked.load(SeqCst) {
            let fresh = self.frames.fetch_add(1, SeqCst);
            engine.platform().world().tables.entry(page).or_insert(fresh);
        }
        engine.platform().access(page.0);
    }

    /// The actions of one CPU.
    fn play(&self, engine: &Engine<Threads>) {
        let threads = engine.platform();
        let owed = || self.owed.lock().expect("a failure ends the run");
        let mut batch: Batch<'_, _, u64, _, 3> = Batch::new(engine, self.schedule, |page: Owed<u64>| {
            let mut stamp = Stamp::SETTLED;
            let frame = page.leave_in(&mut stamp);
            owed().iter_mut().filter(|owed| owed.1 == frame).for_each(|owed| owed.2 = Some(stamp));
        });
        for _ in 0..STEPS {
            threads.pause();
            let place = &self.places[threads.random(self.places.len() as u64) as usize];
            let page = threads.random(PAGES);
            let ends = place.ending.load(SeqCst);
            match threads.random(22) {
                0..=3 => {
                    place.entering.fetch_add(1, SeqCst);
                    if !place.ending.load(SeqCst) {
                        drop(engine.switch_to(&place.space()));
                    }
                    place.entering.fetch_sub(1, SeqCst);
                }
                4 => engine.enter_lazy(),
                5 => drop(engine.unload()),
                6 => {
                    threads.pass(60);
                    if threads.interrupts_off(|| engine.tick()) {
                        engine.pay_overdue();
                    }
                }
                7 => batch.flush(),
                8..=10 if !ends => self.unmap(engine, place, page..page + 1, threads.random(4) == 0),
                11..=14 if !ends => {
                    let mut unmapping = batch.take(u64::MAX);
                    let lock = place.lock(engine);
                    let root = lock.1.root();
                    let frame = threads.world().tables.remove(&(root, page));
                    let Some(frame) = frame else { continue };
                    owed().push(((root, page), frame, None));
                    unmapping.update(|taken| *taken = frame);
                    unmapping.clear(&lock, page << 12, PageSize::KIB_4, |_| Entry::READ_ONLY);
                    drop(lock);
                    if threads.random(2) == 0 {
                        unmapping.hold();
                    } else {
                        unmapping.release_in_debt(Condition::UNKEPT);
                    }
                }
                15 if threads.random(6) == 0 && !place.ending.swap(true, SeqCst) => {
                    batch.flush();
                    self.renew(engine, place);
                }
                16 => engine.pay_all(),
                // The space may have ended.
                17 => {
                    engine.flush(&place.space(), Flush::page(page << 12, PageSize::KIB_4));
                }
                18 => engine.flush_here(),
                20 if !ends => {
                    let frame = {
                        let _lock = place.lock(engine);
                        threads.world().tables.remove(&(place.space().root(), page))
                    };
                    let space = place.space();
                    let pending = engine.begin_flush(&space, Flush::page(page << 12, PageSize::KIB_4));
                    engine.flush(&self.places[0].space(), Flush::page(0, PageSize::KIB_4));
                    threads.pause();
                    pending.wait();
                    threads.world().gone.extend(frame);
                }
                21 => threads.go_off(engine),
                // Two CPUs may do so at once: each answers the other.
                19 => {
                    let _off = engine.interrupts_off();
                    engine.flush(&place.space(), Flush::page(page << 12, PageSize::KIB_4));
                }
                _ => {}
            }
            self.reap(engine);
            self.access(engine, page);
        }
    }
}

/// Plays the history of a seed, and returns the violation that it found.
pub(crate) fn play(
    seed: u64,
    capabilities: Capabilities,
    schedule: Schedule,
    prepare: impl Fn(&Engine<Threads>),
) -> Result<(), String> {
    let payment = if seed % 5 == 0 { Payment::Demand } else { Payment::Free };
    let bounds = Bounds::new(200, 50, payment).expect("they can be kept");
    let engine = Arc::new(Threads::engine(seed, 2 + (seed % 3) as usize, capabilities, bounds));
    prepare(&engine);
    let places = 1 + seed / 3 % 3;
    let history = History {
        places: (1..=places).map(|root| Place::new(&engine, root)).collect(),
        roots: AtomicU64::new(places + 1),
        frames: AtomicU64::new(0),
        owed: Mutex::default(),
        schedule,
    };
    Threads::run(&engine, |engine, _| history.play(engine));
    let broken = engine.platform().world().broken.take();
    broken.map_or(Ok(()), Err)
}

fn play_all(seeds: u32, schedule: Schedule, capabilities: impl Fn(u64) -> Capabilities) {
    for seed in 0..u64::from(ceasefire_testing::cases(seeds)) {
        assert_eq!(play(seed, capabilities(seed), schedule, |_| ()), Ok(()), "seed {seed}");
    }
}

#[test]
fn random_interleavings_keep_every_rule() {
    play_all(500, Schedule::Lazy, |_| PROMISES);
}

/// With one to three global ASIDs, which are given back and used again all the time.
#[test]
fn random_interleavings_keep_every_rule_while_spaces_move_to_broadcasts_and_back() {
    play_all(2000, Schedule::Batched, |seed| wide(1 + (seed % 3) as u32));
}

#[test]
fn random_interleavings_keep_every_rule_while_spaces_move_to_broadcasts_and_owe() {
    play_all(1000, Schedule::Lazy, |seed| wide(1 + (seed % 3) as u32));
}

#[test]
fn random_interleavings_keep_every_rule_with_broadcasts() {
    play_all(500, Schedule::Lazy, |seed| every(2 + (seed % 2) as u32));
}
