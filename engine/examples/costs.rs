//! The cost of the engine's hot paths in instructions; `cargo xtask bench` counts them.
//!
//! `costs list` prints the cases, one a line: name, calls, operations per call, unit, bound. A case may also name
//! another case whose count is subtracted; the bound is then for the difference. `costs NAME` prepares the case and
//! calls its function that many times. Only instructions inside `case_NAME` are counted. The machine does nothing and
//! costs nothing, so the count is the engine's. An interrupt runs the handler of each target at once, so the count of a
//! flush includes the targets' part.

use std::cell::{Cell, OnceCell, RefCell};
use std::hint::black_box;
use std::sync::OnceLock;

use ceasefire::{
    AddressSpace, Asid, Batch, Bounds, Capabilities, Condition, Cpu, CpuId, CpuSet, Engine, Entry, Flush,
    Owed, PageSize, Payment, Platform, Root, Schedule, Stamp, Walkers, DEFAULT_AGE, MAX_CPUS,
};
use ceasefire_testing::TableLock;

/// The number of calls of each case's function.
const CALLS: usize = 64;
/// The number of operations in one call. There are enough that the call itself hardly counts.
const PER_CALL: usize = 32;

type Page = u64;
type Recorder = Batch<'static, Idle, Page, fn(Owed<Page>)>;

static CPUS: [Cpu<&'static AddressSpace>; MAX_CPUS] = [const { Cpu::new() }; MAX_CPUS];
static ENGINE: OnceLock<Engine<Idle>> = OnceLock::new();
static SPACE: OnceLock<AddressSpace> = OnceLock::new();
static OTHER: OnceLock<AddressSpace> = OnceLock::new();

const FIRST: CpuId = match CpuId::new(0) {
    Ok(cpu) => cpu,
    Err(_) => unreachable!(),
};

thread_local! {
    static THIS: Cell<CpuId> = const { Cell::new(FIRST) };
    static NOW: Cell<u64> = const { Cell::new(0) };
    static BATCH: OnceCell<RefCell<Recorder>> = const { OnceCell::new() };
}

/// A machine that does nothing, at no cost.
#[derive(Debug)]
struct Idle;

fn number(cpu: usize) -> CpuId {
    CpuId::new(cpu).expect("the cases' CPUs are in range")
}

/// The time between two ticks of a CPU, in nanoseconds.
const TICK: u64 = 4_000_000;

/// Advances the time by the length of an epoch of debts, without a tick on any CPU.
fn pass() {
    NOW.set(NOW.get() + TICK / 2);
}

/// Continues as another CPU.
fn go(cpu: usize) {
    THIS.set(number(cpu));
}

// SAFETY: one thread plays all CPUs in turn. `this_cpu` changes only while an interrupt is answered, outside
// `interrupts_off`, and changes back. `cpu` indexes an array.
unsafe impl Platform for Idle {
    type Space = &'static AddressSpace;
    type Saved = ();

    fn capabilities(&self) -> Capabilities {
        Capabilities { clean_stores_walk: true, asids: true, broadcast: None, walkers: Walkers::Locked }
    }

    fn this_cpu(&self) -> CpuId {
        THIS.get()
    }

    fn cpu(&self, cpu: CpuId) -> &Cpu<Self::Space> {
        &CPUS[cpu.index()]
    }

    fn save_interrupts(&self) {}

    fn restore_interrupts(&self, (): ()) {}

    fn interrupts_on(&self) -> bool {
        true
    }

    fn pin(&self) {}

    fn unpin(&self) {}

    fn load_root(&self, _: Root, _: Asid, _: bool) {}

    fn load_kernel_root(&self) {}

    fn invalidate(&self, _: Asid, _: Flush) {}

    fn invalidate_all(&self) {}

    fn interrupt(&self, targets: &CpuSet) {
        let sender = THIS.get();
        for target in targets.iter() {
            THIS.set(target);
            engine().handle_interrupt();
        }
        THIS.set(sender);
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        assert!(done(), "every target has answered when it was interrupted");
    }

    fn now(&self) -> u64 {
        NOW.get()
    }
}

fn engine() -> &'static Engine<Idle> {
    ENGINE.get_or_init(|| {
        let bounds = Bounds::new(DEFAULT_AGE, TICK, Payment::Free).expect("ticks keep the default");
        Engine::new(Idle).with_bounds(bounds)
    })
}

fn space() -> &'static AddressSpace {
    SPACE.get_or_init(|| engine().new_space(Root(1)))
}

fn other() -> &'static AddressSpace {
    OTHER.get_or_init(|| engine().new_space(Root(2)))
}

/// Makes `cpus` run the space. The last of them becomes the CPU that executes the code that follows.
fn run_on(cpus: impl IntoIterator<Item = usize>) {
    for cpu in cpus {
        go(cpu);
        drop(engine().switch_to(&space()));
    }
}

/// For cases that need no preparation.
fn go_on() {}

fn with_batch(schedule: Schedule, body: impl FnOnce(&mut Recorder)) {
    BATCH.with(|batch| {
        // A case has one schedule, and a process runs one case.
        let new = || RefCell::new(Batch::new(engine(), schedule, drop as fn(Owed<Page>)));
        body(&mut batch.get_or_init(new).borrow_mut());
    });
}

/// Records the translations of a page for each operation of a call. The space runs on another CPU.
fn record() {
    let lock = TableLock(space());
    with_batch(Schedule::Batched, |batch| {
        let mut unmapping = batch.take(0);
        for page in 0..PER_CALL as u64 {
            unmapping.clear(&lock, black_box(page << 12), PageSize::KIB_4, |_| Entry::READ_ONLY);
        }
    });
}

/// Records a call's pages and lets them go.
fn release_in_debt() {
    let lock = TableLock(space());
    with_batch(Schedule::Lazy, |batch| {
        for page in 0..PER_CALL as u64 {
            let mut unmapping = batch.take(page);
            unmapping.clear(&lock, black_box(page << 12), PageSize::KIB_4, |_| Entry::READ_ONLY);
            unmapping.release_in_debt(Condition::UNKEPT);
        }
    });
}

/// Unmaps a batch of pages and flushes it.
fn whole_batch() {
    let lock = TableLock(space());
    with_batch(Schedule::Batched, |batch| {
        for page in 0..PER_CALL as u64 {
            let mut unmapping = batch.take(page);
            unmapping.clear(&lock, black_box(page << 12), PageSize::KIB_4, |_| Entry::READ_ONLY);
            unmapping.hold();
        }
        batch.flush();
    });
}

/// Holds a call's pages.
fn hold() {
    with_batch(Schedule::Batched, |batch| {
        for page in 0..PER_CALL as u64 {
            batch.hold(black_box(page));
        }
    });
}

/// A batch that needs no first-time work and has nothing recorded.
fn settled(schedule: Schedule) {
    with_batch(schedule, Batch::flush);
}

/// Makes the CPUs that run the space owe a page of it.
fn owe() {
    with_batch(Schedule::Lazy, |batch| {
        let mut unmapping = batch.take(0);
        unmapping.clear(&TableLock(space()), 0, PageSize::KIB_4, |_| Entry::READ_ONLY);
        unmapping.release_in_debt(Condition::UNKEPT);
        batch.flush();
    });
    assert!(engine().owes(space()), "another CPU runs the space");
}

/// Switches to one space and to another.
fn switch() {
    let (engine, space, other) = (engine(), space(), other());
    for _ in 0..PER_CALL / 2 {
        drop(engine.switch_to(&space));
        drop(engine.switch_to(&other));
    }
}

/// Switches to the space that is loaded. Inlined, since a call in the loop would count as much as the switch.
#[allow(clippy::inline_always)]
#[inline(always)]
fn switch_same() {
    let (engine, space) = (engine(), space());
    for _ in 0..PER_CALL {
        drop(engine.switch_to(&space));
    }
}

/// Ticks on the CPU that executes it.
fn tick() {
    let engine = engine();
    for _ in 0..PER_CALL {
        black_box(engine.tick());
    }
}

/// Ticks once on each of `PER_CALL` CPUs.
fn tick_each(first: usize) {
    let engine = engine();
    for cpu in first..first + PER_CALL {
        go(cpu);
        black_box(engine.tick());
    }
}

/// Takes frames that owe until `stamp`.
fn redeem(stamp: Stamp) {
    let engine = engine();
    for frame in 0..PER_CALL as u64 {
        let _ = black_box(engine.redeem(Owed::new(frame, black_box(stamp))));
    }
}

/// Flushes a page of the space wherever it runs.
fn flush() {
    let (engine, space) = (engine(), space());
    for page in 0..PER_CALL as u64 {
        engine.flush(space, Flush::page(black_box(page << 12), PageSize::KIB_4));
    }
}

macro_rules! cases {
    ($($(#[doc = $doc:literal])* $name:ident [$symbol:ident] $unit:literal, $bound:literal $(beside $baseline:ident)?,
        first $first:expr, each $each:expr, measured $measured:expr;)*) => {
        $(
            $(#[doc = $doc])*
            #[no_mangle]
            #[inline(never)]
            pub extern "C" fn $symbol() {
                // Otherwise two cases that differ only in their preparation would be merged into one function.
                black_box(stringify!($name));
                $measured
            }
        )*

        /// The list that `cargo xtask bench` reads.
        fn list() {
            $(
                print!("{}\t{CALLS}\t{PER_CALL}\t{}\t{}", stringify!($name), $unit, $bound);
                $(print!("\t{}", stringify!($baseline));)?
                println!();
            )*
        }

        /// Prepares a case and calls it. True if there is such a case.
        fn run(name: &str) -> bool {
            match name {
                $(stringify!($name) => {
                    $first;
                    for _ in 0..CALLS {
                        $each;
                        $symbol();
                    }
                })*
                _ => return false,
            }
            true
        }
    };
}

cases! {
    /// Recording an unmapped page of a space that runs on another of 64 CPUs.
    batch_record_64 [case_batch_record_64] "instructions/page", "60",
        first run_on([63]), each { go(0); settled(Schedule::Batched); }, measured record();
    /// The same among 8192 CPUs.
    batch_record_8192 [case_batch_record_8192] "instructions/page", "60",
        first run_on([8191]), each { go(0); settled(Schedule::Batched); }, measured record();
    /// Holding a page in a batch until its flush.
    batch_hold [case_batch_hold] "instructions/page", "-",
        first go_on(), each settled(Schedule::Batched), measured hold();
    /// A whole batch, from the first page to the flush that another CPU answers.
    batch_whole [case_batch_whole] "instructions/page", "105",
        first run_on([63]), each { go(0); settled(Schedule::Batched); }, measured whole_batch();
    /// Recording a page as above and letting it go before any flush.
    batch_release_64 [case_batch_release_64] "instructions/page", "150",
        first run_on([63]), each { go(0); settled(Schedule::Lazy); }, measured release_in_debt();
    /// The same among 8192 CPUs.
    batch_release_8192 [case_batch_release_8192] "instructions/page", "150",
        first run_on([8191]), each { go(0); settled(Schedule::Lazy); }, measured release_in_debt();
    /// Unmapping the same page without a batch: a flush on one other CPU.
    record_strict [case_record_strict] "instructions/page", "-",
        first run_on([63]), each go(0), measured flush();
    /// Switching to the space that is loaded.
    switch_same [case_switch_same] "instructions/switch", "25",
        first run_on([0]), each go_on(), measured switch_same();
    /// The same while the ledger is open and the space owes.
    switch_same_owing [case_switch_same_owing] "instructions/switch, more", "4" beside switch_same,
        first run_on([63, 0]), each owe(), measured switch_same();
    /// Switching between two spaces.
    switch_other [case_switch_other] "instructions/switch", "-",
        first run_on([63, 0]), each go_on(), measured switch();
    /// The same while the ledger is open and one of the spaces owes.
    switch_other_owing [case_switch_other_owing] "instructions/switch, more", "4" beside switch_other,
        first run_on([63, 0]), each owe(), measured switch();
    /// Taking a page-table lock in a space that owes nothing.
    settle_nothing_owed [case_settle_nothing_owed] "instructions/call", "-",
        first run_on([0]), each go_on(), measured {
            let (engine, space) = (engine(), space());
            for _ in 0..PER_CALL {
                drop(engine.settle(TableLock(black_box(space))));
            }
        };
    /// The same in a space that owed, and whose CPUs have settled the debt by themselves.
    settle_settled [case_settle_settled] "instructions/call", "-",
        first { run_on([63]); go(0); owe(); go(63); pass(); tick(); }, each go_on(), measured {
            let (engine, space) = (engine(), space());
            for _ in 0..PER_CALL {
                drop(engine.settle(TableLock(black_box(space))));
            }
        };
    /// A timer tick while nothing is owed, though every CPU's neighbour has owed.
    tick_nothing_owed_64 [case_tick_nothing_owed_64] "instructions/tick", "40",
        first { run_on(32..64); go(0); owe(); pass(); tick_each(32); }, each go_on(), measured tick();
    /// The same among 8192 CPUs.
    tick_nothing_owed_8192 [case_tick_nothing_owed_8192] "instructions/tick", "40",
        first { run_on(0..8192); go(0); owe(); pass(); (0..8192).step_by(PER_CALL).for_each(tick_each); },
        each go_on(), measured tick();
    /// A timer tick while only other CPUs owe.
    tick_others_owe_64 [case_tick_others_owe_64] "instructions/tick", "-",
        first { run_on(32..64); go(0); owe(); pass(); }, each go_on(), measured tick();
    /// The same among 8192 CPUs, of which all but one owe.
    tick_others_owe_8192 [case_tick_others_owe_8192] "instructions/tick", "-",
        first { run_on(1..8192); go(0); owe(); pass(); }, each go_on(), measured tick();
    /// A timer tick that settles its CPU's debts, with the flush. The last of them settles the debt.
    tick_owed_64 [case_tick_owed_64] "instructions/tick", "-",
        first run_on(32..64), each { go(0); pass(); owe(); pass(); }, measured tick_each(32);
    /// The same among 8192 CPUs.
    tick_owed_8192 [case_tick_owed_8192] "instructions/tick", "-",
        first run_on(8160..8192), each { go(0); pass(); owe(); pass(); }, measured tick_each(8160);
    /// Redeeming a frame whose debt is settled.
    redeem_settled [case_redeem_settled] "instructions/frame", "15",
        first { run_on([63]); }, each go_on(), measured redeem(Stamp::SETTLED);
    /// Redeeming a frame that is owed for.
    redeem_owing [case_redeem_owing] "instructions/frame", "15",
        first { run_on([63]); go(0); owe(); }, each go_on(), measured redeem(Stamp::stored(u64::MAX));
    /// A flush that reaches 8 neighbours of 64 CPUs.
    flush_8_of_64 [case_flush_8_of_64] "instructions/flush", "-",
        first run_on(48..57), each go_on(), measured flush();
    /// The same among 8192 CPUs.
    flush_8_of_8192 [case_flush_8_of_8192] "instructions/flush", "-",
        first run_on(8176..8185), each go_on(), measured flush();
    /// A flush that reaches 8 CPUs as far apart as 8192 CPUs can be.
    flush_8_spread_of_8192 [case_flush_8_spread_of_8192] "instructions/flush", "-",
        first run_on((0..9).map(|cpu| cpu * 1000)), each go_on(), measured flush();
}

fn main() -> std::process::ExitCode {
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "list" {
        list();
    } else if !run(&name) {
        eprintln!("costs: no case `{name}`; `costs list` names them");
        return std::process::ExitCode::from(2);
    }
    std::process::ExitCode::SUCCESS
}
