//! What a load may read: the memory model of C11, for a search at random.
//!
//! A location keeps all values that were stored to it, oldest first. A thread has a *view*: for each location, the
//! oldest value that the thread may still read. A load reads any value from there on, chosen at random, so it may miss
//! stores that other CPUs made long ago. What moves a view on:
//!
//! - A thread's own accesses: it never reads an older value of a location than before.
//! - An acquiring load of a value that was stored with release: the reader's view takes in that of the storer.
//! - A sequentially consistent load: it reads nothing older than its *floor*, which is what was published at some moment
//!   since the thread last acquired something new.
//! - A sequentially consistent fence: it takes in what was published.
//!
//! A thread *publishes* its view at every sequentially consistent fence. A sequentially consistent store publishes itself
//! and, where stores are multi-copy atomic, the view: where a store that one other CPU sees, all see, as on x86, Arm and
//! RISC-V. The language promises less. The engine relies on the hardware here (`Promise::MultiCopyAtomic`).
//!
//! The order of all sequentially consistent accesses agrees with that of each thread, and with what threads learn from each
//! other. It need not agree with other accesses in between. So a store publishes only before its thread's next sequentially
//! consistent or releasing access, or when another thread acquires it; a relaxed or acquiring exchange after it may be seen
//! first. And a load may come before relaxed loads of its thread: Arm makes both so.
//!
//! A read-modify-write reads the newest value, and continues the release sequence of the value that it replaces.
//!
//! A store that is not sequentially consistent may be *late*: the thread goes on with loads before the store is made, as
//! with the store buffer of x86. Late stores are made in their order, before the thread's next read-modify-write,
//! sequentially consistent store or releasing fence.
//!
//! The model is stronger than C11 in two points: but for late stores, new values come last in a location's order, and no
//! load reads a value that is stored later. The published models say how far that goes (Lahav et al., "Repairing sequential
//! consistency in C/C++11", PLDI 2017; Kang et al., "A promising semantics", POPL 2017).

use std::collections::VecDeque;
use std::rc::Rc;

use ceasefire_atomics::Ordering;

use super::sites::{acquires, releases};

/// For each location, the number of a value: no older one may be read. What is missing counts as 0.
#[derive(Debug, Clone, Default)]
pub(crate) struct View(Vec<u32>);

impl View {
    fn at(&self, location: usize) -> u32 {
        self.0.get(location).copied().unwrap_or(0)
    }

    fn raise(&mut self, location: usize, to: u32) {
        if self.0.len() <= location {
            self.0.resize(location + 1, 0);
        }
        self.0[location] = self.0[location].max(to);
    }

    pub(crate) fn join(&mut self, other: &Self) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = (*mine).max(*theirs);
        }
    }
}

/// A stored value, and the view that an acquiring load of it takes in.
#[derive(Debug)]
struct Stored {
    value: u64,
    view: Option<Rc<View>>,
}

#[derive(Debug)]
struct Location {
    stored: Vec<Stored>,
}

impl Location {
    fn newest(&self) -> u32 {
        self.stored.len() as u32 - 1
    }
}

/// A store that is not made yet.
#[derive(Debug)]
struct Late {
    location: usize,
    value: u64,
    order: Ordering,
    /// The view that it carries.
    carried: Option<Rc<View>>,
}

/// One thread's knowledge.
#[derive(Debug, Default)]
struct Thread {
    view: View,
    /// The views of values that were read without acquiring: an acquiring fence takes them in.
    read: View,
    /// The view at the last releasing fence, which relaxed stores carry.
    released: Option<Rc<View>>,
    /// Its late stores, oldest first.
    late: VecDeque<Late>,
    /// Those that were made. A later one that releases carries them.
    made: View,
    /// Its sequentially consistent stores that are not published, as locations and numbers.
    unpublished: Vec<(usize, u32)>,
    /// For each location the newest value that it has stored or acquired. A value that was read relaxed is not here.
    acquired: View,
    /// Nothing older is read by a sequentially consistent load.
    floor: Rc<View>,
}

impl Thread {
    /// The view that a store carries, apart from the store itself.
    fn carried(&self, order: Ordering) -> Option<Rc<View>> {
        if releases(order) {
            Some(Rc::new(self.view.clone()))
        } else {
            self.released.clone()
        }
    }
}

/// All locations and all threads.
#[derive(Debug)]
pub(crate) struct Memory {
    locations: Vec<Location>,
    threads: Vec<Thread>,
    /// The views that were published, and the sequentially consistent stores.
    published: Rc<View>,
    /// Stores are multi-copy atomic.
    atomic: bool,
}

/// Chooses a number below the bound.
pub(crate) type Pick<'a> = &'a mut dyn FnMut(u32) -> u32;

impl Memory {
    pub(crate) fn new(threads: usize, atomic: bool) -> Self {
        // Number 0 is no location's.
        let nowhere = Location { stored: vec![Stored { value: 0, view: None }] };
        Self {
            locations: vec![nowhere],
            threads: (0..threads).map(|_| Thread::default()).collect(),
            published: Rc::default(),
            atomic,
        }
    }

    /// Adds a location and returns its number.
    pub(crate) fn add(&mut self, value: u64) -> u32 {
        self.locations.push(Location { stored: vec![Stored { value, view: None }] });
        self.locations.len() as u32 - 1
    }

    /// The number of the value that a load reads.
    fn choose(&self, thread: usize, location: usize, order: Ordering, pick: Pick<'_>) -> u32 {
        let Thread { view, floor, .. } = &self.threads[thread];
        let floor = if order == Ordering::SeqCst { floor.at(location) } else { 0 };
        let (oldest, newest) = (view.at(location).max(floor), self.locations[location].newest());
        if oldest == newest {
            return newest;
        }
        newest - pick(newest - oldest + 1)
    }

    /// The thread has read this value.
    fn see(&mut self, thread: usize, location: usize, number: u32, order: Ordering) -> u64 {
        if acquires(order) && number > self.threads[thread].acquired.at(location) {
            // Whatever is published before this value is, before later accesses of the thread.
            let is_before = |&(at, other): &(usize, u32)| at == location && other <= number;
            for of in 0..self.threads.len() {
                if self.threads[of].unpublished.iter().any(is_before) {
                    self.publish(of);
                }
            }
            let thread = &mut self.threads[thread];
            thread.acquired.raise(location, number);
            thread.floor = Rc::clone(&self.published);
        }
        let stored = &self.locations[location].stored[number as usize];
        let thread = &mut self.threads[thread];
        thread.view.raise(location, number);
        if let Some(view) = &stored.view {
            if acquires(order) { &mut thread.view } else { &mut thread.read }.join(view);
        }
        stored.value
    }

    pub(crate) fn load(&mut self, thread: usize, location: u32, order: Ordering, pick: Pick<'_>) -> u64 {
        let own = self.threads[thread].late.iter().rev().find(|late| late.location == location as usize);
        if let Some(Late { value, .. }) = own {
            return *value;
        }
        if order == Ordering::SeqCst {
            self.publish(thread);
        }
        let number = self.choose(thread, location as usize, order, pick);
        self.see(thread, location as usize, number, order)
    }

    /// Publishes a thread's sequentially consistent stores.
    fn publish(&mut self, thread: usize) {
        let thread = &mut self.threads[thread];
        if thread.unpublished.is_empty() {
            return;
        }
        let published = Rc::make_mut(&mut self.published);
        for (location, number) in thread.unpublished.drain(..) {
            published.raise(location, number);
            if let (Some(view), true) = (&self.locations[location].stored[number as usize].view, self.atomic)
            {
                published.join(view);
            }
        }
        thread.floor = Rc::clone(&self.published);
    }

    pub(crate) fn store(&mut self, thread: usize, location: u32, value: u64, order: Ordering) {
        self.settle_thread(thread);
        if releases(order) {
            self.publish(thread);
        }
        let carried = self.threads[thread].carried(order);
        self.push(thread, location as usize, value, order, carried);
    }

    /// A store that is made later, by [`Memory::make_late`] or before the thread's next access that orders it. It is not
    /// sequentially consistent.
    pub(crate) fn store_late(&mut self, thread: usize, location: u32, value: u64, order: Ordering) {
        if releases(order) {
            self.publish(thread);
        }
        let thread = &mut self.threads[thread];
        let carried = thread.carried(order);
        thread.late.push_back(Late { location: location as usize, value, order, carried });
    }

    /// Makes a thread's oldest late store. False if there is none.
    pub(crate) fn make_late(&mut self, thread: usize) -> bool {
        let Some(Late { location, value, order, mut carried }) = self.threads[thread].late.pop_front() else {
            return false;
        };
        if let (Some(carried), true) = (&mut carried, releases(order)) {
            Rc::make_mut(carried).join(&self.threads[thread].made);
        }
        let number = self.locations[location].stored.len() as u32;
        self.threads[thread].made.raise(location, number);
        self.push(thread, location, value, order, carried);
        true
    }

    /// Whether a thread has late stores.
    pub(crate) fn is_late(&self, thread: usize) -> bool {
        !self.threads[thread].late.is_empty()
    }

    /// Makes all late stores of a thread.
    fn settle_thread(&mut self, thread: usize) {
        while self.make_late(thread) {}
    }

    /// A store by the hardware, which is never late and whose value is of no interest. Returns the number of the value.
    pub(crate) fn touch(&mut self, thread: usize, location: u32) -> u32 {
        let location = location as usize;
        self.push(thread, location, 0, Ordering::Relaxed, None);
        self.locations[location].newest()
    }

    /// Adds a value to a location. `carried` is the view that it carries, apart from the value itself.
    fn push(
        &mut self,
        thread: usize,
        location: usize,
        value: u64,
        order: Ordering,
        mut carried: Option<Rc<View>>,
    ) {
        let number = self.locations[location].stored.len() as u32;
        let thread = &mut self.threads[thread];
        thread.view.raise(location, number);
        thread.acquired.raise(location, number);
        if let Some(carried) = &mut carried {
            Rc::make_mut(carried).raise(location, number);
        }
        self.locations[location].stored.push(Stored { value, view: carried });
        if order == Ordering::SeqCst {
            thread.unpublished.push((location, number));
        }
    }

    /// A read-modify-write. It may fail with an older value, if it would fail with that.
    pub(crate) fn update(
        &mut self,
        thread: usize,
        location: u32,
        (success, failure): (Ordering, Ordering),
        change: &mut dyn FnMut(u64) -> Option<u64>,
        pick: Pick<'_>,
    ) -> Result<u64, u64> {
        self.settle_thread(thread);
        if releases(success) || failure == Ordering::SeqCst {
            self.publish(thread);
        }
        let location = location as usize;
        let newest = self.locations[location].newest();
        let number = self.choose(thread, location, failure, pick);
        let read = self.locations[location].stored[number as usize].value;
        if number != newest && change(read).is_none() {
            return Err(self.see(thread, location, number, failure));
        }
        let (old, follows) = {
            let last = &self.locations[location].stored[newest as usize];
            (last.value, last.view.clone())
        };
        let Some(value) = change(old) else { return Err(self.see(thread, location, newest, failure)) };
        self.see(thread, location, newest, success);
        let carried = match (self.threads[thread].carried(success), follows) {
            (Some(own), Some(follows)) => {
                let mut both = (*own).clone();
                both.join(&follows);
                Some(Rc::new(both))
            }
            (own, follows) => own.or(follows),
        };
        self.push(thread, location, value, success, carried);
        Ok(old)
    }

    pub(crate) fn fence(&mut self, thread: usize, order: Ordering) {
        if releases(order) {
            self.complete(thread);
        }
        if acquires(order) {
            // What was read relaxed is acquired now: nothing of it is published later.
            (0..self.threads.len()).for_each(|of| self.publish(of));
            let Thread { view, read, .. } = &mut self.threads[thread];
            view.join(read);
        }
        let thread = &mut self.threads[thread];
        if order == Ordering::SeqCst {
            thread.view.join(&self.published);
            Rc::make_mut(&mut self.published).join(&thread.view);
        }
        if acquires(order) {
            thread.floor = Rc::clone(&self.published);
        }
        if releases(order) {
            thread.released = Some(Rc::new(thread.view.clone()));
        }
    }

    /// What a walk on behalf of a thread reads: any value that the thread itself might read next, but none older than
    /// the `floors` say. The thread learns nothing from it. Also returns the view that the value carries.
    pub(crate) fn peek<'a>(
        &self,
        thread: usize,
        location: u32,
        floors: impl IntoIterator<Item = &'a View>,
        pick: Pick<'_>,
    ) -> (u64, Option<Rc<View>>) {
        let location = location as usize;
        let at = &self.locations[location];
        let own = self.threads[thread].view.at(location);
        let oldest = floors.into_iter().map(|floor| floor.at(location)).fold(own, u32::max);
        let newest = at.newest();
        let number = if oldest == newest { newest } else { newest - pick(newest - oldest + 1) };
        let Stored { value, view } = &at.stored[number as usize];
        (*value, view.clone())
    }

    /// A walker's read-modify-write of the newest value. No thread learns from it, and it hides nothing that the value
    /// before carried.
    pub(crate) fn mark(
        &mut self,
        location: u32,
        change: &mut dyn FnMut(u64) -> Option<u64>,
    ) -> Result<u64, u64> {
        let stored = &mut self.locations[location as usize].stored;
        let last = &stored[stored.len() - 1];
        let (old, view) = (last.value, last.view.clone());
        let value = change(old).ok_or(old)?;
        stored.push(Stored { value, view });
        Ok(old)
    }

    /// What the machine has published: a device that starts sees it.
    pub(crate) fn published(&self) -> View {
        (*self.published).clone()
    }

    /// Makes and publishes all stores of a thread.
    pub(crate) fn complete(&mut self, thread: usize) {
        self.settle_thread(thread);
        self.publish(thread);
    }

    /// The view of a thread, for a message that carries its stores: an interrupt.
    pub(crate) fn view(&self, thread: usize) -> View {
        self.threads[thread].view.clone()
    }

    /// A thread takes in the stores that a message carried.
    pub(crate) fn learn(&mut self, thread: usize, view: &View) {
        let thread = &mut self.threads[thread];
        thread.view.join(view);
        thread.floor = Rc::clone(&self.published);
    }

    /// Whether a thread knows the newest value of a location.
    pub(crate) fn knows(&self, thread: usize, location: u32) -> bool {
        let location = location as usize;
        self.threads[thread].view.at(location) == self.locations[location].newest()
    }

    /// A thread comes to know a value of a location by other means than an access.
    pub(crate) fn teach(&mut self, thread: usize, location: u32, number: u32) {
        self.threads[thread].view.raise(location as usize, number);
    }

    /// Every thread knows every store so far.
    pub(crate) fn settle(&mut self) {
        (0..self.threads.len()).for_each(|thread| self.complete(thread));
        let mut all = View::default();
        for (number, location) in self.locations.iter().enumerate() {
            all.raise(number, location.newest());
        }
        for thread in &mut self.threads {
            thread.view.join(&all);
            thread.acquired.join(&all);
            thread.floor = Rc::clone(&self.published);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Runs `body` with every sequence of choices.
    fn outcomes<R: Ord>(body: impl Fn(&mut Memory, Pick<'_>) -> R) -> BTreeSet<R> {
        outcomes_where(true, body)
    }

    fn outcomes_where<R: Ord>(atomic: bool, body: impl Fn(&mut Memory, Pick<'_>) -> R) -> BTreeSet<R> {
        outcomes_of(3, atomic, body)
    }

    fn outcomes_of<R: Ord>(
        threads: usize,
        atomic: bool,
        body: impl Fn(&mut Memory, Pick<'_>) -> R,
    ) -> BTreeSet<R> {
        let (mut found, mut choices) = (BTreeSet::new(), Vec::<(u32, u32)>::new());
        loop {
            let mut at = 0;
            let mut memory = Memory::new(threads, atomic);
            found.insert(body(&mut memory, &mut |bound| {
                if at == choices.len() {
                    choices.push((0, bound));
                }
                at += 1;
                choices[at - 1].0
            }));
            while choices.last().is_some_and(|&(chosen, bound)| chosen + 1 == bound) {
                choices.pop();
            }
            match choices.last_mut() {
                Some((chosen, _)) => *chosen += 1,
                None => return found,
            }
        }
    }

    /// Message passing: thread 0 stores data and then a flag, thread 1 reads the flag and then the data.
    fn message(store: Ordering, load: Ordering) -> BTreeSet<(u64, u64)> {
        outcomes(|memory, pick| {
            let (data, flag) = (memory.add(0), memory.add(0));
            memory.store(0, data, 1, Ordering::Relaxed);
            memory.store(0, flag, 1, store);
            (memory.load(1, flag, load, pick), memory.load(1, data, Ordering::Relaxed, pick))
        })
    }

    #[test]
    fn a_message_arrives_with_what_was_stored_before_if_it_is_released_and_acquired() {
        let all = BTreeSet::from([(0, 0), (0, 1), (1, 0), (1, 1)]);
        assert_eq!(message(Ordering::Relaxed, Ordering::Acquire), all);
        assert_eq!(message(Ordering::Release, Ordering::Relaxed), all);
        let ordered = BTreeSet::from([(0, 0), (0, 1), (1, 1)]);
        assert_eq!(message(Ordering::Release, Ordering::Acquire), ordered);
        assert_eq!(message(Ordering::SeqCst, Ordering::SeqCst), ordered);
    }

    /// Store buffering: each thread stores to one location and then reads the other.
    fn buffers(store: Ordering, load: Ordering, fence: bool) -> BTreeSet<(u64, u64)> {
        outcomes(|memory, pick| {
            let (x, y) = (memory.add(0), memory.add(0));
            memory.store(0, x, 1, store);
            memory.store(1, y, 1, store);
            if fence {
                memory.fence(0, Ordering::SeqCst);
                memory.fence(1, Ordering::SeqCst);
            }
            (memory.load(0, y, load, pick), memory.load(1, x, load, pick))
        })
    }

    #[test]
    fn two_stores_may_both_be_missed_unless_all_four_accesses_are_consistent() {
        for (store, load) in [
            (Ordering::Release, Ordering::Acquire),
            (Ordering::SeqCst, Ordering::Acquire),
            (Ordering::Release, Ordering::SeqCst),
        ] {
            assert!(buffers(store, load, false).contains(&(0, 0)), "{store:?} {load:?}");
        }
        assert!(!buffers(Ordering::SeqCst, Ordering::SeqCst, false).contains(&(0, 0)));
        assert!(
            !buffers(Ordering::Relaxed, Ordering::Relaxed, true).contains(&(0, 0)),
            "the second fence sees the first"
        );
    }

    /// Each thread stores to one location and then exchanges or reads the other.
    fn late(store: Ordering) -> BTreeSet<(u64, u64)> {
        outcomes(|memory, pick| {
            let (x, y) = (memory.add(1), memory.add(0));
            if store == Ordering::SeqCst {
                memory.store(0, x, 0, store);
            } else {
                memory.store_late(0, x, 0, store);
            }
            let own = memory.load(0, x, Ordering::Relaxed, pick);
            assert_eq!(own, 0, "a thread reads its own late stores");
            let read = memory.load(0, y, Ordering::SeqCst, pick);
            let consistent = (Ordering::SeqCst, Ordering::SeqCst);
            assert_eq!(memory.update(1, y, consistent, &mut |_| Some(1), pick), Ok(0));
            let exchanged = memory.update(1, x, consistent, &mut |_| Some(1), pick).expect("it stores");
            assert!(memory.make_late(0) == (store != Ordering::SeqCst) && !memory.make_late(0));
            (read, exchanged)
        })
    }

    #[test]
    fn a_late_store_is_missed_by_an_exchange_that_follows_a_load_of_its_thread() {
        assert_eq!(late(Ordering::Release), BTreeSet::from([(0, 1)]));
        assert_eq!(late(Ordering::SeqCst), BTreeSet::from([(0, 0)]));
    }

    #[test]
    fn late_stores_keep_their_order_and_carry_what_they_released() {
        let seen = outcomes(|memory, pick| {
            let (data, flag) = (memory.add(0), memory.add(0));
            memory.store_late(0, data, 1, Ordering::Relaxed);
            memory.store_late(0, flag, 1, Ordering::Release);
            let before = memory.load(1, flag, Ordering::Acquire, pick);
            memory.fence(0, Ordering::SeqCst);
            assert_eq!(before, 0);
            (memory.load(1, flag, Ordering::Acquire, pick), memory.load(1, data, Ordering::Relaxed, pick))
        });
        assert_eq!(seen, BTreeSet::from([(0, 0), (0, 1), (1, 1)]));
    }

    #[test]
    fn a_fence_sees_consistent_stores_and_a_consistent_load_sees_what_was_fenced() {
        let after_fence = outcomes(|memory, pick| {
            let x = memory.add(0);
            memory.store(0, x, 1, Ordering::SeqCst);
            memory.fence(1, Ordering::SeqCst);
            memory.load(1, x, Ordering::Relaxed, pick)
        });
        assert_eq!(after_fence, BTreeSet::from([1]));
        let fenced = |load| {
            outcomes(move |memory, pick| {
                let (x, y) = (memory.add(0), memory.add(0));
                memory.store(0, x, 1, Ordering::Relaxed);
                memory.fence(0, Ordering::SeqCst);
                // The load comes after this in the order of all consistent accesses, and so after the fence.
                memory.store(1, y, 1, Ordering::SeqCst);
                memory.load(1, x, load, pick)
            })
        };
        assert_eq!(
            (fenced(Ordering::SeqCst), fenced(Ordering::Acquire)),
            (BTreeSet::from([1]), BTreeSet::from([0, 1]))
        );
    }

    /// A table entry is cleared, then a generation raised and a set read; the other CPU joins the set, and walks.
    #[test]
    fn a_consistent_exchange_stands_for_a_fence_where_stores_are_multi_copy_atomic() {
        let walks = |atomic| {
            outcomes_where(atomic, |memory, pick| {
                let (entry, generation, set) = (memory.add(1), memory.add(0), memory.add(0));
                memory.store(0, entry, 0, Ordering::Relaxed);
                let raise = &mut |old| Some(old + 1);
                let consistent = (Ordering::SeqCst, Ordering::SeqCst);
                assert_eq!(memory.update(0, generation, consistent, raise, pick), Ok(0));
                assert_eq!(memory.load(0, set, Ordering::SeqCst, pick), 0);
                memory.store(1, set, 1, Ordering::SeqCst);
                memory.fence(1, Ordering::SeqCst);
                memory.load(1, entry, Ordering::Relaxed, pick)
            })
        };
        assert_eq!((walks(true), walks(false)), (BTreeSet::from([0]), BTreeSet::from([0, 1])));
    }

    /// A flush raises a generation and sets a mark by exchanges. A CPU exchanges the mark and reads the generation.
    fn marks(mark: Ordering) -> BTreeSet<(u64, u64)> {
        outcomes(|memory, pick| {
            let (generation, word) = (memory.add(0), memory.add(0));
            let consistent = (Ordering::SeqCst, Ordering::SeqCst);
            assert_eq!(memory.update(0, generation, consistent, &mut |old| Some(old + 1), pick), Ok(0));
            assert_eq!(memory.update(0, word, (mark, Ordering::Relaxed), &mut |_| Some(1), pick), Ok(0));
            let found = memory.update(1, word, consistent, &mut |_| Some(0), pick).expect("it stores");
            (found, memory.load(1, generation, Ordering::SeqCst, pick))
        })
    }

    #[test]
    fn an_exchange_may_be_seen_before_an_earlier_one_unless_it_releases() {
        assert_eq!(marks(Ordering::Acquire), BTreeSet::from([(1, 0), (1, 1)]));
        for order in [Ordering::Release, Ordering::AcqRel, Ordering::SeqCst] {
            assert_eq!(marks(order), BTreeSet::from([(1, 1)]), "{order:?}");
        }
    }

    /// A CPU posts, and exchanges a flag that another clears before it looks for posts.
    fn posts(exchange: Ordering) -> BTreeSet<(u64, u64)> {
        outcomes(|memory, pick| {
            let (post, flag) = (memory.add(0), memory.add(1));
            let consistent = (Ordering::SeqCst, Ordering::SeqCst);
            assert_eq!(memory.update(0, post, consistent, &mut |_| Some(1), pick), Ok(0));
            let order = (exchange, Ordering::Relaxed);
            let expected = memory.update(0, flag, order, &mut |_| Some(1), pick).expect("it stores");
            memory.store(1, flag, 0, Ordering::SeqCst);
            (expected, memory.load(1, post, Ordering::SeqCst, pick))
        })
    }

    #[test]
    fn a_post_that_expects_an_answer_is_found_if_its_exchange_is_consistent() {
        assert_eq!(posts(Ordering::SeqCst), BTreeSet::from([(1, 1)]));
        for order in [Ordering::Acquire, Ordering::Relaxed] {
            assert_eq!(posts(order), BTreeSet::from([(1, 0), (1, 1)]), "{order:?}");
        }
    }

    /// Thread 0 raises a generation and then closes something. Thread 1, which knows a set, reads in this order whether it
    /// is closed, the set, and the generation.
    fn closes(load: Ordering) -> BTreeSet<(u64, u64)> {
        outcomes(|memory, pick| {
            let (generation, open, set) = (memory.add(0), memory.add(0), memory.add(1));
            let consistent = (Ordering::SeqCst, Ordering::SeqCst);
            for location in [generation, open] {
                assert_eq!(memory.update(0, location, consistent, &mut |_| Some(1), pick), Ok(0));
            }
            let closed = memory.load(1, open, load, pick);
            assert_eq!(memory.load(1, set, Ordering::SeqCst, pick), 1);
            (closed, memory.load(1, generation, Ordering::SeqCst, pick))
        })
    }

    #[test]
    fn a_consistent_load_may_come_before_relaxed_ones_of_its_thread() {
        assert!(closes(Ordering::Relaxed).contains(&(1, 0)));
        for order in [Ordering::Acquire, Ordering::SeqCst] {
            assert_eq!(closes(order), BTreeSet::from([(0, 0), (0, 1), (1, 1)]), "{order:?}");
        }
    }

    /// Two threads store, and two others read both in opposite orders.
    #[test]
    fn all_threads_agree_on_the_order_of_consistent_stores() {
        let consistent = outcomes_of(4, true, |memory, pick| {
            let (x, y) = (memory.add(0), memory.add(0));
            memory.store(0, x, 1, Ordering::SeqCst);
            memory.store(1, y, 1, Ordering::SeqCst);
            let mut read = |thread, location| memory.load(thread, location, Ordering::SeqCst, pick);
            [read(2, x), read(2, y), read(3, y), read(3, x)]
        });
        assert!(!consistent.contains(&[1, 0, 1, 0]), "{consistent:?}");
        assert!(consistent.contains(&[1, 0, 1, 1]) && consistent.contains(&[0, 1, 1, 0]), "{consistent:?}");
    }

    #[test]
    fn a_read_modify_write_reads_the_newest_and_continues_a_release_sequence() {
        let seen = outcomes(|memory, pick| {
            let (data, count) = (memory.add(0), memory.add(0));
            memory.store(0, data, 1, Ordering::Relaxed);
            memory.store(0, count, 1, Ordering::Release);
            let add = &mut |old| Some(old + 1);
            let relaxed = (Ordering::Relaxed, Ordering::Relaxed);
            assert_eq!(memory.update(1, count, relaxed, add, pick), Ok(1));
            (memory.load(2, count, Ordering::Acquire, pick), memory.load(2, data, Ordering::Relaxed, pick))
        });
        assert!(!seen.contains(&(2, 0)) && seen.contains(&(2, 1)) && seen.contains(&(0, 0)), "{seen:?}");
    }

    #[test]
    fn an_exchange_may_fail_with_an_old_value_and_never_succeeds_with_one() {
        let results = outcomes(|memory, pick| {
            let x = memory.add(0);
            memory.store(0, x, 1, Ordering::Relaxed);
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            let exchange = |memory: &mut Memory, from: u64, pick: Pick<'_>| {
                memory.update(1, x, order, &mut |old| (old == from).then_some(7), pick)
            };
            let first = exchange(memory, 1, pick);
            (first, exchange(memory, 0, pick))
        });
        let wrong = results.iter().any(|&(first, second)| first == Ok(0) || second.is_ok());
        assert!(
            !wrong && results.contains(&(Err(0), Err(1))) && results.contains(&(Ok(1), Err(7))),
            "{results:?}"
        );
    }

    #[test]
    fn a_thread_never_reads_an_older_value_than_before() {
        let pairs = outcomes(|memory, pick| {
            let x = memory.add(0);
            memory.store(0, x, 1, Ordering::Relaxed);
            memory.store(0, x, 2, Ordering::Relaxed);
            (memory.load(1, x, Ordering::Relaxed, pick), memory.load(1, x, Ordering::Relaxed, pick))
        });
        assert!(pairs.iter().all(|(first, second)| first <= second) && pairs.len() == 6, "{pairs:?}");
    }
}
