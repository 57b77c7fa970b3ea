//! Pages of the kernel's buffers on the way to a recording, in a file without a name.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::vec;

use crate::tracing::Pages;

/// The bytes that are written at once.
const CHUNK: usize = 1 << 20;

/// Pages in the order in which they came.
#[derive(Debug)]
pub(super) struct Spool {
    file: File,
    page_bytes: usize,
    /// Pages that are not in the file yet.
    pending: Vec<u8>,
    /// The pages of each stream, by their places in the file.
    pages: Vec<Vec<u32>>,
    count: u32,
}

impl Spool {
    /// An empty spool in a folder, for the pages of so many streams.
    pub(super) fn new(folder: &Path, streams: usize, page_bytes: usize) -> io::Result<Self> {
        let file = tempfile::tempfile_in(folder)?;
        Ok(Self {
            file,
            page_bytes,
            pending: Vec::with_capacity(CHUNK + page_bytes),
            pages: vec![Vec::new(); streams],
            count: 0,
        })
    }

    /// Adds a page of a stream, of which `read` fills the buffer and returns the number of bytes. Returns whether there
    /// was one.
    pub(super) fn add(
        &mut self,
        stream: usize,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<bool> {
        let at = self.pending.len();
        self.pending.resize(at + self.page_bytes, 0);
        let bytes = read(&mut self.pending[at..]);
        if !matches!(bytes, Ok(1..)) {
            self.pending.truncate(at);
            return bytes.map(|_| false);
        }
        self.pages[stream].push(self.count);
        self.count += 1;
        if self.pending.len() >= CHUNK {
            self.write()?;
        }
        Ok(true)
    }

    fn write(&mut self) -> io::Result<()> {
        let written = self.file.write_all(&self.pending);
        self.pending.clear();
        written
    }

    /// Ends the writing.
    pub(super) fn finish(mut self) -> io::Result<Spooled> {
        self.write()?;
        let pages = self.pages.into_iter().map(Vec::into_iter).collect();
        Ok(Spooled { file: self.file, page_bytes: self.page_bytes, pages, read: 0, count: self.count })
    }
}

/// A spool that is complete.
#[derive(Debug)]
pub(super) struct Spooled {
    file: File,
    page_bytes: usize,
    /// The places of each stream's pages that were not read yet.
    pages: Vec<vec::IntoIter<u32>>,
    /// How many were read.
    read: u32,
    /// How many there are.
    count: u32,
}

impl Spooled {
    /// How many pages were read, and of how many.
    pub(super) fn progress(&self) -> (u64, u64) {
        (self.read.into(), self.count.into())
    }
}

impl Pages for Spooled {
    fn next(&mut self, stream: usize, page: &mut Vec<u8>) -> io::Result<bool> {
        let Some(place) = self.pages[stream].next() else { return Ok(false) };
        self.read += 1;
        page.resize(self.page_bytes, 0);
        self.file.read_exact_at(page, u64::from(place) * self.page_bytes as u64)?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_gives_back_its_pages_in_order() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut spool = Spool::new(folder.path(), 2, 4096).expect("a file");
        for number in 0..1000_u32 {
            let fill = |page: &mut [u8]| {
                page[..4].copy_from_slice(&number.to_ne_bytes());
                Ok(4)
            };
            assert!(spool.add(number as usize % 2, fill).expect("room"));
        }
        assert!(!spool.add(0, |_| Ok(0)).expect("nothing"));
        assert!(spool.add(0, |_| Err(io::ErrorKind::Other.into())).is_err());
        let mut spooled = spool.finish().expect("room");
        assert_eq!(spooled.progress(), (0, 1000));
        let mut page = Vec::new();
        for stream in 0..2 {
            for number in 0..500 {
                assert!(spooled.next(stream, &mut page).expect("a page"));
                assert_eq!(
                    page[..5],
                    [&(number as u32 * 2 + stream as u32).to_ne_bytes()[..], &[0]].concat()
                );
            }
            assert!(!spooled.next(stream, &mut page).expect("the end"));
        }
        assert_eq!(spooled.progress(), (1000, 1000));
        assert_eq!(folder.path().read_dir().expect("the folder").count(), 0, "the file has no name");
    }
}
