//! The two ends of a shootdown: requests, and the inbox that they are posted to.

use std::rc::Rc;

use ceasefire::cores::{
    answered_by_one, asked, begin, close, drain, empty, generation, is_answered, join, online, post, Post,
};
use ceasefire::{AtomicCpuSet, Cpu, Generation, SpaceId};
use ceasefire_atomics::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

use crate::cpu;
use crate::explorer::{Model, Orders};

const ONCE: &str = "each request is answered once";
const BEFORE: &str = "the CPU that answers sees what was stored before the request";
const AFTER: &str = "the sender sees what was done for the answer";

/// Interrupts a CPU. Several interrupts may arrive as one, which carries the stores of all senders.
fn interrupt(pending: &AtomicU64) {
    pending.swap(1, Ordering::Release);
}

fn is_interrupted(pending: &AtomicU64) -> bool {
    pending.swap(0, Ordering::Acquire) != 0
}

/// CPUs that send requests to CPU 0.
struct Machine {
    cpus: [Cpu<()>; 3],
    /// An interrupt is on its way to CPU 0.
    interrupt: AtomicU64,
    /// What each sender stores before its request, and CPU 0 before its answer.
    changed: [AtomicU64; 3],
    done: [AtomicU64; 3],
    answers: [AtomicU64; 3],
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            cpus: std::array::from_fn(|_| online()),
            interrupt: AtomicU64::default(),
            changed: Default::default(),
            done: Default::default(),
            answers: Default::default(),
        }
    }
}

impl Machine {
    fn send(&self, me: usize) {
        self.changed[me].store(1, Ordering::Relaxed);
        let number = begin(&self.cpus[me], SpaceId::NONE, generation(5), 1);
        match post(&self.cpus[0], cpu(me), true) {
            Post::Interrupt => interrupt(&self.interrupt),
            Post::Expected => {}
            Post::Closed => {
                self.answers[me].fetch_add(1, Ordering::Relaxed);
                answered_by_one(&self.cpus[me]);
                return;
            }
        }
        if is_answered(&self.cpus[me], number) {
            assert_eq!(self.done[me].load(Ordering::Relaxed), 1, "{AFTER}");
        }
    }

    fn empty(&self) {
        empty(&self.cpus[0], |sender| {
            let (space, asked, _): (SpaceId, Generation, _) = asked(&self.cpus[sender.index()]);
            assert_eq!((space, asked), (SpaceId::NONE, generation(5)), "{BEFORE}");
            assert_eq!(self.changed[sender.index()].load(Ordering::Relaxed), 1, "{BEFORE}");
            self.done[sender.index()].store(1, Ordering::Relaxed);
            self.answers[sender.index()].fetch_add(1, Ordering::Relaxed);
            answered_by_one(&self.cpus[sender.index()]);
        });
    }

    /// The handler of interrupts.
    fn handle(&self) {
        if is_interrupted(&self.interrupt) {
            self.empty();
        }
    }

    fn answers(&self, sender: usize) -> u64 {
        self.answers[sender].load(Ordering::Relaxed)
    }
}

/// Two CPUs send a request each, while CPU 0 looks into its inbox, as a CPU does that waits with interrupts off, and
/// then handles an interrupt if there is one.
fn post_against_empty() {
    let machine = Rc::new(Machine::default());
    let sending = [1, 2].map(|me| {
        let machine = Rc::clone(&machine);
        thread::spawn(move || machine.send(me))
    });
    machine.empty();
    machine.handle();
    for sent in sending {
        sent.join().expect("it sent");
    }
    machine.handle();
    assert_eq!([1, 2].map(|me| machine.answers(me)), [1; 2], "{ONCE}");
}

const POST: Model = Model {
    name: "inbox: post and empty",
    threads: 3,
    bound: Some(2),
    locations: 32,
    body: post_against_empty,
};

#[test]
fn a_request_is_answered_once_and_both_ends_see_each_other() {
    POST.holds();
}

/// CPU 0 looks by itself and takes the first request, whose sender then interrupts it. Before that interrupt arrives, a
/// second CPU posts, and finds that an interrupt is expected. The interrupt carries only the stores of the first
/// sender. So CPU 0 may read the set's summary as it left it, empty.
#[test]
fn a_request_is_lost_if_a_cpu_that_looks_by_itself_reads_an_old_summary() {
    POST.breaks(Orders::AcquireRelease, ONCE);
}

/// An inbox as in the engine, but a CPU empties it before it asks for further interrupts.
#[derive(Default)]
struct Late {
    interrupted: AtomicBool,
    from: AtomicCpuSet,
    interrupt: AtomicU64,
}

impl Late {
    fn post(&self, me: usize) {
        join(&self.from, cpu(me));
        if !self.interrupted.swap(true, Ordering::SeqCst) {
            interrupt(&self.interrupt);
        }
    }

    /// Returns the number of requests.
    fn handle(&self) -> usize {
        let mut requests = 0;
        if is_interrupted(&self.interrupt) {
            drain(&self.from, |_| requests += 1);
            self.interrupted.store(false, Ordering::SeqCst);
        }
        requests
    }
}

fn post_against_late() {
    let inbox = Rc::new(Late::default());
    let sending = [1, 2].map(|me| {
        let inbox = Rc::clone(&inbox);
        thread::spawn(move || inbox.post(me))
    });
    let early = inbox.handle();
    for sent in sending {
        sent.join().expect("it sent");
    }
    assert_eq!(early + inbox.handle(), 2, "{ONCE}");
}

#[test]
fn a_request_is_lost_if_the_inbox_is_emptied_before_it_interrupts_again() {
    let late = Model { name: "inbox: emptied too early", body: post_against_late, ..POST };
    late.breaks(Orders::Named, ONCE);
}

/// Two CPUs send a request each to a CPU that goes offline.
fn post_against_close() {
    let machine = Rc::new(Machine::default());
    let sending = [1, 2].map(|me| {
        let machine = Rc::clone(&machine);
        thread::spawn(move || machine.send(me))
    });
    close(&machine.cpus[0]);
    machine.empty();
    for sent in sending {
        sent.join().expect("it sent");
    }
    assert_eq!([1, 2].map(|me| machine.answers(me)), [1; 2], "{ONCE}");
}

const CLOSE: Model = Model { name: "inbox: post and close", body: post_against_close, ..POST };

#[test]
fn a_request_to_a_cpu_that_goes_offline_is_answered_once() {
    CLOSE.holds();
}

/// The sender reads the inbox as it was before it was closed.
#[test]
fn a_request_to_a_cpu_that_goes_offline_is_lost_without_sequential_consistency() {
    CLOSE.breaks(Orders::AcquireRelease, ONCE);
}

/// One request, with a CPU that answers and one that waits.
fn answer() {
    let machine = Rc::new(Machine::default());
    let answering = Rc::clone(&machine);
    let answering = thread::spawn(move || answering.handle());
    machine.send(1);
    answering.join().expect("it answered");
}

const ANSWER: Model = Model { name: "request: answer", threads: 2, bound: None, body: answer, ..POST };

#[test]
fn an_answer_carries_what_was_done_for_it() {
    ANSWER.holds();
}

/// The interrupt carries what the sender stored, as the platform promises. Only the answer is relaxed here.
#[test]
fn an_answer_that_is_not_released_says_too_much() {
    ANSWER.breaks(Orders::Relaxed, "sees what was");
}
