//! The readers: the threads that use a region while it changes.

use core::sync::atomic::{fence, Ordering::SeqCst};

use ceasefire_kernel_abi::Finding;

use super::board::Control;
use super::law::{Law, Stored};
use super::placement::OPERATOR;
use super::scenario::{Phase, Scenario};
use super::scenarios::SCENARIOS;
use super::site::Site;
use super::sizes::LARGE;
use super::state::State;
use crate::call::{self, Protection};
use crate::line::log;
use crate::machine::Machine;
use crate::thread::{unpack, wait_until};

/// Pages that a reader looks at before it lets other threads run: some hundred microseconds, as long as operations
/// take.
const BEFORE_YIELD: u64 = 1024;
/// The same for a reader that only loads, which is faster. The programs of other threads take its translations from the
/// CPU.
const LOADS_BEFORE_YIELD: u64 = 4 * BEFORE_YIELD;

/// A reader and the state of its checks.
struct Reader {
    scenario: &'static Scenario,
    site: Site,
    slot: usize,
    /// The number of this pass over the region.
    sequence: u64,
    /// The last store to its own word in each page.
    stored: [Stored; LARGE as usize],
    checks: u64,
}

/// The thread.
pub(super) extern "C" fn run(argument: u64) -> ! {
    let (number, slot) = unpack(argument);
    let (number, slot) = (number as usize, slot as usize);
    let control = Control::here();
    let board = control.board(number);
    wait_until(|| board.state() >= State::FIRST || board.over());
    let scenario = &SCENARIOS[number];
    let mut reader = Reader {
        scenario,
        site: Site::of(number, scenario.region, control, &Machine::ask()),
        slot,
        sequence: 0,
        stored: [Stored::NOTHING; LARGE as usize],
        checks: 0,
    };
    let stores = reader.scenario.phases.iter().any(|phase| phase.stores);
    let most = if stores { BEFORE_YIELD } else { LOADS_BEFORE_YIELD };
    let mut looked = 0;
    while !board.over() {
        reader.pass();
        looked += reader.site.pages;
        if looked >= most {
            looked = 0;
            call::give_way();
        }
    }
    call::exit(0)
}

impl Reader {
    /// Goes through the region once.
    fn pass(&mut self) {
        let board = self.site.board;
        let began = board.state();
        self.sequence += 1;
        let mut stored_all = true;
        for page in 0..self.site.pages {
            // While the region changes the reader uses it as before, so that entries stay in the TLB and accesses race
            // with the change.
            let state = board.state();
            let phase = self.scenario.phases[state.phase(self.scenario.phases.len())];
            stored_all &= self.use_page(page, phase, state);
            self.look_at_another(page, phase);
            if let Some(empty) = phase.empty {
                self.use_page(page, Phase { place: empty, ..Phase::GONE }, state);
            }
        }
        if stored_all {
            board.set_progress(self.slot, self.sequence);
        }
        if began.is_stable() && board.state() == began {
            board.pass(self.slot, began);
        }
        board.count_checks(core::mem::take(&mut self.checks));
    }

    /// Loads from its own word and stores to it, if stores are tried. Returns whether it could store. `before` is the
    /// state from before the load.
    fn use_page(&mut self, page: u64, phase: Phase, before: State) -> bool {
        let owner = self.site.owner(self.slot, page);
        let address = self.site.board.place(phase.place) + owner.offset();
        let found = self.scenario.region.try_load(address);
        let after = self.site.board.state();
        self.judge(address, phase.allowed != Protection::Nothing, found, (before, after));
        if let Some(found) = found {
            self.compare(page, address, found, (before, after));
        }
        if !phase.stores {
            return false;
        }
        let value = owner.mark(self.sequence);
        let stored = self.scenario.region.try_store(address, value);
        // A load may overtake an earlier store. Without the fence the state could be one from before the store.
        fence(SeqCst);
        let after = self.site.board.state();
        if stored {
            self.stored[page as usize] = Stored { value, from: before, to: after };
        }
        self.judge(address, phase.allowed == Protection::All, stored.then_some(value), (before, after));
        stored
    }

    /// Checks whether an access had the right outcome. That is known only if the state was the same all the time.
    fn judge(&mut self, address: u64, allowed: bool, found: Option<u64>, (before, after): (State, State)) {
        if before != after || !before.is_stable() {
            return;
        }
        self.checks += 1;
        match (allowed, found) {
            (true, None) => panic!(
                "stale/{}: no access to {address:#x} in state {}, which allows it",
                self.scenario.name,
                before.number()
            ),
            (false, Some(found)) => {
                self.report(Finding::Forbidden, "a forbidden access succeeded", address, 0, found);
            }
            _ => {}
        }
    }

    /// Checks whether its own word holds its last store.
    fn compare(&mut self, page: u64, address: u64, found: u64, (before, after): (State, State)) {
        self.checks += 1;
        let stored = &mut self.stored[page as usize];
        let expected = self.scenario.law.expected(*stored, before, after);
        if expected.allows(found) {
            // A word that has become zero stays zero.
            stored.value = found;
            return;
        }
        // An earlier store of its own: the last store went elsewhere. Any other value was never stored there, or is
        // gone.
        let earlier = self.site.owner(self.slot, page).sequence(found);
        let (finding, what) = if expected.value() != 0 && earlier.is_some() {
            (Finding::LostWrite, "its own store to a word is lost")
        } else {
            (Finding::StaleRead, "old or foreign contents in its own word")
        };
        self.report(finding, what, address, expected.value(), found);
    }

    /// Checks that a word of another slot belongs to it, and is not older than that slot's progress.
    fn look_at_another(&mut self, page: u64, phase: Phase) {
        let slots = self.site.readers + 1;
        // Where readers store nothing, only the operator's words can change.
        let slot = if phase.stores { (self.sequence + page) as usize % slots } else { OPERATOR };
        if slot == self.slot {
            return;
        }
        let owner = self.site.owner(slot, page);
        let address = self.site.board.place(phase.place) + owner.offset();
        let board = self.site.board;
        let floor = if slot == OPERATOR { board.version(page) } else { board.progress(slot) };
        let Some(found) = self.scenario.region.try_load(address) else { return };
        self.checks += 1;
        match owner.sequence(found) {
            None => self.report(Finding::StaleRead, "foreign contents in another's word", address, 0, found),
            Some(sequence) if self.scenario.law == Law::Kept && sequence < floor => {
                let expected = owner.mark(floor);
                self.report(Finding::StaleRead, "an old version of another's word", address, expected, found);
            }
            // From here on no reader may see an older version.
            Some(sequence) if slot == OPERATOR && sequence > floor => board.raise_version(page, sequence),
            Some(_) => {}
        }
    }

    fn report(&self, finding: Finding, what: &str, address: u64, expected: u64, found: u64) {
        if self.site.machine.unchecked {
            return;
        }
        let (name, slot, cpu) = (self.scenario.name, self.slot, call::cpu());
        let state = self.site.board.state().number();
        log(format_args!("stale/{name}: {what}: reader {slot} on CPU {cpu}, by now in state {state}"));
        call::report(finding, address, expected, found);
    }
}
