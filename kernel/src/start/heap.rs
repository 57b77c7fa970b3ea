//! The kernel's heap: a fixed piece of memory, given at boot.

use talc::{ErrOnOom, Span, Talc, Talck};

use crate::arch::memory::direct;
use crate::lock::RawIrqLock;

#[global_allocator]
static HEAP: Talck<RawIrqLock, ErrOnOom> = Talck::new(Talc::new(ErrOnOom));

/// Makes this piece of physical memory the heap.
///
/// # Safety
/// Nothing else may use it.
pub(crate) unsafe fn give(start: u64, end: u64) {
    let span = Span::new(direct(start), direct(end));
    // SAFETY: the memory is the caller's to give, and mapped for good.
    if unsafe { HEAP.lock().claim(span) }.is_err() {
        crate::failure::refuse(format_args!("{} bytes are too few for the heap", end - start));
    }
}
