//! Reads numbers and texts from a file that may end anywhere.

use std::io::{Read, Seek, SeekFrom};

use crate::import::error::ImportError;

/// The longest name.
const LONGEST: usize = 1 << 12;

/// A place in a file, or in a part of it. Numbers are in this machine's byte order.
#[derive(Debug)]
pub(super) struct Cursor<R> {
    from: R,
    at: u64,
    end: u64,
}

impl<R: Read + Seek> Cursor<R> {
    /// The beginning of a file.
    pub(super) fn new(mut from: R) -> Result<Self, ImportError> {
        let end = from.seek(SeekFrom::End(0))?;
        from.rewind()?;
        Ok(Self { from, at: 0, end })
    }

    /// The number of bytes before the place.
    pub(super) fn at(&self) -> u64 {
        self.at
    }

    /// The number of bytes from the place to the end.
    pub(super) fn left(&self) -> u64 {
        self.end - self.at
    }

    /// Goes to a place.
    pub(super) fn go(&mut self, at: u64) -> Result<(), ImportError> {
        if at > self.end {
            return Err(ImportError::Cut { at, end: self.end });
        }
        self.from.seek(SeekFrom::Start(at))?;
        self.at = at;
        Ok(())
    }

    /// The next bytes, no more of which are kept than the file has.
    pub(super) fn bytes(&mut self, count: u64) -> Result<Vec<u8>, ImportError> {
        let mut bytes = Vec::new();
        self.fill(&mut bytes, count)?;
        Ok(bytes)
    }

    /// Puts the next bytes into a buffer, in place of what it has.
    pub(super) fn fill(&mut self, buffer: &mut Vec<u8>, count: u64) -> Result<(), ImportError> {
        if count > self.left() {
            return Err(ImportError::Cut { at: self.at.saturating_add(count), end: self.end });
        }
        buffer.resize(count as usize, 0);
        self.from.read_exact(buffer)?;
        self.at += count;
        Ok(())
    }

    fn array<const COUNT: usize>(&mut self) -> Result<[u8; COUNT], ImportError> {
        if COUNT as u64 > self.left() {
            return Err(ImportError::Cut { at: self.at + COUNT as u64, end: self.end });
        }
        let mut bytes = [0; COUNT];
        self.from.read_exact(&mut bytes)?;
        self.at += COUNT as u64;
        Ok(bytes)
    }

    pub(super) fn byte(&mut self) -> Result<u8, ImportError> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn u16(&mut self) -> Result<u16, ImportError> {
        Ok(u16::from_ne_bytes(self.array()?))
    }

    pub(super) fn u32(&mut self) -> Result<u32, ImportError> {
        Ok(u32::from_ne_bytes(self.array()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64, ImportError> {
        Ok(u64::from_ne_bytes(self.array()?))
    }

    /// The name up to the next zero byte, which is skipped.
    pub(super) fn word(&mut self) -> Result<String, ImportError> {
        let mut bytes = Vec::new();
        loop {
            match self.byte()? {
                0 => return Ok(text(&bytes)),
                byte if byte.is_ascii_graphic() && bytes.len() < LONGEST => bytes.push(byte),
                _ => return Err(ImportError::Unreadable { part: "a name", at: self.at }),
            }
        }
    }
}

/// The text of bytes, up to the first zero byte.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes.split(|byte| *byte == 0).next().unwrap_or_default()).into_owned()
}
