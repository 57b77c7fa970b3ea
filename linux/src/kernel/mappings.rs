//! The pages that processes have mapped now.
//!
//! Events tell which process maps a page from now on. Of the pages before, `/proc/PID/maps` has the areas and
//! `/proc/PID/pagemap` the frames, for root (Documentation/admin-guide/mm/pagemap.rst).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use crate::events::{Kind, PAGE_SHIFT};

/// The most pages of areas that are looked at: 16 GiB, whose entries are 32 MiB. A recording counts the others.
pub(crate) const MOST_PAGES: u64 = 1 << 22;

/// The entries that are read at once.
const ENTRIES: usize = 8192;

/// The bits of an entry: the page is in memory, and its frame.
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;

/// The pages that are mapped, and those that were not looked at.
#[derive(Debug, Default)]
pub(crate) struct Mappings {
    /// For each process, events of kind [`Kind::Mapped`].
    pub(crate) mapped: Vec<(u32, Kind)>,
    /// Pages of areas that were not looked at.
    pub(crate) skipped: u64,
}

/// An area of a process.
#[derive(Debug, PartialEq, Eq)]
struct Area {
    first: u64,
    pages: u64,
    stores: bool,
    /// 0 for anonymous memory.
    inode: u64,
    /// Of its first page, in the file.
    index: u64,
}

impl Mappings {
    /// Those of the running kernel: of files, and of anonymous memory if there is swap, since the kernel takes none of it
    /// back without. A process that ends meanwhile may be missing.
    pub(crate) fn of_kernel() -> Self {
        let mut found = Self::default();
        let has_swap = fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1);
        let mut left = MOST_PAGES;
        for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(process) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
                continue;
            };
            // A process that has gone, or is the kernel's, has none.
            let _ = found.add(process, &entry.path(), has_swap, &mut left);
        }
        found
    }

    fn add(&mut self, process: u32, folder: &Path, has_swap: bool, left: &mut u64) -> io::Result<()> {
        let areas = fs::read_to_string(folder.join("maps"))?;
        let pagemap = File::open(folder.join("pagemap"))?;
        let mut bytes = vec![0; ENTRIES * 8];
        for area in areas.lines().filter_map(Area::parse).filter(|area| has_swap || area.inode != 0) {
            if area.pages > *left {
                self.skipped = self.skipped.saturating_add(area.pages);
                continue;
            }
            *left -= area.pages;
            let mut at = 0;
            while at < area.pages {
                let count = (area.pages - at).min(ENTRIES as u64) as usize;
                let read = pagemap.read_at(&mut bytes[..count * 8], (area.first + at) * 8)?;
                let entries = bytes[..read].chunks_exact(8);
                let entries = entries.map(|entry| u64::from_ne_bytes(entry.try_into().unwrap_or_default()));
                for (place, entry) in (at..).zip(entries) {
                    // Without rights, every frame is 0.
                    if entry & PRESENT != 0 && entry & FRAME != 0 {
                        self.page(process, &area, place, entry & FRAME);
                    }
                }
                if read < 8 {
                    break;
                }
                at += read as u64 / 8;
            }
        }
        Ok(())
    }

    /// Adds a page of an area, to the stretch before if it continues it.
    fn page(&mut self, process: u32, area: &Area, place: u64, in_frame: u64) {
        // The number of an anonymous page only has to differ from others.
        let in_index = if area.inode == 0 { in_frame } else { area.index + place };
        if let Some((of, Kind::Mapped { frame, pages, inode, index, stores })) = self.mapped.last_mut() {
            let continues = *frame + *pages == in_frame && *index + *pages == in_index;
            if *of == process && *inode == area.inode && *stores == area.stores && continues {
                *pages += 1;
                return;
            }
        }
        let Area { inode, stores, .. } = *area;
        self.mapped
            .push((process, Kind::Mapped { frame: in_frame, pages: 1, inode, index: in_index, stores }));
    }
}

impl Area {
    /// A line of `/proc/PID/maps`: `first-end rights offset device inode path`.
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (first, end) = words.next()?.split_once('-')?;
        let number = |text| u64::from_str_radix(text, 16).ok();
        let (first, end) = (number(first)? >> PAGE_SHIFT, number(end)? >> PAGE_SHIFT);
        let rights = words.next()?.as_bytes();
        let index = number(words.next()?)? >> PAGE_SHIFT;
        let inode = words.nth(1)?.parse().ok()?;
        // A private page of a file that was stored to is a copy, which is not told apart.
        let stores = rights.get(1) == Some(&b'w');
        Some(Self { first, pages: end.checked_sub(first)?, stores, inode, index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_an_area() {
        let line = "7f5c4c16a000-7f5c4c36b000 rw-s 00003000 fe:01 1311 /a file";
        let area = Area { first: 0x7_f5c4_c16a, pages: 513, stores: true, inode: 1311, index: 3 };
        assert_eq!(Area::parse(line), Some(area));
        let heap = Area::parse("01c3d000-01c5e000 r--p 00000000 00:00 0          [heap]").expect("an area");
        assert_eq!((heap.stores, heap.inode), (false, 0));
        assert_eq!(Area::parse("ffffffffff600000-0 --xp 0 0 0"), None);
    }

    #[test]
    fn neighbouring_pages_in_neighbouring_frames_are_one_stretch() {
        let area = |inode| Area { first: 100, pages: 9, stores: false, inode, index: 40 };
        let mut found = Mappings::default();
        for (process, inode, place, frame) in
            [(1, 7, 0, 500), (1, 7, 1, 501), (1, 7, 3, 502), (2, 7, 4, 503), (2, 0, 0, 900), (2, 0, 7, 901)]
        {
            found.page(process, &area(inode), place, frame);
        }
        let told: Vec<_> = found
            .mapped
            .iter()
            .map(|(process, kind)| match *kind {
                Kind::Mapped { frame, pages, inode, index, .. } => (*process, frame, pages, inode, index),
                _ => panic!("{kind:?}"),
            })
            .collect();
        assert_eq!(told, [(1, 500, 2, 7, 40), (1, 502, 1, 7, 43), (2, 503, 1, 7, 44), (2, 900, 2, 0, 900)]);
    }
}
