//! A system call, and a switch from one thread to another.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::getppid;
use rustix::thread::futex;

use super::computer::{pin, Computer};
use super::latency::joined;
use super::quartiles::{quartiles, timed, Effort, Quartiles};
use super::{Failed, Figure, Notes, Quantity};

/// System calls in a round.
const CALLS: u32 = 200;
/// Turns of each thread in a round.
const TURNS: u32 = 20;
/// The time of each measurement at most.
const TIME: Duration = Duration::from_secs(2);

pub(super) fn measure(computer: &Computer, rounds: usize, notes: &mut Notes) -> Result<(), Failed> {
    let effort = Effort { rounds, time: TIME };
    let call = system_call(effort).ok_or_else(|| Failed::new("system call", "no round was complete"))?;
    notes.figures.push(Figure { quantity: Quantity::SystemCall, spread: call });
    let Some(cpu) = computer.cpus().next() else {
        return Err(Failed::new("context switch", "the program may use no CPU"));
    };
    let spread = context_switch(cpu, call.median, effort)
        .map_err(|error| Failed::new("context switch", error))?
        .ok_or_else(|| Failed::new("context switch", "no round was complete"))?;
    notes.figures.push(Figure { quantity: Quantity::ContextSwitch, spread });
    Ok(())
}

/// The time of getppid, in nanoseconds: the median of the rounds.
fn system_call(effort: Effort) -> Option<Quartiles> {
    quartiles(effort, || {
        let time = timed(|| {
            for _ in 0..CALLS {
                std::hint::black_box(getppid());
            }
        });
        Some(time / f64::from(CALLS))
    })
}

/// Two threads of a CPU that wake each other.
#[derive(Default)]
struct Turns {
    /// The thread whose turn it is, 0 or 1.
    turn: AtomicU32,
    /// The system calls of both threads.
    calls: AtomicU64,
    stop: AtomicBool,
}

impl Turns {
    /// Gives the turn to the other thread.
    fn give(&self, me: u32) {
        self.turn.store(1 - me, Ordering::Release);
        self.calls.fetch_add(1, Ordering::Relaxed);
        // The word is there, so a wake-up cannot fail.
        let _ = futex::wake(&self.turn, futex::Flags::PRIVATE, 1);
    }

    /// Waits for the turn.
    fn wait(&self, me: u32) {
        while self.turn.load(Ordering::Acquire) != me {
            self.calls.fetch_add(1, Ordering::Relaxed);
            // It returns early if the turn has changed, and after a signal.
            let _ = futex::wait(&self.turn, futex::Flags::PRIVATE, 1 - me, None);
        }
    }
}

/// The time of a switch, in nanoseconds: the median of the rounds. In a round two threads of one CPU give each other
/// the turn. Each turn is a switch. The system calls that they made are subtracted.
fn context_switch(cpu: u32, call: f64, effort: Effort) -> io::Result<Option<Quartiles>> {
    let turns = Turns::default();
    let turns = &turns;
    thread::scope(|scope| {
        let other = scope.spawn(move || {
            let pinned = pin(cpu);
            loop {
                turns.wait(1);
                if turns.stop.load(Ordering::Relaxed) {
                    return pinned;
                }
                turns.give(1);
            }
        });
        let first = scope.spawn(move || {
            let pinned = pin(cpu);
            let mut round = || {
                let before = turns.calls.load(Ordering::Relaxed);
                let time = timed(|| {
                    for _ in 0..TURNS {
                        turns.give(0);
                        turns.wait(0);
                    }
                });
                let calls = turns.calls.load(Ordering::Relaxed) - before;
                Some((time - calls as f64 * call) / f64::from(2 * TURNS))
            };
            let spread = pinned.map(|()| quartiles(effort, &mut round));
            turns.stop.store(true, Ordering::Relaxed);
            turns.give(0);
            spread
        });
        let spread = joined(first)?;
        joined(other)?;
        Ok(spread)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_does_not_exist_is_refused() {
        assert!(context_switch(1023, 0.0, Effort { rounds: 1, time: Duration::ZERO }).is_err());
    }
}
