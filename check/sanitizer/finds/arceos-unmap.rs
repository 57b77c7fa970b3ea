//! ArceOS: a task on one CPU loads from a page that a task on another CPU has unmapped. See `arceos-unmap.txt`.

#![no_std]
#![no_main]
extern crate axruntime;
use axhal::paging::MappingFlags;
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use memory_addr::{va_range, VirtAddr};

/// Even: the reader's turn.
static TURN: AtomicUsize = AtomicUsize::new(1);
static SEEN: AtomicUsize = AtomicUsize::new(0);
const ROUNDS: usize = 400;

fn place(size: usize, hint: usize) -> VirtAddr {
    let (base, len) = axhal::mem::kernel_aspace();
    let limit = va_range!(base..base + len);
    axmm::kernel_aspace().lock().find_free_area(VirtAddr::from(hint), size, limit).expect("no space")
}

fn reader(x: usize) {
    axtask::set_current_affinity(axtask::AxCpuMask::one_shot(1));
    let mut stale = 0;
    for round in 1..=ROUNDS {
        while TURN.load(SeqCst) != 2 * round {
            core::hint::spin_loop()
        }
        let seen = unsafe { (x as *const usize).read_volatile() };
        SEEN.store(seen, SeqCst);
        if seen != round {
            stale += 1;
            if stale <= 3 {
                axlog::ax_println!(
                    "CPU {}: round {round}: {seen:#x} instead of {round:#x}",
                    axhal::percpu::this_cpu_id()
                );
            }
        }
        TURN.store(2 * round + 1, SeqCst);
    }
    axlog::ax_println!("{stale} of {ROUNDS} loads were of a page that was unmapped");
}

#[no_mangle]
extern "C" fn main() {
    axtask::set_current_affinity(axtask::AxCpuMask::one_shot(0));
    let rw = MappingFlags::READ | MappingFlags::WRITE;
    let x = place(0x10000, usize::from(axhal::mem::kernel_aspace().0) + (1 << 36));
    let y = x + 0x8000;
    axlog::ax_println!("CPU {}: page at {x:?}", axhal::percpu::this_cpu_id());
    let task = axtask::spawn(move || reader(x.as_usize()));
    for round in 1..=ROUNDS {
        {
            let mut space = axmm::kernel_aspace().lock();
            space.map_alloc(x, 0x1000, rw, true).expect("map x");
        }
        unsafe { (x.as_usize() as *mut usize).write_volatile(round) };
        TURN.store(2 * round, SeqCst);
        while TURN.load(SeqCst) != 2 * round + 1 {
            axtask::yield_now()
        }
        let mut space = axmm::kernel_aspace().lock();
        space.unmap(x, 0x1000).expect("unmap x");
        if round > 1 {
            space.unmap(y, 0x1000).expect("unmap y");
        }
        // Somebody else gets the frame.
        space.map_alloc(y, 0x1000, rw, true).expect("map y");
        unsafe { (y.as_usize() as *mut usize).write_volatile(0xbad0000 + round) };
    }
    let _ = task.join();
    axlog::ax_println!("ENDED");
    axhal::power::system_off();
}
