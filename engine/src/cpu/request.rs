//! The two ends of a shootdown: the request that a CPU sends, and the inbox in which it finds other CPUs' requests.
//!
//! A sender fills its own [`Request`] and posts its number to the [`Inbox`] of each target. A target takes all numbers
//! from its inbox, reads the requests, does its part and counts its answer in each. The sender waits until every answer
//! is counted. An inbox is closed while its CPU is offline.

use crate::cpu_set::{AtomicCpuSet, CpuId};
use crate::flush::{Extent, Flush, PageSize};
use crate::primitive::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use crate::space::{Generation, SpaceId};

/// The CPUs that have sent this CPU a request.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Inbox {
    /// An interrupt is on its way or being handled, so a further request needs none.
    interrupted: AtomicBool,
    /// The CPU is offline and reads no request that is posted from here on.
    closed: AtomicBool,
    from: AtomicCpuSet,
}

/// The result of posting a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Posted {
    /// The sender must interrupt the CPU.
    Interrupt,
    /// The CPU is about to read it.
    Expected,
    /// The CPU is offline. The sender took the request back and must count it as answered.
    Closed,
}

impl Inbox {
    /// The inbox of a CPU that has not come online yet.
    pub(crate) const fn new() -> Self {
        Self { interrupted: AtomicBool::new(false), closed: AtomicBool::new(true), from: AtomicCpuSet::new() }
    }

    /// The inbox of a CPU that is online.
    #[cfg(ceasefire_checked)]
    pub(crate) fn opened() -> Self {
        Self { closed: AtomicBool::new(false), ..Self::new() }
    }

    /// Posts a request.
    ///
    /// The sender joins the set, then reads whether the inbox is closed; [`Inbox::close`] is the other half. So either
    /// the CPU that goes offline finds the request, or the sender finds the inbox closed, or both. If both do, the one
    /// that removes the sender from the set answers the request. Without `looks` it takes every inbox for open.
    #[inline]
    pub(crate) fn post(&self, sender: CpuId, looks: bool) -> Posted {
        self.from.insert(sender);
        if looks && self.is_closed() {
            return if self.from.remove(sender) { Posted::Closed } else { Posted::Expected };
        }
        // Equivalent to Relaxed: it comes after the read of `closed`, and that after the insertion on every processor.
        if self.interrupted.swap(true, Ordering::SeqCst) {
            Posted::Expected
        } else {
            Posted::Interrupt
        }
    }

    /// Whether the CPU is offline.
    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Closes the inbox of a CPU that goes offline. The CPU must then [empty](Inbox::empty) the inbox once more. That
    /// call finds the requests that were posted before this store; senders of all others read the store in
    /// [`Inbox::post`].
    pub(crate) fn close(&self) {
        // Equivalent to Release: the store of `Inbox::empty`, which follows, is a full barrier.
        self.closed.store(true, Ordering::SeqCst);
    }

    /// Opens the inbox of a CPU that comes online. The CPU publishes a switch to a space only afterwards, so a flush
    /// that reads the switch reads an open inbox.
    ///
    /// A sender may have read an open inbox, and interrupted the CPU after it had gone. Hardware drops such an interrupt
    /// when it resets the CPU. So none counts as being on its way; otherwise no sender would ever interrupt again.
    pub(crate) fn open(&self) {
        // A sender that reads the inbox as open reads this too.
        self.interrupted.store(false, Ordering::Relaxed);
        self.closed.store(false, Ordering::SeqCst);
    }

    /// Takes all requests and passes the number of each sender to `answer`. The CPU itself calls it, once for each
    /// interrupt.
    pub(crate) fn empty(&self, answer: impl FnMut(CpuId)) {
        // First: a request that is posted after this interrupts again.
        self.interrupted.store(false, Ordering::SeqCst);
        self.from.drain(answer);
    }
}

/// The request that a CPU sends. There is one at a time: all answers come before the next request.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Request {
    /// The space whose entries are flushed. [`SpaceId::NONE`] brings the space that the target has loaded up to date,
    /// [`SpaceId::KERNEL`] stands for the kernel's ranges.
    space: AtomicU64,
    generation: AtomicU64,
    start: AtomicU64,
    /// 0 for everything.
    count: AtomicU32,
    /// The size's shift, and flags.
    kind: AtomicU32,
    /// The number of the request, and below it the number of outstanding answers.
    state: AtomicU64,
}

/// In [`Request::state`]: the bits for the number of answers, enough for [`MAX_CPUS`](crate::MAX_CPUS). 48 bits are
/// left for the request's number. A wait would mistake another request for its own only if it lasted for 2^48 requests.
const ANSWERS: u32 = 16;

/// In [`Request::kind`]: [`Flush::tables`](crate::Flush::tables).
const TABLES: u32 = 1 << 8;
/// In [`Request::kind`]: [`Flush::mixed`](crate::Flush::mixed).
const MIXED: u32 = 1 << 9;

/// A request as its target reads it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub(crate) space: SpaceId,
    pub(crate) generation: Generation,
    pub(crate) flush: Flush,
}

impl Asked {
    /// Everything, of the space that the target runs.
    pub(crate) const UP_TO_DATE: Self =
        Self { space: SpaceId::NONE, generation: Generation::NONE, flush: Flush::TRANSLATIONS };
}

impl Request {
    pub(crate) const fn new() -> Self {
        Self {
            space: AtomicU64::new(0),
            generation: AtomicU64::new(0),
            start: AtomicU64::new(0),
            count: AtomicU32::new(0),
            kind: AtomicU32::new(0),
            state: AtomicU64::new(0),
        }
    }

    /// Whether the last request was answered, so the next can be filled in. Acquires what the targets released: the next
    /// request's beginning carries it to a CPU that still waits for the last. A CPU sends with interrupts off and keeps
    /// them off until it has interrupted its targets. Otherwise an interrupt in between could start a flush, which
    /// would wait for answers to a request that no target has received.
    pub(crate) fn is_free(&self) -> bool {
        self.state.load(Ordering::Acquire) & ((1 << ANSWERS) - 1) == 0
    }

    /// Fills in a request that `targets` CPUs must answer, and returns its number. The request must be
    /// [free](Request::is_free). Relaxed stores suffice: posting to an inbox publishes them, and all targets of the
    /// last request have answered.
    pub(crate) fn begin(&self, asked: Asked, targets: u32) -> u64 {
        debug_assert!(self.is_free(), "a request was filled in while another was unanswered");
        self.space.store(asked.space.get(), Ordering::Relaxed);
        self.generation.store(asked.generation.get(), Ordering::Relaxed);
        let (start, count, size) = match asked.flush.extent {
            Extent::All => (0, 0, PageSize::KIB_4),
            Extent::Pages { start, count, size } => (start, count, size),
        };
        let tables = if asked.flush.tables { TABLES } else { 0 };
        let mixed = if asked.flush.mixed { MIXED } else { 0 };
        self.start.store(start, Ordering::Relaxed);
        self.count.store(count, Ordering::Relaxed);
        self.kind.store(size.shift() | tables | mixed, Ordering::Relaxed);
        let next = (self.state.load(Ordering::Relaxed) >> ANSWERS) + 1;
        self.state.store(next << ANSWERS | u64::from(targets), Ordering::Release);
        next << ANSWERS >> ANSWERS
    }

    /// Counts one target's answer. True if it was the last.
    pub(crate) fn answered_by_one(&self) -> bool {
        self.state.fetch_sub(1, Ordering::Release) & ((1 << ANSWERS) - 1) == 1
    }

    /// Whether every target of request `number` has answered: none is outstanding, or the next request has begun.
    /// Acquires what the targets released when they [answered](Request::answered_by_one). If the next request is read,
    /// it does so through that request's beginning.
    pub(crate) fn is_answered(&self, number: u64) -> bool {
        let state = self.state.load(Ordering::Acquire);
        state & ((1 << ANSWERS) - 1) == 0 || state >> ANSWERS != number
    }

    pub(crate) fn space(&self) -> SpaceId {
        SpaceId::new(self.space.load(Ordering::Relaxed))
    }

    pub(crate) fn generation(&self) -> Generation {
        Generation::from_raw(self.generation.load(Ordering::Relaxed))
    }

    pub(crate) fn read(&self) -> Asked {
        let kind = self.kind.load(Ordering::Relaxed);
        let count = self.count.load(Ordering::Relaxed);
        let extent = if count == 0 {
            Extent::All
        } else {
            let size = PageSize::stored(kind & (TABLES - 1));
            Extent::Pages { start: self.start.load(Ordering::Relaxed), count, size }
        };
        Asked {
            space: self.space(),
            generation: self.generation(),
            flush: Flush { extent, tables: kind & TABLES != 0, mixed: kind & MIXED != 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_reads_what_the_sender_asked_and_the_last_answer_is_known() {
        let request = Request::new();
        for at in 0..8_u32 {
            let is = |bit: u32| at >> bit & 1 != 0;
            let pages = Extent::Pages { start: 4096, count: 3, size: PageSize::KIB_4 };
            let flush =
                Flush { extent: if is(0) { pages } else { Extent::All }, tables: is(1), mixed: is(2) };
            let (space, generation) = (SpaceId::new(7), Generation::from_raw(9));
            let number = request.begin(Asked { space, generation, flush }, 2);
            let read = request.read();
            assert_eq!((read.space, read.generation, read.flush), (space, generation, flush));
            assert!(!request.answered_by_one() && !request.is_answered(number));
            assert!(request.answered_by_one() && request.is_answered(number) && request.is_free());
        }
    }

    #[test]
    fn an_interrupt_that_was_lost_while_the_cpu_was_offline_keeps_no_other_away() {
        let (inbox, sender) = (Inbox::new(), CpuId::new(1).expect("there are two"));
        inbox.close();
        inbox.empty(|_| ());
        // A sender that read an open inbox interrupts only now, and the hardware drops the interrupt.
        assert!(!inbox.interrupted.swap(true, Ordering::SeqCst));
        inbox.open();
        assert_eq!(inbox.post(sender, true), Posted::Interrupt);
    }
}
