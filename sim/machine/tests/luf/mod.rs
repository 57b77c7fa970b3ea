//! The objections to lazy unmap flushes from the discussion in Linux (B. Park's LUF and MIGRC, 2023 to 2025), each
//! played as a program: seventeen ways to read a page that is gone, and the holes in the published patches.
//!
//! Every play has the same start. A *reader* on CPU 0 loads one word of a file over and over, so its TLB keeps the
//! page. The kernel takes the page away lazily: it moves or evicts it. No CPU takes a tick, so the reader continues
//! to read a frame that is free, through a translation that is cleared. Then the *actor* on CPU 1, another thread of
//! the same program, performs the operation of the objection. As soon as it is done the reader must see the right
//! value. The oracle checks the run.
//!
//! A check that the published behaviour would pass too shows nothing. So each play is repeated without the guards
//! that the published patches did not have, and must then fail.

mod holes;
mod scenarios;

use std::cell::Cell;
use std::rc::Rc;

use ceasefire::{Payment, Schedule, LONGEST_AGE};
use ceasefire_machine::{Options, Outcome, Program, Sim, Simulation};
use ceasefire_memory::{Memory, Moved, NodeId, ObjectId, Pages, SpaceHandle};

use crate::common::guards::{self, Guard};
use crate::common::{at, machine, US};

/// The guards that the published patches did not have.
#[cfg(ceasefire_sabotage)]
pub(crate) const SLOT: Guard = Guard::Own(guards::Own::Slot);
#[cfg(ceasefire_sabotage)]
pub(crate) const SETTLE: Guard = Guard::Engine(guards::Engine::Settle);
#[cfg(ceasefire_sabotage)]
pub(crate) const STAMP: Guard = Guard::Engine(guards::Engine::Stamp);
/// The word that the file's page holds at first, and the word that replaces it.
pub(crate) const OLD: u64 = 0x0101_0101_0101_0101;
pub(crate) const NEW: u64 = 0x0202_0202_0202_0202;
/// Pages of the file.
pub(crate) const PAGES: u64 = 4;
/// Pages of another file: nearly all of a node.
const MANY: u64 = 400;
/// In picoseconds. No play lasts that long.
const TICK: u64 = LONGEST_AGE / 2 * 1000;

/// The way in which the kernel takes a page away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// It moves to the other node.
    Moves,
    /// Reclaim frees it.
    Goes,
}

/// The reader's mapping of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mapped {
    Shared,
    Private,
}

/// The setup of a play.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Setup {
    pub(crate) payment: Payment,
    pub(crate) way: Way,
    pub(crate) mapped: Mapped,
    pub(crate) without: &'static [Guard],
}

/// The reader's state, for the actor.
#[derive(Debug, Default)]
pub(crate) struct Reader {
    address: Cell<u64>,
    seen: Cell<Option<u64>>,
    loads: Cell<u64>,
    stop: Cell<bool>,
}

/// The actor, on CPU 1, and the file on which it acts.
pub(crate) struct Actor<'p> {
    pub(crate) program: &'p Program,
    pub(crate) file: ObjectId,
    reader: Rc<Reader>,
    setup: Setup,
}

/// The result of a play.
#[derive(Debug)]
pub(crate) struct Played {
    /// The word that the reader saw at the end; none if it got a signal.
    pub(crate) seen: Option<u64>,
    pub(crate) outcome: Outcome,
}

impl Actor<'_> {
    /// The page that the reader reads.
    pub(crate) fn address(&self) -> u64 {
        self.reader.address.get()
    }

    pub(crate) fn call<R>(&self, call: impl FnOnce(&Memory<Sim>, &SpaceHandle<Sim>) -> R) -> R {
        self.program.system_call(call)
    }

    /// The word that the reader sees in a load that begins after the call; none if it gets a signal.
    pub(crate) fn seen(&self) -> Option<u64> {
        // The first load that ends may have begun before.
        let loads = self.reader.loads.get() + 2;
        while self.reader.loads.get() < loads {
            self.program.compute(US);
        }
        self.reader.seen.get()
    }

    /// Whether the reader reads the old page. Without a guard the page's frame may count as free at once, and then
    /// holds the machine's poison.
    fn reads_on(&self) -> bool {
        let seen = self.seen();
        seen == Some(OLD) || (!self.setup.without.is_empty() && seen.is_some())
    }

    /// The number of faults of all threads.
    fn faults(&self) -> u64 {
        self.program.reading().statistics.faults
    }

    /// Takes the page away lazily. When this returns, the reader reads its old frame, which is free and owing.
    pub(crate) fn take_away(&self) {
        match self.setup.way {
            Way::Moves => self.move_away(),
            Way::Goes => self.evict(),
        }
        let faults = self.faults();
        assert!(self.reads_on(), "the reader may continue to read the old page");
        if self.setup.without.is_empty() {
            let memory = self.program.memory();
            assert!(memory.engine().owes(self.program.space().coherence()), "its flush is owed");
            assert!(memory.owing_frames() > 0, "its frame is free and owing");
            assert_eq!(self.faults(), faults, "the reader reads through a cleared translation");
        }
    }

    pub(crate) fn move_away(&self) {
        let moved = self.call(|memory, space| memory.move_pages(space, &[(self.address(), NodeId(1))]));
        assert_eq!(moved, [Moved::There]);
    }

    /// Fills the node, and then takes free frames, without paying for any, until background reclaim has taken the
    /// page.
    fn evict(&self) {
        let memory = self.program.memory();
        let other = self.call(|memory, _| memory.create_file(MANY as u32)).expect("a free object");
        let base = self
            .call(|memory, space| memory.map_shared(space, other, 0, Pages::new(MANY), false))
            .expect("room");
        for page in 0..MANY {
            self.program.load(at(base, page), 1).expect("a page of a file");
        }
        let gone = || memory.cached_pages(self.file) == 0;
        let mut taken = Vec::new();
        while !(gone() && self.reads_on() && gone()) {
            let frame = self.call(|memory, _| memory.allocate_atomic(NodeId(0)));
            taken.push(frame.expect("the page goes before its node is empty"));
            self.program.compute(20 * US);
        }
        self.call(|memory, _| taken.into_iter().for_each(|frame| memory.free(frame)));
    }

    /// Runs `body` in another program on another CPU.
    pub(crate) fn elsewhere<R: 'static>(&self, body: impl FnOnce(&Program) -> R + 'static) -> R {
        let space = self.call(|memory, _| memory.new_space()).expect("a frame");
        let (result, mine) = {
            let result = Rc::new(Cell::new(None));
            (result.clone(), result)
        };
        let other = move |program: &Program| {
            result.set(Some(body(program)));
            program.system_call(|memory, space| memory.exit(space.clone()));
        };
        self.program.spawn("elsewhere", 2, &space, other).expect("a stack");
        loop {
            if let Some(result) = mine.take() {
                return result;
            }
            self.program.compute(US);
        }
    }
}

pub(crate) fn write(memory: &Memory<Sim>, file: ObjectId, word: u64) {
    memory.write(file, 0, &word.to_le_bytes()).expect("there is memory");
}

fn options(setup: Setup) -> Options {
    Options {
        contents: true,
        payment: setup.payment,
        tick: TICK,
        configure: Box::new(|config| {
            (config.fault_around, config.read_ahead, config.lru_batch) = (1, 1, 1);
            config.lazy.max_age = LONGEST_AGE;
            config.lazy.max_owed = Some(config.nodes[0].frames);
        }),
        ..Options::new(Schedule::Lazy)
    }
}

/// Plays: brings the page in, and runs `act`.
pub(crate) fn play(setup: Setup, act: impl FnOnce(&Actor<'_>) -> Option<u64> + 'static) -> Played {
    let simulation =
        Simulation::new(&machine(&[4, 0], 2048), options(setup)).expect("the machine fits the host");
    guards::remove(simulation.memory(), setup.without.iter().copied());
    let file = simulation.memory().create_file(PAGES as u32).expect("a free object");
    let space = simulation.memory().new_space().expect("a frame");
    let (reader, seen) = (Rc::new(Reader::default()), Rc::new(Cell::new(None)));
    let (shared, last) = (reader.clone(), seen.clone());
    let acts = move |program: &Program| {
        program.system_call(|memory, _| write(memory, file, OLD));
        program.system_call(|memory, _| memory.sync(file));
        let map = program.system_call(|memory, space| match setup.mapped {
            Mapped::Shared => memory.map_shared(space, file, 0, Pages::new(PAGES), false),
            Mapped::Private => memory.map_private(space, file, 0, Pages::new(PAGES)),
        });
        shared.address.set(map.expect("room"));
        let actor = Actor { program, file, reader: shared.clone(), setup };
        assert_eq!(actor.seen(), Some(OLD));
        last.set(act(&actor));
        shared.stop.set(true);
    };
    let reads = move |program: &Program| {
        while !reader.stop.get() {
            if reader.address.get() != 0 {
                reader.seen.set(program.load(reader.address.get(), 1).ok());
                reader.loads.set(reader.loads.get() + 1);
            }
            program.compute(US);
        }
    };
    simulation.spawn("reader", 0, 0, &space, reads).expect("a stack");
    simulation.spawn("actor", 1, 0, &space, acts).expect("a stack");
    let outcome = crate::common::run(&simulation);
    Played { seen: seen.take(), outcome }
}

/// All setups with a shared mapping: both ways to take the page away, and both ways to settle its debt.
pub(crate) fn all() -> impl Iterator<Item = Setup> {
    setups(Mapped::Shared)
}

/// The same with the given mapping.
pub(crate) fn setups(mapped: Mapped) -> impl Iterator<Item = Setup> {
    [Payment::Free, Payment::Demand].into_iter().flat_map(move |payment| {
        [Way::Moves, Way::Goes].map(|way| Setup { payment, way, mapped, without: &[] })
    })
}

/// Plays in all setups. No rule is broken, the reader reads a page that is gone, and at the end it sees the right
/// word.
pub(crate) fn holds(
    setups: impl Iterator<Item = Setup>,
    act: fn(&Actor<'_>) -> Option<u64>,
    right: Option<u64>,
) {
    for setup in setups {
        let Played { seen, outcome } = play(setup, act);
        assert_eq!(seen, right, "{setup:?}");
        assert_lazy_and_clean(setup, &outcome);
    }
}

pub(crate) fn assert_lazy_and_clean(setup: Setup, outcome: &Outcome) {
    let broken: Vec<String> = outcome.broken.iter().map(ToString::to_string).collect();
    assert_eq!(outcome.violations, 0, "{setup:?}: {broken:#?}");
    assert!(outcome.stale_hits > 0 && outcome.reading.counters.debts_created > 0, "{setup:?}: {outcome:?}");
}

/// Plays in all setups without the guards. The reader sees another word, or a rule is broken.
#[cfg(ceasefire_sabotage)]
pub(crate) fn fails_without(
    without: &'static [Guard],
    setups: impl Iterator<Item = Setup>,
    act: fn(&Actor<'_>) -> Option<u64>,
    right: Option<u64>,
) {
    for setup in setups {
        let Played { seen, outcome } = play(Setup { without, ..setup }, act);
        assert!(
            seen != right || outcome.violations > 0,
            "{setup:?}: no check notices that {without:?} is gone"
        );
    }
}
