//! Owing frames: a machine whose CPU 1 owes, and operations on it.

use std::collections::BTreeSet;

use ceasefire::{Batch, Condition, Entry, Owed, PageSize, Platform, Schedule, Stamp};
use ceasefire_memory::{Config, Frame, FrameNumber, Lazy, NodeId, PAGE_BYTES};
pub(crate) use ceasefire_testing::TableLock;

use super::{config, free, Rig, Space};

pub(crate) const NEAR: NodeId = NodeId(0);
/// Frames of each node.
pub(crate) const FRAMES: u32 = 512;
/// The number of frames that a CPU moves to its node at a time.
pub(crate) const MOVED: usize = 31;
/// The greatest age of a debt here, in nanoseconds of the rig: each read of its clock counts one. Nothing else reads it
/// as often.
pub(crate) const AGE: u64 = 1_000_000;

/// Two nodes, whose debts settle without payment.
pub(crate) fn lazily(lazy: Lazy) -> Config {
    Config { schedule: Schedule::Lazy, lazy, ..config(2 * FRAMES) }
}

pub(crate) fn bounds() -> Lazy {
    Lazy { max_age: AGE, tick: AGE / 4, ..Lazy::default() }
}

/// A machine with a space that CPU 1 runs. Clearing its translations makes CPU 1 owe.
pub(crate) fn machine(lazy: Lazy) -> (Rig, Space) {
    let rig = Rig::by_hand(lazily(lazy));
    let space = rig.memory.new_space().unwrap();
    rig.on(1, || rig.run(&space));
    (rig, space)
}

pub(crate) fn near(frame: FrameNumber) -> bool {
    let first = config(2 * FRAMES).first_frame;
    (first.get()..first.get() + FRAMES).contains(&frame.get())
}

/// All frames that can be had without waiting: the near node's, and the other's. No CPU is interrupted for them.
pub(crate) fn take_all(rig: &Rig) -> (Vec<Frame>, Vec<Frame>) {
    let before = rig.memory.counters().interrupts;
    let taken = super::take_all(rig, NEAR);
    assert_eq!(
        rig.memory.counters().interrupts,
        before,
        "an allocation that must not wait interrupted other CPUs"
    );
    taken.into_iter().partition(|frame| near(frame.number()))
}

/// Frees frames that CPU 1 still reaches; returns them.
pub(crate) fn owe(
    rig: &Rig,
    space: &Space,
    frames: impl IntoIterator<Item = Frame>,
) -> (BTreeSet<FrameNumber>, Stamp) {
    owe_as(rig, space, frames, |stamp| stamp)
}

pub(crate) const READ: Entry = Entry::READ_ONLY;

/// The same, with each frame stored under the stamp that `stored` makes of its own.
pub(crate) fn owe_as(
    rig: &Rig,
    space: &Space,
    frames: impl IntoIterator<Item = Frame>,
    stored: fn(Stamp) -> Stamp,
) -> (BTreeSet<FrameNumber>, Stamp) {
    let mut owing = BTreeSet::new();
    let mut until = Stamp::SETTLED;
    let mut batch: Batch<'_, _, Frame, _> =
        Batch::new(rig.memory.engine(), Schedule::Lazy, |frame: Owed<Frame>| {
            assert!(!rig.memory.engine().is_settled(frame.stamp()), "CPU 1 owes it");
            owing.insert(frame.get().number());
            until = until.with(frame.stamp());
            let mut stamp = Stamp::SETTLED;
            let frame = frame.leave_in(&mut stamp);
            rig.memory.free_owed(Owed::new(frame, stored(stamp)));
        });
    for (page, frame) in (0..).zip(frames) {
        let mut unmapping = batch.take(frame);
        unmapping.clear(&TableLock(space.clone()), page * PAGE_BYTES, PageSize::KIB_4, |_| READ);
        unmapping.release_in_debt(Condition::UNKEPT);
        if batch.len() == ceasefire::BATCH {
            batch.flush();
        }
    }
    drop(batch);
    (owing, until)
}

pub(crate) fn pass(rig: &Rig, time: u64) {
    for _ in 0..time {
        rig.platform().now();
    }
}

pub(crate) fn tick(rig: &Rig, cpu: usize) {
    rig.on(cpu, || rig.platform().interrupts_off(|| rig.memory.tick()));
}

/// Ticks of both CPUs until all debts are settled.
pub(crate) fn settle_by_ticks(rig: &Rig) {
    pass(rig, AGE);
    for cpu in [0, 1, 0] {
        tick(rig, cpu);
    }
}

/// Leaves the near node with `settled` times 31 debt-free frames and all others owing; returns the frames of the other
/// node. CPU 1 keeps 156 that CPU 0 cannot have.
pub(crate) fn near_owes(rig: &Rig, space: &Space, settled: usize) -> (BTreeSet<FrameNumber>, Vec<Frame>) {
    let (mut here, there) = take_all(rig);
    let kept = here.split_off(here.len() - 156 - settled * MOVED);
    rig.on(1, || free(rig, kept));
    let (owing, _) = owe(rig, space, here);
    (owing, there)
}

/// Ends everything and checks that every frame is there and whole.
pub(crate) fn finish(rig: &Rig, space: Space, all: u64) {
    rig.memory.engine().pay_all();
    rig.on(1, || drop(rig.memory.engine().unload()));
    rig.memory.exit(space);
    rig.memory.list_collected();
    assert_eq!(rig.memory.free_frames(), all, "frames were lost or found");
    rig.platform().assert_no_violation();
}
