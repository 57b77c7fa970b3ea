//! A CPU of ostd, as the scenarios see it.

use alloc::{sync::Arc, vec::Vec};
use core::ops::Range;

use ceasefire_conformance::{Away, Cpu, Failed, PAGES};
use ostd::kernel_range::KernelRange;
use ostd::mm::io::util::HasVmReaderWriter;
use ostd::mm::tlb::TlbFlushOp;
use ostd::mm::vm_space::VmQueriedItem;
use ostd::mm::{
    CachePolicy, Frame, FrameAllocOptions, PAGE_SIZE, PageFlags, PageProperty, UFrame, Vaddr, VmReader,
    VmSpace,
};
use ostd::task::{Task, disable_preempt, halt_cpu};

/// The address of the first page, at which a page table of the lowest level begins.
const BASE: Vaddr = 0x1000_0000;
/// Free frames that are used at a time.
const REUSED: usize = 256;

/// The space of all pages, and another one.
static SPACES: spin::Once<[Arc<VmSpace>; 2]> = spin::Once::new();
/// The range of kernel addresses.
static RANGE: spin::Mutex<Option<KernelRange>> = spin::Mutex::new(None);

/// A CPU, for the task on it.
#[derive(Debug)]
pub(crate) struct Here {
    number: usize,
    space: Arc<VmSpace>,
    other: Arc<VmSpace>,
}

impl Here {
    /// The CPU that the caller runs on. It runs the space from now on.
    pub(crate) fn new(number: usize) -> Self {
        let [space, other] = SPACES.call_once(|| [0; 2].map(|_| Arc::new(VmSpace::new()))).clone();
        space.activate();
        Self { number, space, other }
    }

    /// Unmaps a range, as `munmap` of one mapping does.
    #[cfg(not(feature = "ceasefire"))]
    fn unmap_all(&self, ranges: &[Range<usize>]) {
        for range in ranges {
            let guard = disable_preempt();
            // A cursor over whole tables can take them out.
            let mut cursor = self.space.cursor_mut(&guard, &(place(0)..place(PAGES))).expect("the region");
            cursor.jump(place(range.start)).expect("a page");
            cursor.unmap(range.len() * PAGE_SIZE);
            cursor.flusher().sync_tlb_flush();
        }
    }

    /// Unmaps ranges in one round.
    #[cfg(feature = "ceasefire")]
    fn unmap_all(&self, ranges: &[Range<usize>]) {
        let guard = disable_preempt();
        let mut all = self.space.flusher();
        for range in ranges {
            let mut cursor = self.space.cursor_mut(&guard, &(place(0)..place(PAGES))).expect("the region");
            cursor.jump(place(range.start)).expect("a page");
            cursor.flusher().defer();
            cursor.unmap(range.len() * PAGE_SIZE);
            cursor.flusher().hand_over(&mut all);
        }
        all.dispatch_tlb_flush();
        all.sync_tlb_flush();
    }

    fn place(&self, page: usize, frame: UFrame) {
        let guard = disable_preempt();
        let range = place(page)..place(page + 1);
        let mut cursor = self.space.cursor_mut(&guard, &range).expect("a page");
        cursor.map(frame, PageProperty::new_user(PageFlags::RW, CachePolicy::Writeback));
    }
}

const fn place(page: usize) -> Vaddr {
    BASE + page * PAGE_SIZE
}

/// Fresh frames, full of a word.
fn frames(count: usize, word: u64) -> Result<Vec<Frame<()>>, Failed> {
    let mut bytes = [0; PAGE_SIZE];
    bytes.chunks_exact_mut(8).for_each(|place| place.copy_from_slice(&word.to_le_bytes()));
    let one = |_| {
        let frame = FrameAllocOptions::new().zeroed(false).alloc_frame().map_err(|_| Failed::NoMemory)?;
        frame.writer().write(&mut VmReader::from(&bytes[..]));
        Ok(frame)
    };
    (0..count).map(one).collect()
}

/// A fresh frame, full of a word.
fn frame(word: u64) -> Result<Frame<()>, Failed> {
    Ok(frames(1, word)?.remove(0))
}

impl Cpu for Here {
    fn number(&self) -> usize {
        self.number
    }

    fn pause(&self) {
        Task::yield_now();
    }

    fn map(&self, page: usize, word: u64) -> Result<(), Failed> {
        self.place(page, frame(word)?.into());
        Ok(())
    }

    fn unmap(&self, ranges: &[Range<usize>]) -> Result<(), Failed> {
        self.unmap_all(ranges);
        Ok(())
    }

    fn protect(&self, page: usize) -> Result<(), Failed> {
        let guard = disable_preempt();
        let mut cursor = self.space.cursor_mut(&guard, &(place(page)..place(page + 1))).expect("a page");
        cursor.protect_next(PAGE_SIZE, |flags, _| *flags = PageFlags::R).expect("a page that is mapped");
        cursor.flusher().issue_tlb_flush(TlbFlushOp::for_single(place(page)));
        cursor.flusher().dispatch_tlb_flush();
        cursor.flusher().sync_tlb_flush();
        Ok(())
    }

    fn load(&self, page: usize) -> Option<u64> {
        self.space.reader(place(page), 8).expect("a page").read_val().ok()
    }

    fn store(&self, page: usize, word: u64) -> bool {
        self.space.writer(place(page), 8).expect("a page").write_val(&word).is_ok()
    }

    fn reuse(&self, word: u64) -> Result<(), Failed> {
        frames(REUSED, word).map(drop)
    }

    fn away(&self, to: Away, until: &dyn Fn() -> bool) {
        match to {
            // ostd's idle CPUs keep the space that they have.
            Away::Idle => loop {
                halt_cpu();
                if until() {
                    return;
                }
            },
            Away::OtherSpace => {
                self.other.activate();
                while !until() {
                    self.pause();
                }
                self.space.activate();
            }
        }
    }

    /// As published, ostd has no other way than for programs.
    fn evict(&self, page: usize) -> Result<(), Failed> {
        #[cfg(not(feature = "ceasefire"))]
        self.unmap_all(core::slice::from_ref(&(page..page + 1)));
        #[cfg(feature = "ceasefire")]
        {
            let guard = disable_preempt();
            let mut cursor = self.space.cursor_mut(&guard, &(place(page)..place(page + 1))).expect("a page");
            cursor.evict(PAGE_SIZE);
        }
        Ok(())
    }

    fn with_interrupts_off(&self, act: &mut dyn FnMut()) {
        let _off = ostd::irq::disable_local();
        act();
    }

    fn remap(&self, from: usize, to: usize) -> Result<(), Failed> {
        let frame: UFrame = {
            let guard = disable_preempt();
            let mut cursor = self.space.cursor(&guard, &(place(from)..place(from + 1))).expect("a page");
            let (_, item) = cursor.query().expect("a page");
            let Some(VmQueriedItem::MappedRam { frame, .. }) = item else {
                panic!("page {from} is not mapped")
            };
            (*frame).clone()
        };
        self.unmap_all(core::slice::from_ref(&(from..from + 1)));
        self.place(to, frame);
        Ok(())
    }

    fn map_kernel(&self, word: u64) -> Result<u64, Failed> {
        let range = KernelRange::new(frame(word)?);
        let start = range.start() as u64;
        *RANGE.lock() = Some(range);
        Ok(start)
    }

    fn unmap_kernel(&self, _: u64) -> Result<(), Failed> {
        let range = RANGE.lock().take();
        drop(range);
        Ok(())
    }

    fn load_kernel(&self, _: u64) -> Option<u64> {
        RANGE.lock().as_ref().map(KernelRange::load)
    }
}
