//! Runs a script: every thread runs its steps, all at once in simulated time, and each reply is compared with the
//! model.
//!
//! Everything runs on one host thread, so the model changes in the same order as the machine. The model is not
//! borrowed while a thread may stop.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use ceasefire_machine::config::{builtin, Effect, Latency, Machine, Node, TlbLevel, Topology};
use ceasefire_machine::{Program, Sim, Simulation};
use ceasefire_memory::SpaceHandle;

use crate::call::{Advice, Call, Place, Refusal, Reply, Subject};
use crate::common::{now, FAR};
use crate::flight::{Access, Change, Finding, Flight, Flights};
use crate::model::{Model, Source, Target, PAGE};
use crate::operation::Operation;
use crate::plan::{accessed, is_in_tail, mapped, plan, wild, Expected, Plan, Values};
use crate::script::{Script, Setup};

/// The time that a thread computes until it checks again whether it may go on.
const WAIT: u64 = 700_000;
/// The simulated time after which a script counts as hung.
const MOST_TIME: u64 = 10_000_000_000_000;
/// The greatest number of spaces at a time.
const MOST_SPACES: usize = 4;

/// The counts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Tally {
    /// Loads and stores.
    pub(crate) accesses: u64,
    /// Other calls.
    pub(crate) calls: u64,
    /// Accesses and calls that found no memory.
    pub(crate) out_of_memory: u64,
    /// Accesses during which an operation that affects them was under way.
    pub(crate) disturbed: u64,
    pub(crate) forks: u64,
    /// Pages that were reclaimed.
    pub(crate) reclaimed: u64,
    pub(crate) interrupts: u64,
    /// Waits for broadcasts.
    pub(crate) broadcasts: u64,
    /// Frames whose debts were settled while they were free, and uses of entries whose flush was still owed.
    pub(crate) matured: u64,
    pub(crate) stale: u64,
    /// Translations that CPUs filled by themselves.
    pub(crate) speculated: u64,
}

impl Tally {
    pub(crate) fn add(&mut self, other: &Self) {
        self.accesses += other.accesses;
        self.calls += other.calls;
        self.out_of_memory += other.out_of_memory;
        self.disturbed += other.disturbed;
        self.forks += other.forks;
        self.reclaimed += other.reclaimed;
        self.interrupts += other.interrupts;
        self.broadcasts += other.broadcasts;
        self.matured += other.matured;
        self.stale += other.stale;
        self.speculated += other.speculated;
    }
}

/// The threads of a space.
#[derive(Debug, Default)]
struct Members {
    parent: Option<usize>,
    threads: Vec<usize>,
    /// Threads that came with the fork and return at the exit.
    guests: Vec<usize>,
    /// Its forks that still exist.
    children: usize,
    /// Whether its threads must leave as soon as they can.
    exits: bool,
    gone: bool,
}

struct Run {
    setup: Setup,
    script: Script,
    subject: Rc<dyn Subject>,
    simulation: Weak<Simulation>,
    model: RefCell<Model>,
    flights: RefCell<Flights>,
    values: RefCell<Values>,
    queues: RefCell<Vec<VecDeque<usize>>>,
    /// The space in which each thread runs next.
    homes: RefCell<Vec<usize>>,
    members: RefCell<Vec<Members>>,
    handles: RefCell<Vec<SpaceHandle<Sim>>>,
    /// The current step of each thread, for messages.
    at: RefCell<Vec<Option<usize>>>,
    tally: Cell<Tally>,
    difference: RefCell<Option<String>>,
}

/// The machine of a setup.
fn machine(setup: &Setup) -> Machine {
    thread_local! {
        static BASE: Machine = {
            let machine = builtin("1-socket").expect("a listed name").expect("a valid file");
    let mut machine = machine.without(&Effect::ALL);
            machine.sources.clear();
            machine.tlb.l1 = TlbLevel::new(16, 4).expect("valid");
            machine.tlb.l2 = TlbLevel::new(64, 4).expect("valid");
            machine
        };
    }
    let mut machine = BASE.with(Clone::clone);
    let mut first = 0;
    let nodes = setup.nodes.iter().map(|node| {
        let cpus = (first..first + node.cpus as u16).collect();
        first += node.cpus as u16;
        Node { cpus, bytes: u64::from(node.frames) * PAGE, tier: node.tier as u8 }
    });
    machine.topology = Topology::new(nodes.collect()).expect("a checked setup");
    machine.latency = Latency::uniform(first, FAR);
    machine.costs.time_slice = u64::from(setup.slice) * 1000;
    machine.processor = setup.processor();
    machine
}

/// Runs a script on a memory.
///
/// # Errors
/// The first difference from the model, a broken rule, or a lost frame.
pub(crate) fn run(script: &Script, subject: Rc<dyn Subject>) -> Result<Tally, String> {
    let setup = &script.setup;
    let simulation = Simulation::new(&machine(setup), subject.options(setup));
    let simulation = Rc::new(simulation.map_err(|error| error.to_string())?);
    let free = simulation.memory().free_frames();
    subject.create_files(&simulation, &setup.files);
    let mut handles = Vec::new();
    for _ in 0..setup.spaces {
        handles.push(simulation.memory().new_space().map_err(|error| error.to_string())?);
    }
    let threads = setup.threads as usize;
    let mut queues = vec![VecDeque::new(); threads];
    for (index, step) in script.steps.iter().enumerate() {
        queues[step.thread as usize % threads].push_back(index);
    }
    let homes: Vec<usize> = (0..threads).map(|thread| thread % setup.spaces as usize).collect();
    let member = |space: usize| Members {
        threads: (0..threads).filter(|&thread| homes[thread] == space).collect(),
        ..Members::default()
    };
    let run = Rc::new(Run {
        setup: setup.clone(),
        script: script.clone(),
        subject,
        simulation: Rc::downgrade(&simulation),
        model: RefCell::new(Model::new(setup.spaces, &setup.files)),
        flights: RefCell::default(),
        values: RefCell::default(),
        queues: RefCell::new(queues),
        members: RefCell::new((0..setup.spaces as usize).map(member).collect()),
        homes: RefCell::new(homes),
        handles: RefCell::new(handles),
        at: RefCell::new(vec![None; threads]),
        tally: Cell::default(),
        difference: RefCell::default(),
    });
    for thread in 0..threads {
        run.start(thread, 0);
    }
    let mut ended = true;
    let outcome = simulation.run(|time, _| {
        ended = time < MOST_TIME;
        ended
    });
    let outcome = outcome.map_err(|error| error.to_string())?;
    if let Some(difference) = run.difference.take() {
        return Err(difference);
    }
    if !ended {
        return Err(format!("it still runs after {} s", MOST_TIME / 1_000_000_000_000));
    }
    if outcome.violations > 0 {
        let broken = outcome.broken.iter().map(ToString::to_string);
        let first = broken.chain(outcome.misuses.iter().map(ToString::to_string)).next().unwrap_or_default();
        return Err(format!("{} violations, the first: {first}", outcome.violations));
    }
    let kept = run.members.borrow().iter().position(|members| !members.gone);
    if let Some(space) = kept {
        return Err(format!("space {space} has not exited"));
    }
    run.handles.borrow_mut().clear();
    run.subject.finish(&simulation)?;
    let left = simulation.memory().free_frames();
    if left != free {
        return Err(format!("{left} frames are free at the end, {free} were at the start"));
    }
    let statistics = outcome.reading.statistics;
    let mut tally = run.tally.get();
    tally.reclaimed = statistics.reclaimed_background + statistics.reclaimed_direct;
    tally.interrupts = outcome.reading.counters.interrupts;
    tally.broadcasts = outcome.reading.counters.broadcasts;
    tally.matured = statistics.frames_matured;
    tally.stale = outcome.stale_hits;
    tally.speculated = outcome.speculated;
    Ok(tally)
}

impl Run {
    /// Starts a thread in the space that is its home now.
    fn start(self: &Rc<Self>, thread: usize, time: u64) {
        let Some(simulation) = self.simulation.upgrade() else { return };
        let space = self.homes.borrow()[thread];
        let handle = self.handles.borrow()[space].clone();
        let cpu = (thread % self.setup.cpus() as usize) as u16;
        let run = self.clone();
        let body = move |program: &Program| Thread { run, number: thread, space, program }.go();
        simulation.spawn(String::new(), cpu, time, &handle, body).expect("the host has room for a stack");
    }

    fn count(&self, count: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        count(&mut tally);
        self.tally.set(tally);
    }

    fn failed(&self) -> bool {
        self.difference.borrow().is_some()
    }
}

/// A thread in a space, while it runs there.
struct Thread<'p> {
    run: Rc<Run>,
    number: usize,
    space: usize,
    program: &'p Program,
}

impl Thread<'_> {
    fn go(&self) {
        loop {
            if self.run.failed() {
                return;
            }
            if self.run.homes.borrow()[self.number] != self.space {
                self.program.leave_space();
                self.run.start(self.number, self.soon());
                return;
            }
            if self.run.members.borrow()[self.space].exits {
                break;
            }
            let Some(index) = self.run.queues.borrow_mut()[self.number].pop_front() else { break };
            self.run.at.borrow_mut()[self.number] = Some(index);
            let step = self.run.script.steps[index];
            if step.pause > 0 {
                self.program.compute(u64::from(step.pause) * 1000);
            }
            self.step(&step.operation);
        }
        self.leave();
    }

    /// The simulated time from which another thread may start, in picoseconds.
    fn soon(&self) -> u64 {
        (now(self.program) + 1) * 1000
    }

    /// Reports the first difference.
    fn differs(&self, what: &str) {
        let mut difference = self.run.difference.borrow_mut();
        if difference.is_some() {
            return;
        }
        let at = self.run.at.borrow()[self.number];
        let step = at.map_or_else(
            || "at its end".to_owned(),
            |at| format!("at step {} (`{}`)", at + 1, self.run.script.steps[at]),
        );
        let (thread, space, time) = (self.number, self.space, now(self.program));
        *difference = Some(format!("thread {thread} in space {space} {step}, {time} ns: {what}"));
    }

    fn step(&self, operation: &Operation) {
        match *operation {
            Operation::Load { area, page, word } => {
                self.access(false, |space| accessed(space, area, page, word));
            }
            Operation::Store { area, page, word } => {
                self.access(true, |space| accessed(space, area, page, word));
            }
            Operation::Sweep { area, page, pages, word, store } => {
                for page in page..=page + pages % 24 {
                    self.access(store % 2 == 1, |space| accessed(space, area, page, word));
                    if self.run.failed() {
                        return;
                    }
                }
            }
            Operation::Wild { page, store } => self.access(store % 2 == 1, |_| Some((wild(page), 0))),
            Operation::Exit {} => {
                let members = &mut self.run.members.borrow_mut()[self.space];
                members.exits = members.parent.is_some();
            }
            _ => self.call(operation),
        }
    }

    /// Waits until `begin` returns an operation that may run beside all that are under way, and records it as under
    /// way; nothing if there is nothing to do.
    fn board<T>(&self, begin: impl Fn(&mut Model) -> Option<(Flight, T)>) -> Option<T> {
        loop {
            {
                let mut model = self.run.model.borrow_mut();
                let (flight, plan) = begin(&mut model)?;
                let mut flights = self.run.flights.borrow_mut();
                if flights.admits(&model, &flight) {
                    flights.begin(&model, self.number, flight);
                    return Some(plan);
                }
            }
            self.program.compute(WAIT);
            if self.run.failed() {
                return None;
            }
        }
    }

    fn access(&self, store: bool, which: impl Fn(&crate::model::Space) -> Option<(u64, u64)>) {
        let value = self.run.values.borrow_mut().next();
        let boarded = self.board(|model| {
            let (page, word) = which(&model.spaces[self.space])?;
            if store && is_in_tail(model, self.space, page, word) {
                return None;
            }
            let store = store.then(|| (model.target(self.space, page), value));
            Some((Flight::Access(Access::new(self.space, page, word, store)), page * PAGE + word * 8))
        });
        let Some(address) = boarded else { return };
        let call = if store { Call::Store { address, value } } else { Call::Load { address } };
        self.run.count(|tally| tally.accesses += 1);
        let reply = self.run.subject.call(self.program, self.space, &call);
        let flight = self.run.flights.borrow_mut().end(self.number);
        let Some(Flight::Access(access)) = flight else { return };
        self.run.count(|tally| tally.disturbed += u64::from(access.disturbed));
        if let Err(what) = self.judge_access(&access, &reply) {
            self.differs(&format!("{call:x?}: {what}"));
        }
    }

    fn judge_access(&self, access: &Access, reply: &Reply) -> Result<(), String> {
        let found = match *reply {
            Reply::Refused(Refusal::OutOfMemory) => {
                self.run.count(|tally| tally.out_of_memory += 1);
                return Ok(());
            }
            Reply::Loaded(None) => {
                let loads = |finding: &Finding| matches!(finding, Finding::Value(_) | Finding::Anything);
                let possible = access.findings.iter().any(loads);
                return possible.then_some(()).ok_or(format!("no fault, possible: {:x?}", access.findings));
            }
            Reply::Loaded(Some(value)) => Finding::Value(value),
            Reply::Done => Finding::Stored,
            Reply::Refused(Refusal::Fault(fault, address)) if address / PAGE == access.page => {
                Finding::Fault(fault)
            }
            _ => return Err(format!("{reply:x?}")),
        };
        if !access.findings.iter().any(|&finding| finding == found || finding == Finding::Anything) {
            return Err(format!("{found:x?}, possible: {:x?}", access.findings));
        }
        let mut model = self.run.model.borrow_mut();
        match (found, access.store) {
            (Finding::Stored, Some((Some(target), value))) => {
                if let Target::Own(id) = target {
                    let mut flights = self.run.flights.borrow_mut();
                    for before in model.content(id).candidates(access.word) {
                        flights.race_forks(self.space, (id, access.word, before));
                    }
                }
                model.store(self.space, access.page, target, access.word, value);
            }
            // A copy under way may have been made of any of the others.
            (Finding::Value(value), _)
                if !access.disturbed
                    && access.findings.len() > 1
                    && !self.run.flights.borrow().forking(self.space) =>
            {
                observe(&mut model, self.space, access, value);
            }
            _ => {}
        }
        Ok(())
    }

    fn call(&self, operation: &Operation) {
        let run = &*self.run;
        let forks = matches!(operation, Operation::Fork { .. });
        let make = |model: &Model| {
            let live = || run.members.borrow().iter().filter(|members| !members.gone).count();
            // A thread that is about to go to another space cannot send threads to a third.
            if forks && (run.homes.borrow()[self.number] != self.space || live() >= MOST_SPACES) {
                return None;
            }
            let made = plan(model, &run.setup, self.space, operation, &mut run.values.borrow_mut())?;
            run.subject.supports(&made.call).then_some(made)
        };
        let boarded = self.board(|model| {
            let plan = make(model)?;
            let change = plan.change.clone().unwrap_or(Change::Read(usize::MAX, 0..0));
            Some((Flight::Change(self.space, change), plan))
        });
        let Some(plan) = boarded else { return };
        run.count(|tally| tally.calls += 1);
        let before = run.flights.borrow().epoch(self.space);
        let reply = run.subject.call(self.program, self.space, &plan.call);
        if let (
            Call::Remap { place: Place::At(start), new_bytes, .. },
            Reply::Refused(Refusal::OutOfMemory),
        ) = (&plan.call, &reply)
        {
            // The old mapping there may or may not have been removed. Now it certainly is.
            let unmap = Call::Unmap { start: *start, bytes: *new_bytes };
            let _ = run.subject.call(self.program, self.space, &unmap);
        }
        let after = run.flights.borrow().epoch(self.space);
        let quiet = before.is_some() && before == after;
        if let Err(what) = self.judge(&plan, &reply, quiet || plan.change.is_some()) {
            let mut call = format!("{:x?}", plan.call);
            call.truncate(200);
            self.differs(&format!("{call}: {what}"));
        } else if let (Operation::Fork { threads }, Reply::Space(handle)) = (operation, reply) {
            self.populate(*threads, handle);
        }
    }

    /// Applies a call's effect to the model, if its reply is possible.
    fn judge(&self, plan: &Plan, reply: &Reply, quiet: bool) -> Result<(), String> {
        let refused = match reply {
            Reply::Refused(refusal) => Some(*refusal),
            _ => None,
        };
        let wanted = match (refused, plan.expected) {
            (Some(Refusal::OutOfMemory), _) | (_, Expected::Either) => true,
            (Some(Refusal::Busy), _) => matches!(plan.call, Call::Invalidate { .. }),
            (Some(_), expected) => expected == Expected::Refusal,
            (None, expected) => expected == Expected::Success,
        };
        let mut flights = self.run.flights.borrow_mut();
        let mut model = self.run.model.borrow_mut();
        let flight = flights.end(self.number);
        if !wanted && quiet {
            return Err(format!("{reply:x?}, expected: {:?}", plan.expected));
        }
        let Some(flight) = flight else { return Ok(()) };
        if refused == Some(Refusal::OutOfMemory) {
            self.run.count(|tally| tally.out_of_memory += 1);
            drop(flights);
            drop(model);
            self.give_up_halfway(plan);
            model = self.run.model.borrow_mut();
            flights = self.run.flights.borrow_mut();
        } else if refused.is_none() {
            let Flight::Change(_, change) = &flight else { return Ok(()) };
            apply(&mut model, self.space, plan, change, reply)?;
        }
        flights.collect(&model, &flight, None);
        Ok(())
    }

    /// The effects that a call may have had before it found no memory.
    fn give_up_halfway(&self, plan: &Plan) {
        let length = |file| self.run.subject.file_bytes(self.program, file);
        let mut model = self.run.model.borrow_mut();
        match &plan.call {
            Call::Write { file, offset, data } => {
                model.files[*file].maybe_write(*offset, data);
                let (before, most) = (model.files[*file].bytes, *offset + data.len() as u64);
                drop(model);
                let bytes = length(*file).unwrap_or(before).clamp(before, before.max(most));
                self.run.model.borrow_mut().files[*file].bytes = bytes;
            }
            Call::Remap { place: Place::At(start), new_bytes, .. } => {
                model.spaces[self.space].unmap(&(start / PAGE..(start + new_bytes) / PAGE));
            }
            Call::Lock { start, bytes } => {
                let range = start / PAGE..(start + bytes) / PAGE;
                model.spaces[self.space].change(&range, |area| area.locked = true);
            }
            _ => {}
        }
    }

    /// The space was forked: some threads continue in the copy.
    fn populate(&self, wanted: u32, handle: SpaceHandle<Sim>) {
        let run = &*self.run;
        run.count(|tally| tally.forks += 1);
        let child = run.model.borrow().spaces.len() - 1;
        run.subject.forked(self.space, child);
        run.handles.borrow_mut().push(handle);
        let mut members = run.members.borrow_mut();
        let own = &mut members[self.space];
        let asked = |thread: &usize| wanted >> (thread % 32) & 1 == 1;
        let mut guests: Vec<usize> = own.threads.iter().copied().filter(asked).collect();
        if guests.is_empty() {
            let other = own.threads.iter().copied().find(|&thread| thread != self.number);
            guests.push(other.unwrap_or(self.number));
        }
        own.threads.retain(|thread| !guests.contains(thread));
        own.children += 1;
        let mut homes = run.homes.borrow_mut();
        for &thread in &guests {
            homes[thread] = child;
        }
        let (parent, threads) = (Some(self.space), guests.clone());
        members.push(Members { parent, threads, guests, ..Members::default() });
    }

    /// The thread has no more steps in this space. The last thread ends the space.
    fn leave(&self) {
        {
            let mut members = self.run.members.borrow_mut();
            let own = &mut members[self.space];
            let last = own.children == 0 && own.threads.iter().all(|&thread| thread == self.number);
            if !last {
                self.program.leave_space();
            }
            own.threads.retain(|&thread| thread != self.number);
            if !last {
                return;
            }
        }
        self.run.at.borrow_mut()[self.number] = None;
        self.look_at_all();
        if self.run.failed() {
            return;
        }
        let (parent, guests) = {
            let mut members = self.run.members.borrow_mut();
            let own = &mut members[self.space];
            own.gone = true;
            (own.parent, own.guests.clone())
        };
        // No operation of this space is under way, so it may end at any time.
        self.run.model.borrow_mut().spaces[self.space] = crate::model::Space::default();
        if self.run.subject.supports(&Call::Exit) {
            self.run.subject.call(self.program, self.space, &Call::Exit);
        }
        let Some(parent) = parent else { return };
        {
            let mut members = self.run.members.borrow_mut();
            members[parent].children -= 1;
            members[parent].threads.extend(&guests);
            let mut homes = self.run.homes.borrow_mut();
            for &thread in &guests {
                homes[thread] = parent;
            }
        }
        for thread in guests {
            self.run.start(thread, self.soon());
        }
    }

    /// Loads every word of the space that was ever stored, and reads every page of a file that was.
    fn look_at_all(&self) {
        let (mut words, mut files) = (Vec::new(), Vec::new());
        {
            let model = self.run.model.borrow();
            let space = &model.spaces[self.space];
            for area in space.areas() {
                for page in area.start..area.end {
                    match (space.own(page), area.source) {
                        (Some(id), Source::Anonymous | Source::Private(_)) => {
                            words.extend(model.content(id).written().map(|word| (page, word)));
                        }
                        (_, Source::Shared(file) | Source::Private(file)) => {
                            let content = model.files[file].page(area.index(page));
                            words.extend(content.written().take(2).map(|word| (page, word)));
                        }
                        _ => {}
                    }
                }
            }
            for (number, file) in model.files.iter().enumerate() {
                files.extend(file.written().map(|page| (number, page)));
            }
        }
        for (page, word) in words {
            self.access(false, |_| Some((page, word)));
            if self.run.failed() {
                return;
            }
        }
        for (file, page) in files {
            self.call(&Operation::Read {
                file: file as u32,
                page: page as u32,
                inside: 0,
                bytes: PAGE as u32,
            });
            if self.run.failed() {
                return;
            }
        }
    }
}

/// A load decides between the possible values of its word.
fn observe(model: &mut Model, space: usize, access: &Access, value: u64) {
    let Some(area) = model.spaces[space].find(access.page).copied() else { return };
    match (model.spaces[space].own(access.page), area.source.file()) {
        (Some(id), _) => model.content_mut(id).observe(access.word, value),
        (None, Some(file)) => model.files[file].observe(area.index(access.page), access.word, value),
        (None, None) => {}
    }
}

/// Applies a call's effect to the model.
fn apply(
    model: &mut Model,
    space_number: usize,
    plan: &Plan,
    change: &Change,
    reply: &Reply,
) -> Result<(), String> {
    let space = &mut model.spaces[space_number];
    match (change, &plan.call, reply) {
        (Change::Map, call, Reply::Address(address)) => {
            let area = mapped(call, *address).ok_or("no call that maps")?;
            free_place(space, *address, area.end, &(0..0))?;
            space.map(area);
        }
        (Change::Unmap(range), ..) => space.unmap(range),
        (Change::Protect(range, to), ..) => space.change(range, |area| area.rights = *to),
        (Change::Discard(range), ..) => space.discard(range),
        (Change::GiveUp(range), ..) => model.give_up(space_number, range),
        (Change::Remap(from, to, size), _, Reply::Address(address)) => {
            let start = address / PAGE;
            if to.as_ref().is_some_and(|to| to.start != start) {
                return Err(format!("it went to {address:#x}"));
            }
            if to.is_none() {
                space.change(from, |_| {});
                free_place(space, *address, start + size, from)?;
            }
            space.remap(from, &(start..start + size));
        }
        (Change::Fork(maybe), _, Reply::Space(_)) => {
            model.fork(space_number, maybe);
        }
        (Change::Truncate(file, bytes), ..) => model.truncate(*file, *bytes),
        (Change::Write(file, offset, bytes), ..) => model.files[*file].write(*offset, bytes),
        (Change::Attribute(range), call, _) => space.change(range, |area| match call {
            Call::Lock { .. } => area.locked = true,
            Call::Unlock { .. } => area.locked = false,
            Call::Advise { advice: Advice::Huge(allow), .. } => area.huge = *allow,
            _ => {}
        }),
        (Change::Read(..), Call::Read { file, offset, bytes }, Reply::Read(Some(read))) => {
            compare(model, *file, *offset, *bytes, read)?;
        }
        (Change::Read(..), ..) => {
            if let (Call::MovePages { pages }, Reply::Pages(answers)) = (&plan.call, reply) {
                if pages.len() != *answers {
                    return Err(format!("{answers} answers for {} pages", pages.len()));
                }
            }
        }
        _ => return Err(format!("{reply:x?}")),
    }
    Ok(())
}

/// Whether a mapping may be at an address that the memory chose. `own` is the mapping that moves there.
fn free_place(
    space: &crate::model::Space,
    address: u64,
    end: u64,
    own: &std::ops::Range<u64>,
) -> Result<(), String> {
    let range = address / PAGE..end;
    let other = space.within(&range).find(|area| area.start < own.start || area.end > own.end);
    if !address.is_multiple_of(PAGE) || address == 0 {
        return Err(format!("mapped at {address:#x}"));
    }
    other.map_or(Ok(()), |area| {
        Err(format!("mapped at {address:#x}, on top of the mapping at {:#x}", area.start * PAGE))
    })
}

fn compare(model: &Model, file: usize, offset: u64, wanted: u64, read: &[u8]) -> Result<(), String> {
    let file = &model.files[file];
    let there = file.bytes.saturating_sub(offset).min(wanted);
    if read.len() as u64 != there {
        return Err(format!("{} bytes read, {there} expected", read.len()));
    }
    for (index, inside, piece) in crate::model::pieces(offset, read) {
        if let Some((word, candidates, value)) = file.page(index).difference(inside, piece) {
            let at = index * PAGE + word * 8;
            return Err(format!("read {value:#x} at byte {at:#x}, possible: {candidates:x?}"));
        }
    }
    Ok(())
}
