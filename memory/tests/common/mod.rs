//! A machine made of host threads: each thread is a CPU with a software TLB.
//!
//! Once a TLB entry is filled, accesses use it without a walk until the platform is told to invalidate it. So a missing
//! flush leaves a stale entry that the checks here find. Each CPU has a flag for interrupts, and polls it where a real
//! CPU could take one: at each access, while it waits, and when interrupts come on again. A machine made with
//! [`Rig::by_hand`] has one thread that acts as each CPU in turn, and delivers interrupts at once.

pub(crate) mod guards;
mod locks;
mod machine;
mod moments;
pub(crate) mod owing;
mod platform;
mod rig;
mod threads;
mod tlb;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

use ceasefire::{Platform, Schedule};
use ceasefire_memory::{Config, Frame, FrameNumber, NodeId, NodeLayout, ObjectId, Pages, PAGE_BYTES};
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rand_xoshiro::SplitMix64;

pub(crate) use moments::Moment;
pub(crate) use rig::{Rig, Space};
pub(crate) use threads::Threads;

/// Two nodes. Their frames begin at a number that cannot be mistaken for an index.
pub(crate) fn config(frames: u32) -> Config {
    let nodes = vec![NodeLayout::new(frames / 2), NodeLayout::new(frames - frames / 2)];
    let first_frame = FrameNumber::new(5_003);
    Config { first_frame, objects: 64, ..Config::new(nodes, 2, Schedule::Batched) }
}

/// A machine of two CPUs with a space that both run, and the number of free frames before the space was there.
pub(crate) fn running(config: Config) -> (Rig, Space, u64) {
    let rig = Rig::by_hand(config);
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    rig.on(1, || rig.run(&space));
    (rig, space, free)
}

/// The same on two nodes.
pub(crate) fn shared_space(frames: u32) -> (Rig, Space) {
    let (rig, space, _) = running(config(frames));
    (rig, space)
}

/// Ends the program and checks that no frame or object of it is left.
pub(crate) fn finish(rig: &Rig, space: Space, files: &[ObjectId], free: u64) {
    rig.on(1, || drop(rig.memory.engine().unload()));
    rig.memory.exit(space);
    for &file in files {
        rig.memory.delete_file(file);
    }
    rig.memory.list_collected();
    assert_eq!(rig.memory.free_frames(), free, "frames were lost or found");
    rig.platform().assert_no_violation();
}

/// Demands more pages than there are, until all unused pages were scanned and reclaimed.
pub(crate) fn exhaust(rig: &Rig) -> Vec<Space> {
    let mut spaces = Vec::new();
    while let Ok(space) = rig.memory.new_space() {
        spaces.push(space);
    }
    spaces
}

/// All frames that can be had without waiting, those of `node` first.
pub(crate) fn take_all(rig: &Rig, node: NodeId) -> Vec<Frame> {
    let take = || rig.platform().interrupts_off(|| rig.memory.allocate_atomic(node));
    std::iter::from_fn(take).collect()
}

pub(crate) fn free(rig: &Rig, frames: impl IntoIterator<Item = Frame>) {
    frames.into_iter().for_each(|frame| rig.memory.free(frame));
}

pub(crate) fn numbers(frames: &[Frame]) -> BTreeSet<FrameNumber> {
    frames.iter().map(Frame::number).collect()
}

pub(crate) fn end(rig: &Rig, spaces: Vec<Space>) {
    for space in spaces {
        rig.memory.exit(space);
    }
}

/// CPU 0 does `first`. At a moment of it, CPU 1, which runs the space, begins `second`. `first` goes on once CPU 1
/// waits for a page.
pub(crate) fn meet(
    (rig, space): (&Rig, &Space),
    moment: Moment,
    first: impl FnOnce(),
    second: impl FnOnce(&Rig, &Space) + Send,
) {
    let [there, waits] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    std::thread::scope(|scope| {
        let (other, theirs, arrives, waiting) = (rig.clone(), space.clone(), there.clone(), waits.clone());
        scope.spawn(move || {
            let _fails = other.start(1);
            other.run(&theirs);
            other.platform().idle_until(|| arrives.load(Ordering::SeqCst));
            other.platform().at(Moment::Wait, move || waiting.store(true, Ordering::SeqCst));
            second(&other, &theirs);
            drop(other.memory.engine().unload());
        });
        let _fails = rig.start(0);
        let inner = rig.clone();
        rig.platform().at(moment, move || {
            there.store(true, Ordering::SeqCst);
            inner.platform().idle_until(|| waits.load(Ordering::SeqCst));
        });
        first();
    });
}

/// The length of a range of whole pages.
pub(crate) fn between(start: u64, end: u64) -> Pages {
    Pages::of_bytes(end - start).expect("whole pages")
}

/// The address of page `page` of a range.
pub(crate) fn at(start: u64, page: u64) -> u64 {
    start + page * PAGE_BYTES
}

/// Numbers that are the same in every run.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0.next_u64() % bound
    }
}
