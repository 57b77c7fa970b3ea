//! Descriptor tables: segments, which only tell the kernel from programs, and the stacks that the processor changes to.

use core::cell::UnsafeCell;

use x86_64::instructions::segmentation::{Segment, CS, DS, ES, SS};
use x86_64::instructions::tables::load_tss;
use x86_64::registers::segmentation::{FS, GS};
use x86_64::structures::gdt::{Descriptor, GlobalDescriptorTable, SegmentSelector};
use x86_64::structures::tss::TaskStateSegment;
use x86_64::{PrivilegeLevel, VirtAddr};

/// Selectors of programs, with their privilege level, in the order in which [`Segments::load`] appends them.
pub(super) const USER_DATA: u64 = 3 << 3 | 3;
pub(super) const USER_CODE: u64 = 4 << 3 | 3;

/// The number of stacks for traps that may come at any instruction: NMI, double fault, machine check.
const ANYWHERE_STACKS: usize = 3;
const ANYWHERE_BYTES: usize = 8192;

#[repr(align(16))]
struct Stack([u8; ANYWHERE_BYTES]);

/// One CPU's descriptor tables.
pub(super) struct Segments(UnsafeCell<Tables>);

struct Tables {
    segments: GlobalDescriptorTable,
    task: TaskStateSegment,
    stacks: [Stack; ANYWHERE_STACKS],
}

// SAFETY: only its own CPU accesses it: while it starts, and with interrupts off when it changes threads.
unsafe impl Sync for Segments {}

impl Segments {
    #[allow(clippy::large_stack_arrays, reason = "it is made for a static, on no stack")]
    pub(super) const fn new() -> Self {
        Self(UnsafeCell::new(Tables {
            segments: GlobalDescriptorTable::new(),
            task: TaskStateSegment::new(),
            stacks: [const { Stack([0; ANYWHERE_BYTES]) }; ANYWHERE_STACKS],
        }))
    }

    /// Makes this CPU use these tables.
    ///
    /// # Safety
    /// Their own CPU must call it, once, before it takes any interrupt.
    pub(super) unsafe fn load(&'static self) {
        // SAFETY: the caller alone accesses them, and once. The parts lent to the processor below stay in a static.
        unsafe {
            let Tables { segments, task, stacks } = &mut *self.0.get();
            for (index, stack) in stacks.iter().enumerate() {
                task.interrupt_stack_table[index] =
                    VirtAddr::from_ptr(&raw const stack.0) + ANYWHERE_BYTES as u64;
            }
            let code = segments.append(Descriptor::kernel_code_segment());
            let data = segments.append(Descriptor::kernel_data_segment());
            let user_data = segments.append(Descriptor::user_data_segment());
            let user_code = segments.append(Descriptor::user_code_segment());
            debug_assert_eq!((u64::from(user_data.0), u64::from(user_code.0)), (USER_DATA, USER_CODE));
            let task = segments.append(Descriptor::tss_segment_unchecked(task));
            segments.load_unsafe();
            CS::set_reg(code);
            for set in [DS::set_reg, ES::set_reg, SS::set_reg] {
                set(data);
            }
            let none = SegmentSelector::new(0, PrivilegeLevel::Ring0);
            FS::set_reg(none);
            GS::set_reg(none);
            load_tss(task);
        }
    }

    /// Makes programs that trap on this CPU continue on the kernel stack that ends at `end`.
    ///
    /// # Safety
    /// The tables' own CPU must call it, with interrupts off. Nothing else may use that stack while the program runs.
    pub(super) unsafe fn set_kernel_stack(&self, end: u64) {
        // SAFETY: as the caller guarantees, nothing else accesses the field now. The processor reads it at the next
        // trap.
        unsafe { (*self.0.get()).task.privilege_stack_table[0] = VirtAddr::new(end) };
    }
}
