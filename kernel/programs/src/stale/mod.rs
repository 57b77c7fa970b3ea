//! `stale`: looks for translations that are used after they became invalid, and for lost stores.
//!
//! Each *scenario* is one way to change translations while other CPUs use them. One thread, its **operator**, does so
//! again and again. Some threads on other CPUs, its **readers**, load from and store to the region all the time, so
//! that their TLBs hold its entries at the moment of a change. All scenarios run at the same time, most of them in one
//! process. Memory is short, so frames that one scenario gives up go to another and get other contents.
//!
//! The operator publishes the valid accesses in a [state word](state::State). It begins a change before the call, and
//! ends it when the call has returned. A reader that finds the same stable state before and after an access knows which
//! outcome is right (R3), and checks it at once:
//!
//! - A forbidden access must fail. One access that succeeds through an old entry is a finding.
//! - Each reader has a word of its own in each page, and knows its last store there. The word must hold that store
//!   ([`law`] says how the operations may change it). Otherwise the frame was another page's (R1), or the store went
//!   astray (R5).
//! - Each reader publishes its progress, and looks at the other readers' words. None may be older than its owner's
//!   progress before the load (R6). An operator that changes contents publishes that page by page. A version that one
//!   reader has seen must be visible to all others.
//! - Every word names its owner ([`mark`]), so a wrong frame is found with any contents.
//!
//! The regions of two scenarios are memory of the kernel ([`region`]), which readers access by system calls. One more
//! scenario takes CPUs offline while all others run.
//!
//! If the state changes during an access, the reader checks only conditions that hold at any time. So there are no
//! false alarms, however coarsely the CPUs share a host's processors, and no operation waits for readers between its
//! return and the new state. Between two operations the operator waits until each reader has gone through the whole
//! region once. Otherwise a scenario would change translations that no TLB holds.

mod board;
mod law;
mod mark;
mod operator;
mod placement;
mod reader;
mod region;
mod scenario;
mod scenarios;
mod site;
mod sizes;
mod state;
mod work;

use ceasefire_kernel_abi::{ANYWHERE, INCONCLUSIVE, LACKS};

use crate::call;
use crate::line::log;
use crate::machine::Machine;
use crate::thread::{pack, unpack, wait_until, Crew};

use board::{Board, Control};
use scenario::{Process, Scenario};
use scenarios::SCENARIOS;
use site::Site;
use work::Work;

const SECOND: u64 = 1_000_000_000;
/// Nanoseconds between two looks at the scenarios' work, after the seconds that the options ask for.
const LOOK: u64 = 100_000_000;
/// Nanoseconds from one scenario's start to the next one's. The first scenarios have the machine almost to themselves,
/// so faults of all scenarios show at once. With all scenarios running, a reader often loses its translations to other
/// threads before they are old. Scenarios that need old translations therefore come first.
const HEAD_START: u64 = 50_000_000;

/// The program. It ends after the seconds that the options ask for, and not before every scenario has done its least
/// work, unless the time limit comes first.
pub(crate) fn run(machine: &Machine) {
    let file = call::create_file(board::PAGES).expect("no file for the boards");
    let control = Control::map(file);
    call::measure_begin();
    let begin = call::now();
    let own = start(Process::Home, control, machine);
    let mut others = Crew::new();
    for process in Process::OTHERS {
        others.process(serve, pack(file, process as u64), ANYWHERE);
    }
    call::sleep((begin + machine.seconds * SECOND).saturating_sub(call::now()));
    while !end_all_with_enough(control, machine) && call::now() < begin + machine.limit * SECOND {
        call::sleep(LOOK);
    }
    possible(machine).for_each(|(number, _)| control.board(number).end());
    own.wait();
    others.wait();
    finish(control, machine);
}

/// Whether a scenario has done less than its least work.
fn lacks(board: &Board, scenario: &Scenario) -> bool {
    board.work().is_less_than(Work::least(scenario))
}

/// Ends the scenarios that have done their least work, which leaves the machine to the others. Returns whether all have.
fn end_all_with_enough(control: &'static Control, machine: &Machine) -> bool {
    let mut all = true;
    for (number, scenario) in possible(machine) {
        let board = control.board(number);
        if lacks(board, scenario) {
            all = false;
        } else {
            board.end();
        }
    }
    all
}

/// Another process.
extern "C" fn serve(argument: u64) -> ! {
    let (file, process) = unpack(argument);
    let process = Process::OTHERS.into_iter().find(|&other| other as u64 == process);
    let crew = start(process.expect("there is no such process"), Control::map(file), &Machine::ask());
    crew.wait();
    call::exit(0)
}

/// Starts a process's threads.
fn start(process: Process, control: &'static Control, machine: &Machine) -> Crew {
    call::recover();
    let mut crew = Crew::new();
    let readers = placement::readers(machine);
    // Where CPUs are few a sleeper wakes up late. The next start must not be late for that as well.
    let mut next = call::now();
    for (number, scenario) in possible(machine) {
        if process == Process::Guest {
            attach(number, control, machine);
        }
        // The operator comes last: by then all stacks are mapped.
        for slot in (0..=readers).rev().filter(|&slot| scenario.process_of(slot) == process) {
            let entry = if slot == placement::OPERATOR { operator::run } else { reader::run };
            crew.thread(entry, pack(number as u64, slot as u64), placement::cpu(number, slot, machine));
        }
        next += HEAD_START;
        call::sleep(next.saturating_sub(call::now()));
    }
    crew
}

/// Maps a scenario's region into this process too, if it has guests.
fn attach(number: usize, control: &'static Control, machine: &Machine) {
    let (scenario, board) = (&SCENARIOS[number], control.board(number));
    let Some(attach) = scenario.attach else { return };
    wait_until(|| board.prepared() || board.over());
    if board.prepared() {
        let site = Site::of(number, scenario.region, control, machine);
        operator::persist(scenario.name, board, || attach(&site));
    }
}

/// The scenarios that the options name and this machine can run, with their numbers.
fn possible(machine: &Machine) -> impl Iterator<Item = (usize, &'static Scenario)> + use<'_> {
    let all = SCENARIOS.iter().enumerate();
    all.filter(|&(number, scenario)| machine.runs_scenario(number) && (scenario.possible)(machine))
}

/// Logs the work of each scenario, and ends the process if one lacks some. All threads have ended.
fn finish(control: &'static Control, machine: &Machine) {
    call::measure_end(possible(machine).map(|(number, _)| control.board(number).work().operations).sum());
    for (number, scenario) in possible(machine) {
        let board = control.board(number);
        log(format_args!("stale/{}: {}", scenario.name, board.work()));
        for file in board.files().into_iter().flatten() {
            call::delete_file(file).expect("a file stays");
        }
    }
    let mut is_conclusive = true;
    for (number, scenario) in possible(machine) {
        let board = control.board(number);
        if lacks(board, scenario) {
            is_conclusive = false;
            let (name, done, least) = (scenario.name, board.work(), Work::least(scenario));
            log(format_args!("{LACKS}stale/{name} made {done}, and needs {least}"));
        }
    }
    if !is_conclusive {
        call::exit(INCONCLUSIVE);
    }
}
