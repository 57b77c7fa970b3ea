//! The kernel's ranges: areas of kernel addresses in which system calls map pages, so that programs can test them.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use ceasefire_kernel_abi::{KERNEL_AREAS, KERNEL_AREA_PAGES};
use ceasefire_memory::{KernelArea, KernelMapError, KernelMapping, PAGE_BYTES};
use spin::Once;

use crate::arch::memory::AREAS;
use crate::arch::tlb;
use crate::failure::refuse;
use crate::lock::IrqLock;
use crate::manager::{memory, Kernel};

/// Things that lazy unmaps of an area keep back.
const MOST: usize = 256;
/// Addresses from one area to the next.
const APART: u64 = 1 << 30;
/// The first address of an area in its part: the area lies across two page-table pages.
const FIRST: u64 = (2 << 20) - 32 * PAGE_BYTES;

static RANGES: Once<Vec<KernelArea<'static, Kernel>>> = Once::new();
/// What is mapped, by address.
static MAPPINGS: IrqLock<BTreeMap<u64, KernelMapping>> = IrqLock::new(BTreeMap::new());

/// Makes the areas. Call it before the first space is made, whose root then leads to their tables.
pub(crate) fn start() {
    let area = |number| {
        let start = AREAS + number * APART + FIRST;
        KernelArea::new(memory(), tlb::kernel_root_frame(), start, KERNEL_AREA_PAGES, MOST)
    };
    let areas = (0..KERNEL_AREAS).map(area).collect::<Result<_, _>>();
    RANGES.call_once(|| areas.unwrap_or_else(|error| refuse(format_args!("kernel ranges: {error}"))));
}

fn areas() -> &'static [KernelArea<'static, Kernel>] {
    RANGES.get().map_or(&[], |areas| areas)
}

/// The area of that number.
pub(crate) fn area(number: u64) -> Option<&'static KernelArea<'static, Kernel>> {
    areas().get(usize::try_from(number).ok()?)
}

/// Whether a word lies in an area.
pub(crate) fn has_word(address: u64) -> bool {
    address.is_multiple_of(8) && areas().iter().any(|area| area.range().contains(&address))
}

/// Maps pages. Returns their address.
pub(crate) fn map(area: &KernelArea<'static, Kernel>, pages: u32) -> Result<u64, KernelMapError> {
    let mapping = area.map(pages)?;
    let start = mapping.start();
    MAPPINGS.lock().insert(start, mapping);
    Ok(start)
}

/// Unmaps what is mapped from `start` on. Returns whether anything was.
pub(crate) fn unmap(start: u64, lazily: bool) -> bool {
    let mapping = MAPPINGS.lock().remove(&start);
    let area = areas().iter().find(|area| area.range().contains(&start));
    let (Some(mapping), Some(area)) = (mapping, area) else { return false };
    if lazily {
        area.unmap_lazily(mapping);
    } else {
        area.unmap(mapping);
    }
    true
}
