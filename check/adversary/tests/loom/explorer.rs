//! The checker that lets loom decide every atomic access of the engine.
//!
//! Each location is a `loom::sync::atomic::AtomicU64`, so loom tries every order of the accesses up to a bound of
//! preemptions, and every value that a load may read by C11.
//!
//! Loom treats a sequentially consistent access as one that acquires and releases, but it models fences. So a
//! sequentially consistent load stands after a fence, and a sequentially consistent store or read-modify-write before
//! one. This is a little stronger than C11: such a fence also orders the accesses around it that are not sequentially
//! consistent. The model in `check/adversary/src/model/ordering.rs` has no such fences and covers the difference, at
//! random.
//!
//! A failed exchange is a load, which may read an old value. An access and its fence are one step.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::rc::Rc;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::panicking;
use std::time::Instant;

use ceasefire_atomics::{install, Checker, Ordering};
use loom::sync::atomic::{fence, AtomicU64};

/// The orderings that the accesses get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Orders {
    /// Those that the engine names.
    Named,
    /// Sequentially consistent accesses only acquire and release. Fences stay.
    AcquireRelease,
    /// All accesses are relaxed. Fences stay.
    Relaxed,
}

impl Orders {
    fn of(self, named: Ordering, consistent: Ordering) -> Ordering {
        match (self, named) {
            (Self::AcquireRelease, Ordering::SeqCst) => consistent,
            (Self::Named | Self::AcquireRelease, _) => named,
            (Self::Relaxed, _) => Ordering::Relaxed,
        }
    }
}

struct Shared {
    /// Holds the value with the bits of `initial` flipped. So the location has had its first value since the start of
    /// the execution, whichever thread comes to it first.
    atomic: AtomicU64,
    initial: Cell<u64>,
    /// The value that was stored last.
    newest: Cell<u64>,
    /// A store that is no exchange came to it: loom may order others before it.
    stored: Cell<bool>,
}

#[derive(Clone)]
enum Location {
    /// No other thread's step depends on it, so it costs loom no branch.
    Private(Rc<Cell<u64>>),
    Shared(Rc<Shared>),
}

struct Explorer {
    orders: Orders,
    /// Stored to before each access: see [`Explorer::step`].
    order: AtomicU64,
    /// Made before any thread is spawned: loom refuses an access that does not happen after the making.
    pool: RefCell<Vec<Rc<Shared>>>,
    locations: RefCell<Vec<Location>>,
    private: Cell<bool>,
}

thread_local! {
    // The threads of an execution are coroutines on one thread of the host.
    static EXPLORER: RefCell<Option<Rc<Explorer>>> = const { RefCell::new(None) };
}

impl Explorer {
    fn start(orders: Orders, locations: usize) {
        let shared = || Shared {
            atomic: AtomicU64::new(0),
            initial: Cell::new(0),
            newest: Cell::new(0),
            stored: Cell::new(false),
        };
        let explorer = Rc::new(Self {
            orders,
            order: AtomicU64::new(0),
            pool: RefCell::new((0..locations).map(|_| Rc::new(shared())).collect()),
            locations: RefCell::new(Vec::new()),
            private: Cell::new(false),
        });
        install(Some(explorer.clone()));
        EXPLORER.set(Some(explorer));
    }

    fn stop() {
        install(None);
        EXPLORER.set(None);
    }

    /// A step of the thread: loom tries it before and after each step of the others.
    ///
    /// Loom reverses two accesses only if it finds that they conflict. It compares an access with the last one to the
    /// same location alone. So it overlooks a load before a load and a store of another thread, and the order of
    /// fences. Stores to one common location conflict always, and the later of two comes after all before it. So no
    /// order is overlooked.
    fn step(&self) {
        self.order.store(0, Ordering::Relaxed);
    }

    /// A clone, since loom may run another thread during the access.
    fn location(&self, number: u32) -> Location {
        match self.locations.borrow().get(number as usize - 1) {
            Some(location) => location.clone(),
            // A static keeps its number of an earlier execution. Only the count of leaked ASIDs is one.
            None if panicking() => Location::Private(Rc::default()),
            None => panic!("location {number} is none of this execution"),
        }
    }
}

/// The rest of a step: no other thread comes in between.
fn quietly<R>(access: impl FnOnce() -> R) -> R {
    loom::stop_exploring();
    let result = access();
    loom::explore();
    result
}

/// The locations that `touch` is the first to access are of no interest: counters, and what never changes.
pub(crate) fn private(touch: impl FnOnce()) {
    let explorer = EXPLORER.with_borrow(Clone::clone).expect("an execution has started");
    explorer.private.set(true);
    touch();
    explorer.private.set(false);
}

impl Checker for Explorer {
    fn register(&self, value: u64) -> u32 {
        let mut locations = self.locations.borrow_mut();
        let location = if self.private.get() || panicking() {
            Location::Private(Rc::new(Cell::new(value)))
        } else {
            let shared = self.pool.borrow_mut().pop().expect("the model has too few locations");
            shared.initial.set(value);
            shared.newest.set(value);
            Location::Shared(shared)
        };
        locations.push(location);
        locations.len() as u32
    }

    fn load(&self, location: u32, order: Ordering) -> u64 {
        match self.location(location) {
            Location::Private(value) => value.get(),
            // After a failure, destructors run outside loom.
            Location::Shared(shared) if panicking() => shared.newest.get(),
            Location::Shared(shared) => {
                let order = self.orders.of(order, Ordering::Acquire);
                self.step();
                if order == Ordering::SeqCst {
                    fence(Ordering::SeqCst);
                }
                shared.atomic.load(order) ^ shared.initial.get()
            }
        }
    }

    fn store(&self, location: u32, value: u64, order: Ordering) {
        match self.location(location) {
            Location::Private(at) => at.set(value),
            Location::Shared(shared) if panicking() => shared.newest.set(value),
            Location::Shared(shared) => {
                let order = self.orders.of(order, Ordering::Release);
                self.step();
                quietly(|| shared.atomic.store(value ^ shared.initial.get(), order));
                shared.newest.set(value);
                shared.stored.set(true);
                if order == Ordering::SeqCst {
                    fence(Ordering::SeqCst);
                }
            }
        }
    }

    fn update(
        &self,
        location: u32,
        success: Ordering,
        failure: Ordering,
        change: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        let alone = |at: &Cell<u64>, change: &mut dyn FnMut(u64) -> Option<u64>| {
            let old = at.get();
            at.set(change(old).ok_or(old)?);
            Ok(old)
        };
        let shared = match self.location(location) {
            Location::Private(at) => return alone(&at, change),
            Location::Shared(shared) if panicking() => return alone(&shared.newest, change),
            Location::Shared(shared) => shared,
        };
        let initial = shared.initial.get();
        let success = self.orders.of(success, Ordering::AcqRel);
        let failure = self.orders.of(failure, Ordering::Acquire);
        self.step();
        // Almost always the value that the exchange finds. So the update is one step, whatever it changes.
        let mut old = shared.newest.get();
        if change(old).is_none() {
            if failure == Ordering::SeqCst {
                fence(Ordering::SeqCst);
            }
            old = shared.atomic.load(failure) ^ initial;
        }
        loop {
            let Some(new) = change(old) else { return Err(old) };
            let exchange = || shared.atomic.compare_exchange(old ^ initial, new ^ initial, success, failure);
            match if shared.stored.get() { exchange() } else { quietly(exchange) } {
                Ok(_) => {
                    shared.newest.set(new);
                    if success == Ordering::SeqCst {
                        fence(Ordering::SeqCst);
                    }
                    return Ok(old);
                }
                Err(found) => old = found ^ initial,
            }
        }
    }

    fn fence(&self, order: Ordering) {
        if !panicking() {
            fence(order);
        }
    }
}

/// A model of one core.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    pub(crate) name: &'static str,
    /// The number of its threads.
    pub(crate) threads: usize,
    /// All executions with so many preemptions are tried, and some with more; `None` for all executions.
    pub(crate) bound: Option<usize>,
    /// At least the number of locations that the threads share.
    pub(crate) locations: usize,
    /// One execution.
    pub(crate) body: fn(),
}

/// Models take turns. Each execution maps and unmaps the stacks of its threads, and if another model runs on a second
/// CPU, each of these unmaps is a TLB shootdown: side by side they take half again as long as one after the other.
static TURN: Mutex<()> = Mutex::new(());

impl Model {
    fn explore(self, orders: Orders) -> (usize, std::thread::Result<()>) {
        // A model that panicked has left nothing behind.
        let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let mut loom = loom::model::Builder::new();
        // At its own bound, loom overlooks which of several threads goes on after one that waits or has ended.
        loom.preemption_bound = self.bound.map(|bound| bound + usize::from(self.threads > 2));
        loom.max_branches = 5000;
        let executions = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&executions);
        let began = Instant::now();
        let result = catch_unwind(AssertUnwindSafe(move || {
            loom.check(move || {
                count.fetch_add(1, Ordering::Relaxed);
                Explorer::start(orders, self.locations);
                (self.body)();
            });
        }));
        Explorer::stop();
        let executions = executions.load(Ordering::Relaxed);
        let bound = self.bound.map_or_else(|| "no bound".to_owned(), |bound| format!("{bound} preemptions"));
        let end = if result.is_ok() { "all hold" } else { "the last breaks the rule" };
        println!(
            "{}, {orders:?}: {executions} executions within {bound} in {:.1} s, {end}",
            self.name,
            began.elapsed().as_secs_f64()
        );
        (executions, result)
    }

    /// Every execution keeps the rule, with the orderings that the engine names.
    pub(crate) fn holds(self) {
        self.holds_with(Orders::Named);
    }

    /// Every execution keeps the rule, with these orderings.
    pub(crate) fn holds_with(self, orders: Orders) {
        if let (_, Err(panic)) = self.explore(orders) {
            panic!("{}", message(&*panic));
        }
    }

    /// Some execution breaks the rule whose words are in its assertion.
    pub(crate) fn breaks(self, orders: Orders, rule: &str) {
        match self.explore(orders) {
            (executions, Ok(())) => panic!("none of {executions} executions breaks: {rule}"),
            (_, Err(panic)) => {
                let message = message(&*panic);
                assert!(message.contains(rule), "it breaks something else than \"{rule}\": {message}");
            }
        }
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

mod tests {
    use std::collections::BTreeSet;

    use loom::thread;

    use super::*;

    const STEPS: usize = 3;

    thread_local! {
        static NOW: RefCell<Vec<usize>> = const { RefCell::new(Vec::new()) };
        static TRIED: RefCell<BTreeSet<Vec<usize>>> = const { RefCell::new(BTreeSet::new()) };
    }

    /// Two loads and an exchange by each thread. A search that compares an access with the last one alone overlooks
    /// some of their orders.
    fn steps(threads: usize) {
        let at = Rc::new(ceasefire_atomics::AtomicU64::new(0));
        NOW.take();
        let run = |me: usize, at: &ceasefire_atomics::AtomicU64| {
            for step in 0..STEPS {
                if step + 1 == STEPS {
                    at.fetch_add(1, Ordering::Relaxed);
                } else {
                    at.load(Ordering::Relaxed);
                }
                NOW.with_borrow_mut(|now| now.push(me));
            }
        };
        let others: Vec<_> = (1..threads)
            .map(|me| {
                let at = Rc::clone(&at);
                thread::spawn(move || run(me, &at))
            })
            .collect();
        run(0, &at);
        for other in others {
            other.join().expect("it ran");
        }
        TRIED.with_borrow_mut(|tried| tried.insert(NOW.take()));
    }

    /// Collects the orders of the threads' steps with at most `preemptions`. Thread 0 runs first.
    fn orders(
        left: &mut [usize],
        last: usize,
        preemptions: usize,
        now: &mut Vec<usize>,
        all: &mut BTreeSet<Vec<usize>>,
    ) {
        if left.iter().all(|&left| left == 0) {
            all.insert(now.clone());
        }
        for next in 0..left.len() {
            let preempts = usize::from(next != last && left[last] > 0);
            if left[next] > 0 && preempts <= preemptions {
                left[next] -= 1;
                now.push(next);
                orders(left, next, preemptions - preempts, now, all);
                now.pop();
                left[next] += 1;
            }
        }
    }

    fn overlooked(model: Model, preemptions: usize) -> usize {
        TRIED.take();
        model.holds();
        let mut all = BTreeSet::new();
        orders(&mut vec![STEPS; model.threads], 0, preemptions, &mut Vec::new(), &mut all);
        assert!(all.len() > 1);
        all.difference(&TRIED.take()).count()
    }

    #[test]
    fn every_order_of_steps_within_the_bound_is_tried() {
        let two = Model { name: "order of steps", threads: 2, bound: None, locations: 1, body: || steps(2) };
        let three = Model { threads: 3, body: || steps(3), ..two };
        assert_eq!(overlooked(two, 2 * STEPS), 0);
        for bound in 1..=2 {
            assert_eq!(overlooked(Model { bound: Some(bound), ..two }, bound), 0);
            assert_eq!(overlooked(Model { bound: Some(bound), ..three }, bound), 0);
        }
    }
}
