//! Ranges of the kernel itself.

use ceasefire::{Flush, KernelGather, PageSize, Place};

use super::tables::{Pte, Table};
use super::{address, Kernel, Page, KERNEL_BASE};
use crate::hardware::tlb::Tag;
use crate::model::rule::Rule;

impl Kernel {
    /// Maps a frame in the kernel's ranges.
    pub(crate) fn map_kernel(&self, page: u64) -> u32 {
        let frame = self.allocate();
        let _lock = self.range_lock.take(self.hardware());
        self.install_kernel(page, frame);
        frame
    }

    /// Reads a frame through a window of the kernel, which the CPUs use in turn (Linux: `kmap_local_page`, with a window
    /// for each CPU).
    pub(crate) fn read_by_window(&self, window: u64, frame: u32) {
        self.doing(
            || format!("read frame {frame} by window {window}"),
            || {
                let _lock = self.range_lock.take(self.hardware());
                let map = || {
                    if self.peek_kernel(window).frame() != frame {
                        self.install_kernel(window, frame);
                    }
                };
                let page = Flush::page(KERNEL_BASE + address(window), PageSize::KIB_4);
                self.engine.window(page, map, || self.load_kernel(window));
            },
        );
    }

    /// The entry of a page of the kernel's ranges.
    fn peek_kernel(&self, page: u64) -> Pte {
        let root = self.hardware().kernel_root.get();
        let table = root.and_then(|(root, _)| self.find_table(root, page, 0));
        table.map_or(Pte::NONE, |table| self.tables.table(table).get(Table::index(page, 0)))
    }

    /// Stores a translation of the kernel's ranges under their lock.
    fn install_kernel(&self, page: u64, frame: u32) {
        let hardware = self.hardware();
        let root = hardware.kernel_root.get().unwrap_or_else(|| {
            let root = self.new_table();
            hardware.kernel_root.set(Some((root, hardware.allocation(root))));
            (root, hardware.allocation(root))
        });
        let table = self.make_table(root.0, page, 0);
        let mapping = self.tables.mapping(hardware, Tag::Global, page, frame);
        let mut mapped = self.range_mapped.borrow_mut();
        let list = mapped.entry(page).or_default();
        for &old in list.iter() {
            self.tables.end_mapping(self.hardware(), old, Rule::R7);
        }
        list.push(mapping);
        drop(mapped);
        hardware.note(|| format!("set kernel page {page} -> frame {frame}"));
        self.tables.table(table).set(Table::index(page, 0), Pte::page(frame, mapping, true));
    }

    /// Unmaps a page of the kernel's ranges and frees its frame; with its table, if that is asked for.
    pub(crate) fn unmap_kernel(&self, page: u64, with_table: bool) {
        self.doing(
            || format!("unmap kernel page {page}{}", if with_table { " and its table" } else { "" }),
            || {
                let hardware = self.hardware();
                let lock = self.range_lock.take(hardware);
                let Some((root, _)) = hardware.kernel_root.get() else { return };
                let Some(table) = self.find_table(root, page, 0) else { return };
                let mut places = [const { Place::EMPTY }; 2];
                let mut gather = KernelGather::new(&self.engine, &mut places, |page| self.free(page));
                let at = KERNEL_BASE + address(page);
                let old = gather.clear(at, PageSize::KIB_4, || {
                    self.tables.table(table).exchange(Table::index(page, 0), Pte::NONE)
                });
                hardware.note(|| format!("clear kernel page {page}"));
                if old.present() {
                    gather.hold(Page(old.frame()));
                }
                if with_table {
                    let above = self.find_table(root, page, 1).expect("there is a lowest one");
                    gather.unlink(at, PageSize::KIB_4, || {
                        self.tables.table(above).exchange(Table::index(page, 1), Pte::NONE).page_behind()
                    });
                }
                gather.finish();
                for mapping in self.range_mapped.borrow().get(&page).into_iter().flatten() {
                    self.tables.end_mapping(self.hardware(), *mapping, Rule::R3);
                }
                drop(lock);
            },
        );
    }
}
