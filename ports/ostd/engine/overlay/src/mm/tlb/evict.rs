//! Pages that the kernel takes from programs on its own account, as reclaim does: nobody waits for their flush.
//!
//! No program was promised anything, so the other CPUs need not learn of it at once. A frame that no CPU can store to is
//! kept with a stamp of the engine. Each CPU flushes at one of its next ticks, or has left the space by then, and the
//! frame is dropped after the last of them. No CPU is interrupted. What is owed in a space is settled before the next
//! cursor changes it, so nothing new is mapped, and no `munmap` returns, while a CPU may use an old translation.

use alloc::collections::VecDeque;
use core::sync::atomic::{AtomicBool, Ordering};

use ceasefire::{Batch, Bounds, Condition, Entry, Owed, PageSize, Payment, Schedule, Translation};

use super::{
    AnyFrame, Space,
    frames::Frames,
    machine::{ENGINE, Machine, is_up},
    space::Locked,
};
use crate::{
    mm::{PageFlags, Vaddr},
    sync::{LocalIrqDisabled, RcuDrop, SpinLock},
    timer::TIMER_FREQ,
};

/// A debt is settled after 10 ms. Each CPU has a tick in each period of the timer.
pub(super) const BOUNDS: Bounds = match Bounds::new(10_000_000, 1_000_000_000 / TIMER_FREQ, Payment::Free) {
    Ok(bounds) => bounds,
    Err(_) => panic!("the timer is too slow for debts of 10 ms"),
};

/// Frames that owe, those that owe longest first.
static OWING: SpinLock<VecDeque<Owed<Option<AnyFrame>>>, LocalIrqDisabled> = SpinLock::new(VecDeque::new());
/// A debt has become too old, because a CPU had no tick.
static OVERDUE: AtomicBool = AtomicBool::new(false);

/// A translation that was taken out of a page table.
pub(in crate::mm) struct Taken {
    /// The rights that it gave, and what the processor noted.
    pub(in crate::mm) flags: PageFlags,
    /// The frame that it led to.
    pub(in crate::mm) frame: RcuDrop<AnyFrame>,
}

/// What the engine asks of it.
struct Old(Entry);

impl Translation for Old {
    fn entry(&self) -> Entry {
        self.0
    }
}

type Evictions = Batch<'static, Machine, Option<AnyFrame>, fn(Owed<Option<AnyFrame>>)>;

/// Pages that are being taken. Dropping it makes the one flush that those need which a CPU could store to.
pub(in crate::mm) struct Evicting<'a> {
    space: &'a Space,
    batch: Evictions,
}

impl<'a> Evicting<'a> {
    /// Begins to take pages of a space.
    pub(in crate::mm) fn new(space: &'a Space) -> Self {
        if OVERDUE.swap(false, Ordering::Relaxed) {
            ENGINE.pay_overdue();
        }
        let schedule = if is_up() { Schedule::Lazy } else { Schedule::PerPage };
        Self { space, batch: Batch::new(&ENGINE, schedule, leave) }
    }

    /// Takes the page at an address, whose cursor the caller has, by `take`.
    pub(in crate::mm) fn take(&mut self, address: Vaddr, take: impl FnOnce() -> Taken) {
        let mut page = self.batch.take(None);
        let mut frame = None;
        page.clear(&Locked::new(self.space), address as u64, PageSize::KIB_4, |_| {
            let Taken { flags, frame: taken } = take();
            frame = Some(Frames::keep(taken));
            let (writable, dirty) = (flags.contains(PageFlags::W), flags.contains(PageFlags::DIRTY));
            Old(Entry { writable, dirty, ..Entry::READ_ONLY })
        });
        page.update(|page| *page = frame);
        page.release_in_debt(Condition::UNKEPT);
    }
}

/// Drops a frame of a batch, or keeps it while it owes.
fn leave(owed: Owed<Option<AnyFrame>>) {
    match ENGINE.redeem(owed) {
        Ok(frame) => Frames::drop_later(frame),
        Err(owed) => OWING.lock().push_back(owed),
    }
}

/// Settles what is owed in a space, before a cursor that was just made changes it.
pub(in crate::mm) fn settle(space: &Space) {
    if is_up() {
        drop(ENGINE.settle(Locked::new(space)));
    }
}

/// A tick of this CPU's timer: it does what it owes, and the frames that owe no longer are dropped.
pub(super) fn tick() {
    if !is_up() {
        return;
    }
    if ENGINE.tick() {
        OVERDUE.store(true, Ordering::Relaxed);
    }
    // Another CPU that has the lock is adding a frame, or does what follows.
    let Some(mut owing) = OWING.try_lock() else { return };
    while let Some(owed) = owing.pop_front() {
        match ENGINE.redeem(owed) {
            Ok(frame) => Frames::drop_later(frame),
            Err(owed) => {
                owing.push_front(owed);
                return;
            }
        }
    }
}
