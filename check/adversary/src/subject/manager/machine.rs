//! The machine as the memory manager sees it: frames, devices and waiting. What it reports goes to the record.

use std::fmt;

use ceasefire::{AddressSpace, CpuId};
use ceasefire_memory::{Block, Event, FrameNumber, Machine, NodeId, Table, Work, PAGE_BYTES, PAGE_SHIFT};

use super::locks::{Exclusive, Published, Shared};
use super::managed::{frame_of, Managed};
use crate::hardware::platform::Adverse;
use crate::hardware::tlb::Tag;
use crate::model::rule::Rule;
use crate::model::schedule::{below, in_some_order};

impl Adverse<Managed> {
    /// A device works for a while.
    fn device_works(&self) {
        for _ in 0..below(4) {
            self.hardware.wait_a_moment();
        }
        self.hardware.step();
    }

    fn assert_may_sleep(&self) {
        let core = self.hardware.core();
        let free = core.off.get() == 0 && core.pins.get() == 0 && self.held().may_sleep();
        assert!(free, "a task that may sleep has interrupts off, is pinned or holds a lock that spins");
    }

    fn report(&self, event: Event<'_>) {
        let (hardware, record) = (&*self.hardware, &self.system.record);
        let pages = |start: u64, end: u64| start >> PAGE_SHIFT..end >> PAGE_SHIFT;
        let root = |space: &AddressSpace| frame_of(space.root());
        match event {
            Event::FrameAllocated(frame) => hardware.hand_out(frame.get()),
            Event::FrameFreed(frame) => {
                hardware.take_back(frame.get());
                record.frame_freed(frame.get());
            }
            Event::TableFreed(frame) => hardware.note(|| format!("table {} is gone", frame.get())),
            Event::HoleFilled { .. } | Event::Withdrawn { .. } | Event::Atomic { .. } => {}
            Event::Installed { space, address, frame, .. } => {
                let page = address >> PAGE_SHIFT;
                hardware.note(|| format!("set page {page:#x} -> frame {}", frame.get()));
                hardware.warm(Tag::Asid(0), page);
                record.installed(hardware, root(space), page, frame.get());
            }
            Event::Returned { space, start, end, allowed } => {
                record.returned(hardware, root(space), pages(start, end), allowed, self.began());
            }
            Event::Cleaned { space, start, end } => {
                for page in pages(start, end) {
                    let entry = record.look(hardware, root(space), page);
                    if let Some(entry) = entry.filter(|entry| !entry.dirty()) {
                        hardware.declare_clean(entry.frame().get(), None);
                    }
                }
            }
            Event::WriteOut(frame) => {
                hardware.note(|| format!("write frame {}", frame.get()));
                hardware.declare_clean(frame.get(), None);
            }
            Event::Left { frame, block } => {
                hardware.note(|| format!("released in debt: frame {}", frame.get()));
                record.frame_left(frame.get(), block);
            }
            Event::Settled { store, first, last } => record.settled(hardware, store, first, last),
            Event::Superseded(frame) => {
                hardware.note(|| format!("frame {} is superseded", frame.get()));
                record.superseded(hardware, frame.get());
            }
        }
    }
}

impl Machine for Adverse<Managed> {
    type Lock<T: fmt::Debug> = Exclusive<T>;
    type RwLock<T: fmt::Debug> = Shared<T>;
    type Rcu<T: Clone + fmt::Debug> = Published<T>;

    /// Now and then the kernel is slow between two levels: a table may be freed meanwhile, if nothing keeps it.
    fn table(&self, frame: FrameNumber) -> &Table {
        let hardware = &*self.hardware;
        if below(16) == 0 {
            (0..below(64)).for_each(|_| hardware.wait_a_moment());
        }
        if hardware.allocation_in_use(frame.get()).is_none() {
            let what = format!("the kernel reads table {}, which was freed", frame.get());
            hardware.break_rule(Rule::R2, hardware.me(), what);
        }
        self.system.record.table(frame.get())
    }

    fn zero(&self, first: FrameNumber, count: u32) {
        for frame in first.get()..first.get() + count {
            self.hardware.step();
            self.system.record.zero(frame);
        }
        self.hardware.step();
    }

    fn copy(&self, from: FrameNumber, to: FrameNumber, count: u32) {
        for offset in 0..count {
            self.hardware.step();
            let word = self.system.record.word(from.get() + offset);
            self.hardware.step();
            self.system.record.set_word(to.get() + offset, word);
        }
    }

    fn load(&self, frame: FrameNumber, offset: usize, into: &mut [u8]) {
        self.hardware.step();
        let word = self.system.record.word(frame.get()).to_le_bytes();
        for (at, byte) in (offset..).zip(into) {
            *byte = word.get(at).copied().unwrap_or(0);
        }
    }

    fn store(&self, frame: FrameNumber, offset: usize, from: &[u8]) {
        self.hardware.step();
        let mut word = self.system.record.word(frame.get()).to_le_bytes();
        for (at, byte) in (offset..PAGE_BYTES as usize).zip(from) {
            if let Some(place) = word.get_mut(at) {
                *place = *byte;
            }
        }
        self.system.record.set_word(frame.get(), u64::from_le_bytes(word));
    }

    fn write_out(&self, pages: &[(Block, FrameNumber)]) {
        self.assert_may_sleep();
        let record = &self.system.record;
        for (_, frame) in pages {
            record.writes(frame.get(), true);
        }
        // A device takes any.
        for (block, frame) in in_some_order(pages.iter().copied()) {
            self.device_works();
            record.put_block(block, record.word(frame.get()));
        }
        self.device_works();
        for (_, frame) in pages {
            record.writes(frame.get(), false);
        }
    }

    fn read_in(&self, pages: &[(Block, FrameNumber)]) {
        self.assert_may_sleep();
        for (block, frame) in in_some_order(pages.iter().copied()) {
            self.device_works();
            self.system.record.set_word(frame.get(), self.system.record.block(block));
        }
    }

    /// A task that sleeps here looks again when it is woken, and at no other time. It may wake too early.
    fn wait_for_page(&self, frame: FrameNumber, busy: &dyn Fn() -> bool) {
        assert!(self.held().is_empty(), "waits for a page while it holds a lock");
        let (ready, early) = (|| self.system.ready[frame.get() as usize].get(), below(4) == 0);
        loop {
            let before = ready();
            if !busy() {
                return;
            }
            while ready() == before {
                self.hardware.wait_a_moment();
                if early && below(8) == 0 {
                    return;
                }
            }
        }
    }

    fn page_ready(&self, frame: FrameNumber) {
        let ready = &self.system.ready[frame.get() as usize];
        ready.set(ready.get() + 1);
    }

    fn node_of(&self, cpu: CpuId) -> NodeId {
        NodeId((cpu.index() as u32 % self.system.nodes) as u16)
    }

    fn wake_reclaim(&self, node: NodeId) {
        self.wakes(node);
    }

    fn reschedule(&self) {
        self.assert_may_sleep();
        self.hardware.wait_a_moment();
    }

    fn work(&self, _: Work, _: u32) {
        self.hardware.step();
    }

    fn observe(&self, event: Event<'_>) {
        self.report(event);
    }
}
