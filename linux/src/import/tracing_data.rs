//! The kernel's descriptions of its records, as trace-cmd keeps them at the beginning of its files and perf in a part of
//! its own (trace-cmd.dat.v6(5)).

use std::io::{Read, Seek};

use crate::import::cursor::{text, Cursor};
use crate::import::error::ImportError;
use crate::recording::TRACE_DAT;
use crate::tracefs::{Format, Layout};

/// What stands before the descriptions.
#[derive(Debug)]
pub(super) struct Head {
    /// The version of the format.
    pub(super) version: String,
    /// The size of a page of the memory.
    pub(super) page_bytes: u32,
}

/// Reads the head.
pub(super) fn head<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<Head, ImportError> {
    let at = cursor.at();
    if cursor.bytes(TRACE_DAT.len() as u64)? != TRACE_DAT {
        return Err(ImportError::Unreadable { part: "the description of events", at });
    }
    let version = cursor.word()?;
    let (is_big, long_bytes) = (cursor.byte()? != 0, cursor.byte()?);
    if is_big != cfg!(target_endian = "big") || usize::from(long_bytes) != size_of::<usize>() {
        return Err(ImportError::OtherMachine);
    }
    Ok(Head { version, page_bytes: cursor.u32()? })
}

/// Reads the layout of the pages of buffers.
pub(super) fn layout<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<Layout, ImportError> {
    let mut part = |name: &str| {
        let at = cursor.at();
        if cursor.word()? != name {
            return Err(ImportError::Unreadable { part: "the layout of pages", at });
        }
        let bytes = cursor.u64()?;
        cursor.bytes(bytes)
    };
    let page = text(&part("header_page")?);
    part("header_event")?;
    Ok(Layout::parse(&page)?)
}

/// Reads the formats of the events of a system. One that is not understood counts as absent.
fn formats<R: Read + Seek>(
    cursor: &mut Cursor<R>,
    system: &str,
    formats: &mut Vec<Format>,
) -> Result<(), ImportError> {
    for _ in 0..cursor.u32()? {
        let bytes = cursor.u64()?;
        formats.extend(Format::parse(system, &text(&cursor.bytes(bytes)?)).ok());
    }
    Ok(())
}

/// Reads the formats of the tracers' own events.
pub(super) fn ftrace<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<Vec<Format>, ImportError> {
    let mut all = Vec::new();
    formats(cursor, "ftrace", &mut all)?;
    Ok(all)
}

/// Reads the formats of all systems.
pub(super) fn systems<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<Vec<Format>, ImportError> {
    let mut all = Vec::new();
    for _ in 0..cursor.u32()? {
        let system = cursor.word()?;
        formats(cursor, &system, &mut all)?;
    }
    Ok(all)
}

/// Reads a text whose length has 32 bits, and which zero bytes may pad.
pub(super) fn short_text<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<String, ImportError> {
    let bytes = cursor.u32()?;
    Ok(text(&cursor.bytes(bytes.into())?))
}

/// Reads a text whose length has 64 bits.
pub(super) fn long_text<R: Read + Seek>(cursor: &mut Cursor<R>) -> Result<String, ImportError> {
    let bytes = cursor.u64()?;
    Ok(text(&cursor.bytes(bytes)?))
}
