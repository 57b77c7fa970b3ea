//! The memory manager's machine: frames, devices and waiting. It checks events as they arrive.

use std::fmt;
use std::ptr;
use std::sync::atomic::Ordering;

use ceasefire::CpuId;
use ceasefire_memory::shadow::{Misuse, Shadow};
use ceasefire_memory::{
    Block, Entry, Event, FrameNumber, Machine, NodeId, Table, Work, ENTRIES, KERNEL_ENTRIES,
};

use super::locks::{Published, RwSpin, SpinLock};
use super::threads::{Threads, KERNEL};
use super::tlb::frame_of;
use super::Moment;

impl Machine for Threads {
    type Lock<T: fmt::Debug> = SpinLock<T>;
    type RwLock<T: fmt::Debug> = RwSpin<T>;
    type Rcu<T: Clone + fmt::Debug> = Published<T>;

    fn table(&self, frame: FrameNumber) -> &Table {
        self.step();
        let content = self.content(frame);
        self.check(content.allocated.load(Ordering::Acquire), "R2, a freed table is read", frame);
        content.table.get_or_init(|| Box::new(Table::new()))
    }

    fn share_kernel(&self, root: &Table) {
        assert!((0..ENTRIES).all(|index| root.get(index).is_none()), "a new root is not empty");
        root.set(KERNEL_ENTRIES.end - 1, KERNEL);
        self.roots.lock().unwrap().insert(ptr::from_ref(root).addr());
    }

    fn zero(&self, first: FrameNumber, count: u32) {
        for frame in (first.get()..first.get() + count).map(FrameNumber::new) {
            let content = self.content(frame);
            self.check(content.allocated.load(Ordering::Acquire), "a free frame is zeroed", frame);
            for word in &content.words {
                word.store(0, Ordering::Release);
            }
            if let Some(table) = content.table.get() {
                table.clear();
            }
        }
    }

    fn copy(&self, from: FrameNumber, to: FrameNumber, count: u32) {
        self.reach(Moment::Copy);
        for offset in 0..count {
            let content = |first: FrameNumber| self.content(FrameNumber::new(first.get() + offset));
            let (from, to) = (&content(from).words, &content(to).words);
            for (from, to) in from.iter().zip(to) {
                to.store(from.load(Ordering::Acquire), Ordering::Release);
            }
        }
    }

    fn load(&self, frame: FrameNumber, offset: usize, into: &mut [u8]) {
        self.reach(Moment::Load);
        let words = self.content(frame).words.each_ref().map(|word| word.load(Ordering::Acquire));
        for (at, byte) in (offset..).zip(into) {
            *byte = words.get(at / 8).map_or(0, |word| word.to_le_bytes()[at % 8]);
        }
    }

    fn store(&self, frame: FrameNumber, offset: usize, from: &[u8]) {
        let words = &self.content(frame).words;
        for (at, byte) in (offset..).zip(from) {
            let Some(word) = words.get(at / 8) else { break };
            let mut bytes = word.load(Ordering::Acquire).to_le_bytes();
            bytes[at % 8] = *byte;
            word.store(u64::from_le_bytes(bytes), Ordering::Release);
        }
    }

    fn write_out(&self, pages: &[(Block, FrameNumber)]) {
        self.assert_may_sleep();
        assert!(!pages.is_empty(), "nothing is written");
        for &(block, frame) in pages {
            let content = self.content(frame);
            self.check(content.allocated.load(Ordering::Acquire), "a free frame is written", frame);
            let words = content.words.each_ref().map(|word| word.load(Ordering::Acquire));
            self.stored.lock().unwrap().insert(block, words);
            self.written.fetch_add(1, Ordering::Relaxed);
        }
        self.reach(Moment::WriteOut);
    }

    fn read_in(&self, pages: &[(Block, FrameNumber)]) {
        self.assert_may_sleep();
        assert!(!pages.is_empty(), "nothing is read");
        self.reach(Moment::ReadIn);
        for &(block, frame) in pages {
            let words = self.stored.lock().unwrap().get(&block).copied();
            self.check(words.is_some(), "read from a device before it was written", frame);
            for (word, value) in self.content(frame).words.iter().zip(words.unwrap_or_default()) {
                word.store(value, Ordering::Release);
            }
        }
    }

    fn wait_for_page(&self, _: FrameNumber, busy: &dyn Fn() -> bool) {
        assert!(self.core().held.is_empty(), "waits for a page while it holds a lock");
        if busy() {
            self.reach(Moment::Wait);
        }
        self.idle_until(|| !busy());
    }

    fn page_ready(&self, _: FrameNumber) {}

    fn node_of(&self, cpu: CpuId) -> NodeId {
        NodeId((cpu.index() % self.nodes) as u16)
    }

    fn alters_free_frames(&self) -> bool {
        self.alters.load(Ordering::SeqCst)
    }

    fn wake_reclaim(&self, node: NodeId) {
        self.woken[node.index()].store(true, Ordering::Release);
    }

    fn shadow(&self, body: impl FnOnce(&mut Shadow)) {
        body(&mut self.shadow.lock().unwrap());
    }

    fn misused(&self, misuse: Misuse) {
        self.misuses.lock().unwrap().push(misuse);
    }

    fn reschedule(&self) {
        self.assert_may_sleep();
        self.poll();
        self.reach(Moment::Reschedule);
    }

    fn work(&self, work: Work, _: u32) {
        self.reach(Moment::Work(work));
    }

    fn observe(&self, event: Event) {
        match event {
            Event::FrameAllocated(frame) => {
                let content = self.content(frame);
                self.check(!content.left.load(Ordering::Acquire), "handed out while it owes", frame);
                let was = content.allocated.swap(true, Ordering::AcqRel);
                self.check(!was, "handed out twice", frame);
            }
            Event::FrameFreed(frame) => {
                let content = self.content(frame);
                let was = content.allocated.swap(false, Ordering::AcqRel);
                self.check(was, "freed twice", frame);
                content.left.store(false, Ordering::Release);
                self.out_of_reach(content);
            }
            Event::Left { frame, block } => {
                self.content(frame).left.store(true, Ordering::Release);
                if let Some(block) = block {
                    self.left.lock().unwrap().entry(block).or_default().push(frame);
                }
            }
            Event::Settled { store, first, last } => {
                let mut all = self.left.lock().unwrap();
                let [first, last] = [first, last].map(|index| Block { store, index });
                let found: Vec<Block> = all.range(first..=last).map(|(block, _)| *block).collect();
                let left: Vec<_> = found.iter().filter_map(|block| all.remove(block)).collect();
                drop(all);
                for frame in left.into_iter().flatten() {
                    let content = self.content(frame);
                    if content.left.load(Ordering::Acquire) {
                        content.superseded.store(self.next(), Ordering::Release);
                    }
                }
            }
            Event::TableFreed(frame) => {
                self.tables_freed.fetch_add(1, Ordering::Relaxed);
                let table = self.table(frame);
                let root = self.roots.lock().unwrap().remove(&ptr::from_ref(table).addr());
                // A mark may be left.
                let stands = |entry: &Entry| entry.maps() || entry.is_moving() || entry.slot().is_some();
                let left = (0..ENTRIES).map(|index| table.get(index)).filter(stands);
                let kernel = root.then_some(KERNEL);
                self.check(
                    left.eq(kernel),
                    "a table is freed with entries in it, or a root without the kernel",
                    frame,
                );
            }
            Event::Installed { frame, .. } => {
                let allocated = self.content(frame).allocated.load(Ordering::Acquire);
                self.check(allocated, "a free frame is mapped", frame);
            }
            Event::WriteOut(frame) => {
                self.content(frame).written.store(self.next(), Ordering::Release);
            }
            Event::Superseded(frame) => {
                self.content(frame).superseded.store(self.next(), Ordering::Release);
            }
            Event::Returned { space, start, end, allowed } if self.by_hand => {
                self.check_promise(frame_of(space.root()), (start, end), allowed);
                self.returned.lock().unwrap().push((start, end, allowed));
            }
            Event::Withdrawn { address, size, .. } if self.by_hand => {
                self.withdrawn.lock().unwrap().push((address, size));
            }
            Event::HoleFilled { .. }
            | Event::Withdrawn { .. }
            | Event::Atomic { .. }
            | Event::Returned { .. }
            | Event::Cleaned { .. } => {}
        }
    }
}
