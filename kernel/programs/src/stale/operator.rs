//! The operator: the thread that changes a region.

use ceasefire_kernel_abi::Error;

use super::board::{Board, Control};
use super::scenarios::SCENARIOS;
use super::site::Site;
use super::state::State;
use crate::call;
use crate::machine::Machine;
use crate::thread::{unpack, wait_until};

/// The thread.
pub(super) extern "C" fn run(argument: u64) -> ! {
    let (number, _) = unpack(argument);
    let scenario = &SCENARIOS[number as usize];
    let control = Control::here();
    let mut site = Site::new(number as usize, scenario.region, control, &Machine::ask());
    let board = site.board;
    let prepared = persist(scenario.name, board, || (scenario.prepare)(&mut site));
    if prepared {
        board.publish(site.files, site.places);
    }
    let mut state = State::NONE;
    while prepared && !board.over() {
        let next = state.settle();
        board.set_state(state.change());
        // Only the return may lie between the call and the new state. An old translation that a CPU still has must be
        // seen by a reader that knows it to be invalid.
        if !persist(scenario.name, board, || (scenario.step)(&site, next.phase(scenario.phases.len()))) {
            break;
        }
        board.set_state(next);
        state = next;
        site.round += 1;
        board.count_operation();
        wait_until(|| board.all_passed(site.readers, state) || board.over());
    }
    board.set_state(state.change());
    site.unmap_all();
    call::exit(0)
}

/// Repeats `act` until it succeeds or the scenario is over. Returns whether it succeeded. It may fail because other
/// scenarios use the memory.
pub(super) fn persist(name: &str, board: &Board, mut act: impl FnMut() -> Result<(), Error>) -> bool {
    loop {
        match act() {
            Ok(()) => return true,
            Err(Error::NoMemory | Error::TooMany | Error::Busy) if board.over() => return false,
            Err(Error::NoMemory | Error::TooMany | Error::Busy) => call::give_way(),
            Err(error) => panic!("stale/{name}: a call failed: {error:?}"),
        }
    }
}
