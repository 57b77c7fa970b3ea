//! The cases of an architecture, one after the other.

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(target_arch = "riscv64", path = "riscv64.rs")]
mod arch;

use core::ptr::{with_exposed_provenance, with_exposed_provenance_mut};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A rule: its name, whether what was cached may be used still after its instructions, and what is done to a page.
struct Case {
    name: &'static str,
    finds: bool,
    run: fn(u64),
}

/// A page of the program that is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Page {
    Small,
    /// Of 2 MiB.
    Large,
    /// Small, and under every ASID.
    Global,
    /// Small, and one of 16 that may be cached as one, if the architecture has them. The last of them is used in its place.
    #[cfg(target_arch = "aarch64")]
    Joined,
}

impl Page {
    /// The pages that are mapped.
    fn count(self) -> u64 {
        match self {
            #[cfg(target_arch = "aarch64")]
            Self::Joined => 16,
            _ => 1,
        }
    }
}

/// A case of a page, by its instructions. It has code of its own, so that the sanitizer tells its find apart.
macro_rules! case {
    ($name:literal, $page:expr, $finds:literal, $flush:expr) => {
        $crate::guest::Case {
            name: $name,
            finds: $finds,
            run: |address| {
                $crate::guest::change(address, $page);
                let flush: fn(u64) = $flush;
                flush(address);
                $crate::guest::load(address);
            },
        }
    };
}
use case;

/// Where the pages are: one in each 2 MiB.
const PAGES: u64 = 1 << 39;

/// Two frames of 2 MiB.
const FRAMES: [u64; 2] = [arch::MEMORY + (32 << 20), arch::MEMORY + (34 << 20)];

#[repr(C, align(4096))]
struct Table([AtomicU64; 512]);

impl Table {
    const fn empty() -> Self {
        Self([const { AtomicU64::new(0) }; 512])
    }
}

/// The tables that are not used yet.
static TABLES: [Table; 48] = [const { Table::empty() }; 48];
static USED: AtomicUsize = AtomicUsize::new(0);

/// Uses a page, or the last of those that are mapped with it, and has its entry lead to another frame. Each case has this
/// code once more, so that its stores are told apart from those of the others.
#[inline(always)]
#[allow(clippy::inline_always)]
fn change(address: u64, page: Page) {
    let count = page.count();
    for offset in (0..count).map(|number| number << 12) {
        map(address + offset, FRAMES[0] + offset, page);
    }
    arch::publish();
    load(address + ((count - 1) << 12));
    for offset in (0..count).map(|number| number << 12) {
        map(address + offset, FRAMES[1] + offset, page);
    }
    arch::publish();
}

/// Maps a page.
#[inline(always)]
#[allow(clippy::inline_always)]
fn map(address: u64, frame: u64, page: Page) {
    let last = u32::from(page == Page::Large);
    let mut table = arch::root();
    for level in (last..4_u32).rev() {
        let entry = &table.0[(address >> (12 + 9 * level) & 0x1ff) as usize];
        if level == last {
            entry.store(arch::page(frame, page), Ordering::Release);
            return;
        }
        if entry.load(Ordering::Relaxed) == 0 {
            let next = &TABLES[USED.fetch_add(1, Ordering::Relaxed)];
            entry.store(arch::table(core::ptr::from_ref(next) as u64), Ordering::Release);
        }
        let next = arch::table_of(entry.load(Ordering::Relaxed));
        // SAFETY: the entry leads to one of `TABLES`, or to one that `arch` has, and all memory is mapped as it is.
        table = unsafe { &*with_exposed_provenance(next as usize) };
    }
}

#[inline(always)]
#[allow(clippy::inline_always)]
fn load(address: u64) -> u64 {
    // SAFETY: the page is mapped to memory that nobody else uses.
    unsafe { with_exposed_provenance::<u64>(address as usize).read_volatile() }
}

fn say(text: &str) {
    text.bytes().for_each(arch::send);
}

fn number(number: u64) {
    for digit in (0..16).rev() {
        arch::send(b"0123456789abcdef"[(number >> (4 * digit) & 0xf) as usize]);
    }
}

/// Where `arch` goes on once addresses are translated.
#[no_mangle]
extern "C" fn run() -> ! {
    // By these the plugin finds the memory.
    for word in 1..4096_u64 {
        let place = with_exposed_provenance_mut::<u64>((FRAMES[0] + 8 * word) as usize);
        // SAFETY: nobody else uses that memory.
        unsafe { place.write_volatile(0x5eed << 32 | word) };
    }
    for (index, case) in arch::CASES.iter().enumerate() {
        let address = PAGES + ((index as u64) << 21);
        let is_there = arch::has(case.name);
        if is_there {
            (case.run)(address);
        }
        say(match (is_there, case.finds) {
            (false, _) => "lack ",
            (true, true) => "find ",
            (true, false) => "none ",
        });
        number(address);
        say(" ");
        say(case.name);
        say("\n");
    }
    say("done\n");
    arch::end()
}

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    say("panic\n");
    arch::end()
}
