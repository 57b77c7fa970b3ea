//! Accesses of programs, of the kernel to its ranges, and of devices: by an entry, or by a walk that fills one.

use super::frame::Allocation;
use super::tlb::{Invalidation, Tag};
use super::walks::Walk;
use super::Hardware;

impl Hardware {
    /// An access of the program that runs here, or of the kernel to its ranges. Returns the frame; `None` if it faults.
    pub(crate) fn access(&self, kernel: bool, page: u64, store: bool) -> Option<u32> {
        self.step();
        let thread = self.me();
        let core = self.core();
        let (root, allocation, tag) = if kernel {
            self.kernel_root.get().map(|(root, allocation)| (root, allocation, Tag::Global))?
        } else {
            core.root.get()?
        };
        let entry = 'access: loop {
            let hit = core.tlb.borrow().find(tag, page);
            if let Some(entry) = hit.filter(|entry| !store || entry.writable && entry.dirty) {
                break entry;
            }
            core.tlb.borrow_mut().drop_page(tag, page);
            let walking = self.begin_walk(&core.tlb.borrow(), tag, (root, allocation), page);
            let mut walk = Walk::On(walking);
            let leaf = loop {
                match walk {
                    Walk::Nothing => break None,
                    Walk::Leaf(walking, pte) => break Some((walking, pte)),
                    Walk::On(walking) => {
                        core.tlb.borrow_mut().asked = Some(walking);
                        self.pause();
                        let mut tlb = core.tlb.borrow_mut();
                        // An invalidation may have ended it.
                        let Some(walking) = tlb.asked.take() else { continue 'access };
                        walk = self.walk_on(thread, &mut tlb, walking);
                    }
                }
            };
            let Some((walking, pte)) = leaf else {
                self.note(|| format!("fault at page {page}"));
                return None;
            };
            if store && !pte.writable {
                self.note(|| format!("fault at page {page}"));
                return None;
            }
            if store && !pte.dirty {
                self.pause();
            }
            let Some((walking, pte)) = self.mark(thread, walking, pte, store) else { continue };
            let entry = walking.fills(self.paging.shape(), &pte);
            self.fill(thread, &mut core.tlb.borrow_mut(), entry);
            break entry;
        };
        // It is translated, and lands a moment later.
        core.in_flight.set(Some(entry));
        self.pause();
        core.in_flight.set(None);
        self.touch(&entry, store);
        let what = if store { "store" } else { "load" };
        self.note(|| format!("{what} page {page} in frame {}", entry.frame));
        self.judge(thread, &entry, root, store);
        Some(entry.frame + (page - entry.page) as u32)
    }

    pub(super) fn device_root(&self, thread: usize) -> Option<(u32, Allocation)> {
        self.devices[thread - self.cores.len()].root.get()
    }

    /// An access of a device, to a space or to the kernel's ranges.
    pub(crate) fn device_access(&self, kernel: bool, page: u64, store: bool) -> Option<u32> {
        self.pause();
        let thread = self.me();
        let device = &self.devices[thread - self.cores.len()];
        let tlb = &device.tlb;
        let (root, tag) = if kernel {
            (self.kernel_root.get()?, Tag::Global)
        } else {
            (self.device_root(thread)?, Tag::Asid(0))
        };
        let hit = tlb.borrow().find(tag, page);
        let entry = if let Some(entry) = hit.filter(|entry| !store || entry.writable) {
            entry
        } else {
            let mut tlb = tlb.borrow_mut();
            tlb.drop_page(tag, page);
            let mut walk = Walk::On(self.begin_walk(&tlb, tag, root, page));
            loop {
                match walk {
                    Walk::Nothing => return None,
                    Walk::On(walking) => walk = self.walk_on(thread, &mut tlb, walking),
                    Walk::Leaf(walking, pte) => {
                        if store && !pte.writable {
                            return None;
                        }
                        let entry = walking.fills(self.paging.shape(), &pte);
                        self.fill(thread, &mut tlb, entry);
                        break entry;
                    }
                }
            }
        };
        device.in_flight.set(Some(entry));
        self.pause();
        device.in_flight.set(None);
        self.note(|| {
            format!("{} page {page} in frame {}", if store { "store" } else { "load" }, entry.frame)
        });
        self.touch(&entry, store);
        self.judge(thread, &entry, root.0, store);
        Some(entry.frame)
    }

    /// The device starts to walk from this root. It sees all that is published.
    pub(crate) fn start_device(&self, root: (u32, Allocation)) {
        let device = &self.devices[0];
        device.floor.borrow_mut().join(&self.view());
        device.floor.borrow_mut().join(&self.views.borrow().published());
        device.root.set(Some(root));
        self.pause();
    }

    /// The device stops, and its TLB holds no entry of a program.
    pub(crate) fn stop_device(&self) {
        let device = &self.devices[0];
        device.root.set(None);
        let before = self.tick();
        let flush = ceasefire::Flush::ALL;
        let all = Invalidation { tag: None, flush, before, drains: true };
        device.tlb.borrow_mut().forget(self.paging.shape(), all);
        while device.in_flight.get().is_some() {
            self.yield_here();
        }
        self.know_idle(self.cores.len());
        self.pause();
    }
}
