//! Parts of the engine by themselves, between CPUs whose hardware does nothing: few accesses, and so many of their
//! orders in few schedules. The models for loom try all orders of the same parts.

use std::cell::Cell;

use ceasefire::cores::{self, Debts, Pool, Post};
use ceasefire::{AddressSpace, AtomicCpuSet, Cpu, CpuId, SpaceId, Stamp};
use ceasefire_atomics::{AtomicU64, Ordering};

/// The CPUs of these machines.
const CPUS: usize = 3;
/// The rounds of a scenario that begins with another set each time.
const ROUNDS: usize = 8;

/// One of each part.
#[derive(Debug)]
pub(crate) struct Cores {
    pub(crate) space: AddressSpace,
    /// A space that was born with an ASID.
    pub(crate) born: AddressSpace,
    pub(crate) debts: Debts,
    pub(crate) pool: Pool,
    pub(crate) cpus: [Cpu<()>; CPUS],
    /// The generation that each CPU has flushed.
    pub(crate) flushed: [AtomicU64; CPUS],
    /// What each sender stores before its request, and CPU 0 before its answer.
    changed: [AtomicU64; CPUS],
    done: [AtomicU64; CPUS],
    answers: [AtomicU64; CPUS],
    /// An interrupt is on its way to CPU 0. It carries the stores of the sender that began it.
    interrupt: AtomicU64,
    /// What each CPU found out, for the check at the end.
    pub(crate) found: [Cell<u64>; CPUS],
    /// A set for each round, which no CPU has joined yet, and how often CPUs came to the end of a round.
    pub(crate) sets: [AtomicCpuSet; ROUNDS],
    pub(crate) ended: Cell<usize>,
}

impl Default for Cores {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            space: cores::space(0, None),
            born: cores::space(1, Some(cores::asid(9))),
            debts: Debts::new(),
            pool: Pool::new(),
            cpus: std::array::from_fn(|_| cores::online()),
            flushed: zeros(),
            changed: zeros(),
            done: zeros(),
            answers: zeros(),
            interrupt: AtomicU64::new(0),
            found: Default::default(),
            sets: Default::default(),
            ended: Cell::new(0),
        }
    }
}

pub(crate) fn cpu(number: usize) -> CpuId {
    CpuId::new(number).expect("the engine has room for four CPUs")
}

impl Cores {
    // Lazy debts.

    /// A translation that CPUs hold is gone, and its page is released in debt.
    pub(crate) fn owe(&self, cpus: &[usize]) -> (u64, Stamp) {
        let generation = cores::raise(&self.space).get();
        (generation, self.debts.enter(&cpus.iter().map(|&number| cpu(number)).collect(), (0, 10)))
    }

    /// The same at a time at which the open epoch is too old, which closes it.
    pub(crate) fn owe_later(&self, cpus: &[usize], now: u64) {
        cores::raise(&self.space);
        self.debts.enter(&cpus.iter().map(|&number| cpu(number)).collect(), (now, 10));
    }

    /// The same for any CPU.
    pub(crate) fn owe_everywhere(&self) -> (u64, Stamp) {
        (cores::raise(&self.space).get(), self.debts.enter_everywhere((0, 10)))
    }

    pub(crate) fn flush(&self, me: usize) {
        self.flushed[me].store(self.space.generation().get(), Ordering::Relaxed);
    }

    /// A tick at which the open epoch is old enough to be closed.
    pub(crate) fn tick(&self, me: usize) {
        self.debts.close_after(1, 1);
        self.debts.sweep(cpu(me), || self.flush(me));
        self.debts.sweep_everywhere(|| (0..CPUS).for_each(|me| self.flush(me)));
        self.debts.advance();
    }

    /// Makes the hardware pay all debts of closed epochs.
    pub(crate) fn pay_everywhere(&self) {
        self.debts.close_after(1, 1);
        self.debts.settle_everywhere(|| (0..CPUS).for_each(|me| self.flush(me)));
        self.debts.advance();
    }

    /// The page of a debt is used again if its stamp is settled.
    pub(crate) fn redeem(&self, cpus: &[usize], (generation, stamp): (u64, Stamp), newest: bool) {
        let settled = if newest { stamp <= self.debts.settled() } else { self.debts.is_settled(stamp) };
        for &cpu in cpus.iter().filter(|_| settled) {
            let flushed = self.flushed[cpu].load(Ordering::Relaxed);
            assert!(flushed >= generation, "a stamp is settled, and CPU {cpu} that owed has not flushed");
        }
    }

    // Requests.

    /// A request to CPU 0. Returns its number.
    pub(crate) fn send(&self, me: usize) -> u64 {
        self.changed[me].fetch_add(1, Ordering::Relaxed);
        let number = cores::begin(&self.cpus[me], SpaceId::NONE, cores::generation(5), 1);
        match cores::post(&self.cpus[0], cpu(me), true) {
            Post::Interrupt => drop(self.interrupt.swap(1, Ordering::Release)),
            Post::Expected => {}
            Post::Closed => {
                self.done[me].fetch_add(1, Ordering::Relaxed);
                self.answers[me].fetch_add(1, Ordering::Relaxed);
                cores::answered_by_one(&self.cpus[me]);
            }
        }
        number
    }

    /// CPU 0 answers what is in its inbox.
    pub(crate) fn empty(&self) {
        cores::empty(&self.cpus[0], |sender| {
            let me = sender.index();
            let (space, asked, _) = cores::asked(&self.cpus[me]);
            let changed = self.changed[me].load(Ordering::Relaxed);
            assert_eq!(
                (space, asked),
                (SpaceId::NONE, cores::generation(5)),
                "a request is read before it is there"
            );
            assert_eq!(
                changed,
                self.answers(me) + 1,
                "CPU 0 answers and does not see what was stored before"
            );
            self.done[me].fetch_add(1, Ordering::Relaxed);
            self.answers[me].fetch_add(1, Ordering::Relaxed);
            cores::answered_by_one(&self.cpus[me]);
        });
    }

    /// CPU 0 handles an interrupt, if there is one.
    pub(crate) fn handle(&self) {
        if self.interrupt.swap(0, Ordering::Acquire) != 0 {
            self.empty();
        }
    }

    /// CPU 0 goes offline and comes back. The hardware drops an interrupt that is on its way.
    pub(crate) fn restart(&self) {
        cores::close(&self.cpus[0]);
        self.empty();
        self.interrupt.swap(0, Ordering::Acquire);
        cores::open(&self.cpus[0]);
    }

    /// Whether the request of a CPU with this number is answered. If so, its sender sees what was done for it.
    pub(crate) fn is_answered(&self, sender: usize, number: u64) -> bool {
        let answered = cores::is_answered(&self.cpus[sender], number);
        if answered {
            let done = self.done[sender].load(Ordering::Relaxed);
            assert!(done >= number, "request {number} is answered, and what was done for it is not seen");
        }
        answered
    }

    pub(crate) fn answers(&self, sender: usize) -> u64 {
        self.answers[sender].load(Ordering::Relaxed)
    }
}
