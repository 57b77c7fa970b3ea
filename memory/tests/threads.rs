//! Several CPUs at once, on real threads. Programs of one space map, use, discard and unmap memory. Files larger than
//! memory keep reclaim busy, in the background and in allocations that find no frame.
//!
//! In any order of events, four things must hold: a CPU sees its own stores; other CPUs see nothing older than the
//! value before they looked; no CPU reaches a freed frame; in the end every frame is back.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use ceasefire::{Broadcast, Counters, Holders, Payment, Platform, Schedule, DYNAMIC_ASIDS};
use ceasefire_memory::{
    Config, FaultError, Lazy, NodeId, NodeLayout, ObjectId, Pages, SpaceHandle, Statistics, PAGE_BYTES,
};

use crate::common::guards::{self, Guard};
use crate::common::{Random, Rig, Threads};

type Space = SpaceHandle<Threads>;

/// CPUs that run programs; one more reclaims in the background.
const WORKERS: usize = 4;
/// Pages of a worker's own memory.
const OWN: u64 = 48;
/// Pages of three files: one that is only read, one that is stored to, and one that is mapped privately.
const LARGE: u64 = 3000;
const SMALL: u64 = 300;
/// The number of steps of each worker, and the number if each step reads many pages.
const STEPS: u32 = 20_000;
const READS: u32 = 4_000;
/// A worker's timer ticks at one of so many steps.
const STEPS_A_TICK: u64 = 4;
/// In reads of the clock, which are few: about one for each batch.
const BOUNDS: Lazy = Lazy { max_age: 80, tick: 40, payment: Payment::Free, max_owed: None, reserve: None };
const NODES: [NodeLayout; 2] = [NodeLayout::new(1000), NodeLayout::new(1000)];

/// The known state of a page of a worker's memory: twice the number of the last finished change, plus one if it was a
/// store, after which zeros are wrong.
type Known = AtomicU64;

/// The place of a worker's memory: the address, and in the bits below the page size the number of its moves.
struct Own {
    place: AtomicU64,
    pages: [Known; OWN as usize],
}

/// The operations of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mix {
    /// All operations, so strict unmaps meet batches.
    All,
    /// Reads of a file, part of it all the time. Only reclaim flushes, so TLBs keep their entries.
    Readers,
}

struct World {
    rig: Rig,
    /// The first space is every worker's home.
    spaces: [Space; 2],
    large: [u64; 2],
    small: [u64; 2],
    private: ObjectId,
    files: [ObjectId; 3],
    own: [Own; WORKERS],
    done: AtomicUsize,
    stop: AtomicBool,
    /// Reclaim has stopped.
    ended: AtomicBool,
    /// False with a guard removed: the frames' contents are then undefined, and only the machine's own checks count.
    sound: bool,
    mix: Mix,
}

/// The word that a worker stores: the worker, the page, and the number of the change.
fn word(worker: usize, page: u64, change: u64) -> u64 {
    change << 16 | page << 8 | (worker as u64 + 1)
}

/// A worker: a CPU with its random numbers and its knowledge of its own memory.
struct Worker<'w> {
    world: &'w World,
    me: usize,
    random: Random,
    start: u64,
    moves: u64,
    changes: u64,
    /// The words of its own pages; `None` where they are unmapped.
    words: [Option<u64>; OWN as usize],
}

impl<'w> Worker<'w> {
    fn new(world: &'w World, me: usize) -> Self {
        let mut worker = Self {
            world,
            me,
            random: Random::new(me as u64 + 1),
            start: 0,
            moves: 0,
            changes: 0,
            words: [None; OWN as usize],
        };
        worker.map();
        worker
    }

    fn home(&self) -> &'w Space {
        &self.world.spaces[0]
    }

    fn known(&self, page: u64) -> &'w Known {
        &self.world.own[self.me].pages[page as usize]
    }

    fn expect(&self, right: bool, what: impl FnOnce() -> String) {
        assert!(right || !self.world.sound, "worker {}: {}", self.me, what());
    }

    fn map(&mut self) {
        let memory = &self.world.rig.memory;
        let start = if self.random.below(2) == 0 {
            memory.map_anonymous(self.home(), Pages::new(OWN))
        } else {
            memory.map_private(self.home(), self.world.private, 0, Pages::new(OWN))
        };
        self.start = start.expect("there is room");
        self.words = [Some(0); OWN as usize];
        self.moves = (self.moves + 1) % PAGE_BYTES;
        self.world.own[self.me].place.store(self.start | self.moves, Ordering::SeqCst);
    }

    fn unmap(&mut self, from: u64, to: u64) {
        self.zero_from_now_on(from, to);
        let outside = (0..OWN).filter(|page| !(from..to).contains(page));
        if outside.into_iter().all(|page| self.words[page as usize].is_none()) {
            // Another worker's memory may later be mapped there.
            self.world.own[self.me].place.store(0, Ordering::SeqCst);
        }
        self.world
            .rig
            .memory
            .unmap(self.home(), self.start + from * PAGE_BYTES, Pages::new(to - from))
            .expect("a range");
        self.settled(from, to, None);
    }

    fn discard(&mut self, parts: &[(u64, u64)]) {
        for &(from, to) in parts {
            self.zero_from_now_on(from, to);
        }
        let range = |&(from, to): &(u64, u64)| (self.start + from * PAGE_BYTES, Pages::new(to - from));
        let ranges: Vec<(u64, Pages)> = parts.iter().map(range).collect();
        self.world.rig.memory.discard_ranges(self.home(), &ranges).expect("ranges");
        for &(from, to) in parts {
            self.settled(from, to, Some(0));
        }
    }

    /// From now on other workers may find zeros there, and still the stored words.
    fn zero_from_now_on(&self, from: u64, to: u64) {
        for page in from..to {
            self.known(page).fetch_and(!1, Ordering::SeqCst);
        }
    }

    /// From now on no worker may find the previously stored words there.
    fn settled(&mut self, from: u64, to: u64, word: Option<u64>) {
        self.changes += 1;
        for page in from..to {
            self.known(page).store(self.changes << 1, Ordering::SeqCst);
            let held = &mut self.words[page as usize];
            *held = held.and(word);
        }
    }

    fn store(&mut self, page: u64) {
        self.changes += 1;
        let value = word(self.me, page, self.changes);
        match self.world.rig.store(self.home(), self.start + page * PAGE_BYTES, value) {
            Ok(()) => {
                self.expect(self.words[page as usize].is_some(), || {
                    format!("stored to unmapped page {page}")
                });
                self.words[page as usize] = Some(value);
                self.known(page).store(self.changes << 1 | 1, Ordering::SeqCst);
            }
            Err(error) => self.refused(page, error),
        }
    }

    fn load(&mut self, page: u64) {
        match self.world.rig.load(self.home(), self.start + page * PAGE_BYTES) {
            Ok(value) => {
                let held = self.words[page as usize];
                self.expect(held == Some(value), || format!("page {page}: {value:#x} for {held:x?}"));
            }
            Err(error) => self.refused(page, error),
        }
    }

    fn refused(&self, page: u64, error: FaultError) {
        let unmapped = matches!(error, FaultError::NotMapped(_)) && self.words[page as usize].is_none();
        self.expect(unmapped, || format!("page {page}: {error}"));
    }

    /// Checks another worker's memory.
    fn look(&mut self) {
        let other = self.random.below(WORKERS as u64) as usize;
        let page = self.random.below(OWN);
        let theirs = &self.world.own[other];
        let place = theirs.place.load(Ordering::SeqCst);
        let known = theirs.pages[page as usize].load(Ordering::SeqCst);
        if place == 0 {
            return;
        }
        let address = place / PAGE_BYTES * PAGE_BYTES + page * PAGE_BYTES;
        let Ok(value) = self.world.rig.load(self.home(), address) else { return };
        let now = theirs.pages[page as usize].load(Ordering::SeqCst);
        if theirs.place.load(Ordering::SeqCst) != place {
            // It moved meanwhile, and the memory there may now belong to any worker.
            return;
        }
        let describe = || format!("page {page} of {other}: {value:#x} after {known:#x}, now {now:#x}");
        if value == 0 {
            self.expect(known & 1 == 0 || now != known, describe);
        } else {
            let fits = value & 0xffff == word(other, page, 0) && value >> 16 >= known >> 1;
            self.expect(fits, describe);
        }
    }

    /// Reads some pages of the large file, in either space.
    fn read(&mut self, space: usize, first: u64) {
        let world = self.world;
        for page in first..first + 32 {
            let value = world.rig.load(&world.spaces[space], world.large[space] + page * PAGE_BYTES);
            self.expect(value == Ok(0), || format!("page {page} of the large file: {value:x?}"));
        }
    }

    /// Stores to a page of the small file or reads one. Reclaim turns the page into a hole again.
    fn share(&mut self, space: usize) {
        let world = self.world;
        let page = self.random.below(SMALL);
        let address = world.small[space] + page * PAGE_BYTES;
        let mark = u64::MAX - page;
        if self.random.below(2) == 0 {
            let stored = world.rig.store(&world.spaces[space], address, mark);
            self.expect(stored == Ok(()), || format!("page {page} of the small file: {stored:?}"));
        } else {
            let value = world.rig.load(&world.spaces[space], address);
            let right = value == Ok(0) || value == Ok(mark);
            self.expect(right, || format!("page {page} of the small file: {value:x?}"));
        }
    }

    /// Creates a file, uses it, and deletes it while reclaim may be scanning its pages.
    fn use_and_delete(&mut self) {
        let (rig, home) = (&self.world.rig, self.home());
        let file = rig.memory.create_file(64).expect("there are identities");
        let start = rig.memory.map_shared(home, file, 0, Pages::new(64), true).expect("there is room");
        for page in 0..64 {
            let address = start + page * PAGE_BYTES;
            let done = if page % 4 == 0 {
                rig.store(home, address, page)
            } else {
                rig.load(home, address).map(drop)
            };
            self.expect(done == Ok(()), || format!("page {page} of a new file: {done:?}"));
        }
        rig.memory.unmap(home, start, Pages::new(64)).expect("a range");
        for _ in 0..self.random.below(3) {
            self.read(0, 0);
        }
        rig.memory.delete_file(file);
    }

    /// Goes idle, or runs a program of the other space for a while.
    fn leave(&mut self) {
        let rig = &self.world.rig;
        if self.random.below(2) == 0 {
            rig.rest();
            for _ in 0..self.random.below(20) {
                rig.platform().poll();
                std::thread::yield_now();
            }
        } else {
            rig.run(&self.world.spaces[1]);
            for _ in 0..3 {
                let first = self.random.below(LARGE - 32);
                self.read(1, first);
                self.share(1);
            }
        }
        rig.run(self.home());
    }

    fn step(&mut self) {
        if self.random.below(STEPS_A_TICK) == 0 {
            let rig = &self.world.rig;
            rig.platform().interrupts_off(|| rig.memory.tick());
        }
        if self.world.mix == Mix::Readers {
            let bound = if self.random.below(2) == 0 { 64 } else { LARGE - 32 };
            let first = self.random.below(bound);
            return self.read(0, first);
        }
        let from = self.random.below(OWN);
        let to = from + 1 + self.random.below(OWN - from);
        match self.random.below(100) {
            0..=29 => self.store(from),
            30..=49 => self.load(from),
            50..=69 => self.look(),
            70..=79 => {
                let first = self.random.below(LARGE - 32);
                self.read(0, first);
            }
            80..=91 => self.share(0),
            92..=94 => self.leave(),
            95 => self.discard(&[(from, to)]),
            96 => self.discard(&[(to - 1, to), (from, from + 1)]),
            97 => self.use_and_delete(),
            98 => {
                self.unmap(from, to);
                if self.words.iter().all(Option::is_none) {
                    self.map();
                }
            }
            _ => {
                self.unmap(0, OWN);
                self.map();
            }
        }
    }
}

/// Reclaims a node whenever it is woken, until everything stops.
fn reclaim_in_background(world: &World) {
    let platform = world.rig.platform();
    let wanted =
        || (0..NODES.len() as u16).map(NodeId).filter(|&node| platform.take_wake(node)).collect::<Vec<_>>();
    while !world.stop.load(Ordering::Acquire) {
        platform.poll();
        platform.assert_alive();
        for node in wanted() {
            world.rig.memory.reclaim_node(node);
        }
        std::thread::yield_now();
    }
    world.ended.store(true, Ordering::Release);
}

fn run_worker(world: &World, me: usize, steps: u32) {
    world.rig.run(&world.spaces[0]);
    let mut worker = Worker::new(world, me);
    for _ in 0..steps {
        worker.step();
        if !world.sound && world.rig.platform().violations() > 0 {
            break;
        }
    }
    // Other CPUs may need this CPU until they are done too. The reclaimer may have decided to interrupt it before it
    // left the space.
    world.done.fetch_add(1, Ordering::SeqCst);
    world.rig.platform().idle_until(|| world.done.load(Ordering::SeqCst) == WORKERS);
    drop(world.rig.memory.engine().unload());
    world.stop.store(true, Ordering::Release);
    world.rig.platform().idle_until(|| world.ended.load(Ordering::Acquire));
}

/// A schedule, the flushes that settle debts, and the processors' broadcasts.
type Mechanism = (Schedule, Payment, Option<Broadcast>);

fn world((schedule, payment, broadcast): Mechanism, mix: Mix, without: Option<Guard>) -> World {
    let lazy = Lazy { payment, ..BOUNDS };
    let config = Config { objects: 64, lazy, ..Config::new(NODES.to_vec(), WORKERS + 1, schedule) };
    let rig = Rig::threaded_with(config, broadcast);
    guards::remove(&rig.memory, without);
    let memory = &rig.memory;
    let file = |pages: u64| memory.create_file(pages as u32).unwrap();
    let (large, small, private) = (file(LARGE), file(SMALL), file(OWN));
    let spaces = [(); 2].map(|()| memory.new_space().unwrap());
    World {
        large: [0, 1]
            .map(|space| memory.map_shared(&spaces[space], large, 0, Pages::new(LARGE), false).unwrap()),
        small: [0, 1]
            .map(|space| memory.map_shared(&spaces[space], small, 0, Pages::new(SMALL), true).unwrap()),
        private,
        files: [large, small, private],
        own: std::array::from_fn(|_| Own {
            place: AtomicU64::new(0),
            pages: [const { Known::new(0) }; OWN as usize],
        }),
        done: AtomicUsize::new(0),
        stop: AtomicBool::new(false),
        ended: AtomicBool::new(false),
        sound: without.is_none(),
        mix,
        spaces,
        rig,
    }
}

fn run(world: &World, steps: u32) {
    std::thread::scope(|scope| {
        for me in 0..WORKERS {
            scope.spawn(move || {
                let _failing = world.rig.start(me);
                run_worker(world, me, steps);
            });
        }
        scope.spawn(|| {
            let _failing = world.rig.start(WORKERS);
            reclaim_in_background(world);
        });
    });
}

/// Runs all workers, and takes everything apart again.
fn run_and_finish(mechanism: Mechanism, mix: Mix) -> (Counters, Statistics) {
    let world = world(mechanism, mix, None);
    // The zero page is the one frame that never comes back.
    let all = NODES.iter().map(|node| u64::from(node.frames)).sum::<u64>() - 1;
    run(&world, if mix == Mix::All { STEPS } else { READS });
    let (counters, statistics) = (world.rig.memory.counters(), world.rig.memory.statistics());
    let World { rig, spaces, files, .. } = world;
    for space in spaces {
        rig.memory.exit(space);
    }
    for file in files {
        rig.memory.delete_file(file);
    }
    rig.memory.list_collected();
    rig.platform().assert_no_violation();
    assert_eq!(rig.memory.free_frames(), all, "frames were lost or found: {statistics:?}");
    assert_eq!(rig.platform().written(), statistics.written);
    assert!(statistics.reclaimed_background > 0 && statistics.reclaimed_direct > 0, "{statistics:?}");
    let broadcast = mechanism.2;
    assert!(broadcast.is_none() || counters.broadcasts > 0, "{counters:?}");
    let every = broadcast.is_some_and(|broadcast| broadcast.holders() == Holders::Every);
    if every || broadcast.is_none() || mix == Mix::All {
        // Readers alone request no flush, and broadcasts pay for the batches.
        assert!((counters.shootdowns > 0 && counters.interrupts > 0) != every, "{counters:?}");
    }
    (counters, statistics)
}

const PER_PAGE: Mechanism = (Schedule::PerPage, Payment::Free, None);
const BATCHED: Mechanism = (Schedule::Batched, Payment::Free, None);

/// Processors with `asids` ASIDs that mean the same on every CPU.
fn broadcast(asids: u32, holders: Holders) -> Broadcast {
    Broadcast::new(asids, 4, holders).expect("enough ASIDs")
}

/// Interrupts for each reclaimed page.
fn interrupts((counters, statistics): (Counters, Statistics)) -> f64 {
    counters.interrupts as f64 / (statistics.reclaimed_background + statistics.reclaimed_direct) as f64
}

#[test]
fn nothing_is_lost_or_stale_on_many_cpus_and_batching_saves_interrupts() {
    for mix in [Mix::All, Mix::Readers] {
        let at_once = interrupts(run_and_finish(PER_PAGE, mix));
        let batched = interrupts(run_and_finish(BATCHED, mix));
        assert!(batched < at_once, "{mix:?}, interrupts for each page reclaimed: {batched} after {at_once}");
    }
}

#[test]
fn nothing_is_lost_or_stale_on_many_cpus_while_frames_owe() {
    for payment in [Payment::Free, Payment::Demand] {
        for mix in [Mix::All, Mix::Readers] {
            let (_, statistics) = run_and_finish((Schedule::Lazy, payment, None), mix);
            assert!(statistics.frames_matured > 1000, "{payment:?} {mix:?}: {statistics:?}");
        }
    }
}

/// One ASID for both spaces, which get it and give it back in turn.
#[test]
fn nothing_is_lost_or_stale_while_spaces_move_between_slots_and_a_global_asid() {
    let one = broadcast(DYNAMIC_ASIDS as u32 + 1, Holders::Wide);
    for schedule in [Schedule::Batched, Schedule::Lazy] {
        for mix in [Mix::All, Mix::Readers] {
            run_and_finish((schedule, Payment::Free, Some(one)), mix);
        }
    }
}

#[test]
fn nothing_is_lost_or_stale_when_every_space_has_a_global_asid() {
    let few = broadcast(3, Holders::Every);
    for schedule in [Schedule::Batched, Schedule::Lazy] {
        run_and_finish((schedule, Payment::Free, Some(few)), Mix::All);
    }
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_interrupts_of_transitions_stale_entries_are_seen() {
    let one = broadcast(DYNAMIC_ASIDS as u32 + 1, Holders::Wide);
    let world = world(
        (Schedule::Batched, Payment::Free, Some(one)),
        Mix::All,
        Some(guards::Engine::Transition.into()),
    );
    run(&world, STEPS);
    assert!(world.rig.platform().violations() > 0);
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_flush_of_batches_stale_entries_are_seen() {
    let world = world(BATCHED, Mix::Readers, Some(guards::Engine::BatchFlush.into()));
    run(&world, READS);
    assert!(world.rig.platform().violations() > 0);
}

#[cfg(ceasefire_sabotage)]
#[test]
fn without_the_stamps_of_debts_stale_entries_are_seen() {
    let world =
        world((Schedule::Lazy, Payment::Free, None), Mix::Readers, Some(guards::Engine::Stamp.into()));
    run(&world, READS);
    assert!(world.rig.platform().violations() > 0);
}
