//! Starting threads and processes, and waiting.

use ceasefire_kernel_abi::{CREW, STACK_PAGES};

use crate::call;
use crate::memory::Mapping;

/// How many times [`wait_until`] looks before it lets other threads run.
const LOOKS: u32 = 256;

/// Threads and processes that were started and must be waited for.
#[derive(Debug)]
pub(crate) struct Crew {
    numbers: [u64; CREW],
    count: usize,
}

impl Crew {
    pub(crate) const fn new() -> Self {
        Self { numbers: [0; CREW], count: 0 }
    }

    /// Starts a thread.
    pub(crate) fn thread(&mut self, entry: extern "C" fn(u64) -> !, argument: u64, cpu: u64) {
        let stack = Mapping::anonymous(STACK_PAGES).expect("no stack for a thread");
        // The thread ends with the process at the latest, and the stack lives that long.
        self.add(call::thread(entry, argument, cpu, stack.end()).expect("no thread"));
    }

    /// Starts a process.
    pub(crate) fn process(&mut self, entry: extern "C" fn(u64) -> !, argument: u64, cpu: u64) {
        self.add(call::spawn(entry, argument, cpu).expect("no process"));
    }

    fn add(&mut self, number: u64) {
        assert!(self.count < CREW, "more than {CREW} threads or processes");
        self.numbers[self.count] = number;
        self.count += 1;
    }

    /// Waits for all of them.
    pub(crate) fn wait(self) {
        for &number in &self.numbers[..self.count] {
            let code = call::wait(number).expect("the thread or process to wait for is unknown");
            assert_eq!(code, 0, "thread or process {number} failed");
        }
    }
}

/// Waits for another thread to make `condition` true.
pub(crate) fn wait_until(mut condition: impl FnMut() -> bool) {
    loop {
        for _ in 0..LOOKS {
            if condition() {
                return;
            }
            core::hint::spin_loop();
        }
        call::give_way();
    }
}

/// Packs two numbers of 32 bits into one argument.
pub(crate) const fn pack(high: u64, low: u64) -> u64 {
    assert!(high >> 32 == 0 && low >> 32 == 0);
    high << 32 | low
}

/// Unpacks the numbers of [`pack`].
pub(crate) const fn unpack(argument: u64) -> (u64, u64) {
    (argument >> 32, argument & 0xffff_ffff)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unpacked_as_they_were_packed() {
        for pair in [(0, 0), (1, 2), (0xffff_ffff, 0), (7, 0xffff_ffff)] {
            assert_eq!(unpack(pack(pair.0, pair.1)), pair);
        }
    }
}
