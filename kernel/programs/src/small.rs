//! Programs that show that the machine starts and that failures are reported.

use crate::call;
use crate::line::log;
use crate::machine::Machine;

/// `hello`: says where it runs.
pub(crate) fn hello(machine: &Machine) {
    call::measure_begin();
    log(format_args!("hello from CPU {} of {}, with {} frames", call::cpu(), machine.cpus, machine.frames));
    call::measure_end(1);
}

/// `panic`: the kernel panics because it runs this program, which waits for that.
pub(crate) fn panic() -> ! {
    loop {
        call::give_way();
    }
}

/// `fault`: loads from an unmapped address, which must end the run.
pub(crate) fn fault() {
    const NOWHERE: u64 = 0x10;
    let found = crate::arch::load(NOWHERE);
    panic!("a load from {NOWHERE:#x}, where nothing is mapped, found {found:#x}");
}

/// `hang`: sleeps for ever, on a machine without other work.
pub(crate) fn hang() -> ! {
    loop {
        call::sleep(u64::MAX);
    }
}
