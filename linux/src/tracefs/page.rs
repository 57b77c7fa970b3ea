//! The pages of the kernel's ring buffer: the records of one CPU in the order in which they were written.
//!
//! A page begins with the time of its first record and the number of bytes in use. Each record has a header of 32 bits:
//! five of its length or its kind, and 27 of the time since the record before. The kernel describes the layout in
//! `events/header_page` and `events/header_event` (`kernel/trace/ring_buffer.c` explains the kinds).

use crate::tracefs::format::{Field, Format, FormatError};

/// Records were lost before this page.
const MISSED: u64 = 1 << 31;
/// The number of lost records stands behind the last record.
const MISSED_STORED: u64 = 1 << 30;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
/// The number of bits of the time in a record's header.
const DELTA_BITS: u32 = 27;
/// An absolute time lacks the five highest bits.
const STAMP_BITS: u32 = 59;

/// Where the parts of a page are.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    timestamp: Field,
    commit: Field,
    data: Field,
}

/// The records that were lost before a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missed {
    /// So many; 0 if none.
    Records(u64),
    /// At least one: the kernel did not say how many.
    Unknown,
}

/// A page that was read from the buffer.
#[derive(Debug, Clone)]
pub struct Page<'a> {
    /// The records that were lost before it.
    pub missed: Missed,
    /// The data that was not read yet.
    rest: &'a [u8],
    time: u64,
}

impl Layout {
    /// Reads the text of `events/header_page`.
    ///
    /// # Errors
    /// If a field is missing.
    pub fn parse(text: &str) -> Result<Self, FormatError> {
        // The file has the lines of a format without its head.
        let format = Format::parse("header_page", &format!("name: header_page\nID: 0\nformat:\n{text}"))?;
        Ok(Self {
            timestamp: format.field("timestamp")?,
            commit: format.field("commit")?,
            data: format.field("data")?,
        })
    }

    /// The page in these bytes; none if they are too few for a page's header.
    pub fn page<'a>(&self, bytes: &'a [u8]) -> Option<Page<'a>> {
        let (time, commit) = (self.timestamp.value(bytes)?, self.commit.value(bytes)?);
        let data = self.data.rest(bytes)?;
        let used = (commit & (MISSED_STORED - 1)) as usize;
        let missed = match (commit & MISSED != 0, commit & MISSED_STORED != 0) {
            (false, _) => Missed::Records(0),
            (true, false) => Missed::Unknown,
            (true, true) => match data.get(used..).and_then(|rest| rest.first_chunk()) {
                Some(count) => Missed::Records(u64::from_ne_bytes(*count)),
                None => Missed::Unknown,
            },
        };
        Some(Page { missed, rest: data.get(..used).unwrap_or(data), time })
    }
}

/// The time of a record and its bytes.
impl<'a> Iterator for Page<'a> {
    type Item = (u64, &'a [u8]);

    fn next(&mut self) -> Option<(u64, &'a [u8])> {
        loop {
            let header = word(self.rest)?;
            let (kind, delta) = if cfg!(target_endian = "big") {
                (header >> DELTA_BITS, header & ((1 << DELTA_BITS) - 1))
            } else {
                (header & 0x1f, header >> 5)
            };
            let body = &self.rest[4..];
            // A length includes the word in which it stands.
            let length = match kind {
                PADDING if delta == 0 => return None,
                0 | PADDING => word(body)? as usize,
                TIME_EXTEND | TIME_STAMP => 4,
                words => words as usize * 4,
            };
            // The next record begins at a multiple of four bytes.
            self.rest = body.get(length.max(4).next_multiple_of(4)..).unwrap_or_default();
            match kind {
                TIME_EXTEND => {
                    let more = u64::from(word(body)?) << DELTA_BITS;
                    self.time = self.time.wrapping_add(more + u64::from(delta));
                }
                TIME_STAMP => {
                    let low = u64::from(word(body)?) << DELTA_BITS | u64::from(delta);
                    self.time = self.time >> STAMP_BITS << STAMP_BITS | low;
                }
                PADDING => self.time = self.time.wrapping_add(delta.into()),
                _ => {
                    self.time = self.time.wrapping_add(delta.into());
                    let start = if kind == 0 { 4 } else { 0 };
                    return Some((self.time, body.get(start..length)?));
                }
            }
        }
    }
}

/// The first word of some bytes.
fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.first_chunk()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HEADER: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;
\tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;
\tfield: int overwrite;\toffset:8;\tsize:1;\tsigned:1;
\tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;
";

    fn layout() -> Layout {
        Layout::parse(HEADER).expect("the kernel's text")
    }

    /// A page with this data.
    fn page(time: u64, data: &[u8], flags: u64, behind: &[u8]) -> Vec<u8> {
        let mut page = time.to_ne_bytes().to_vec();
        page.extend((data.len() as u64 | flags).to_ne_bytes());
        page.extend(data);
        page.extend(behind);
        page
    }

    fn header(kind: u32, delta: u32) -> [u8; 4] {
        if cfg!(target_endian = "big") { kind << DELTA_BITS | delta } else { kind | delta << 5 }.to_ne_bytes()
    }

    #[test]
    fn a_page_gives_its_records_with_their_times() {
        let mut data = Vec::new();
        data.extend(header(2, 5));
        data.extend([1; 8]);
        // A discarded record, whose time counts.
        data.extend(header(PADDING, 10));
        data.extend(8_u32.to_ne_bytes());
        data.extend([9; 4]);
        data.extend(header(TIME_EXTEND, 3));
        data.extend(1_u32.to_ne_bytes());
        data.extend(header(0, 1));
        data.extend(10_u32.to_ne_bytes());
        data.extend([2; 6]);
        // Up to the next word.
        data.extend([0; 2]);
        data.extend(header(TIME_STAMP, 7));
        data.extend(2_u32.to_ne_bytes());
        data.extend(header(1, 0));
        data.extend([3; 4]);
        let bytes = page(1000, &data, 0, &[]);
        let page = layout().page(&bytes).expect("a page");
        assert_eq!(page.missed, Missed::Records(0));
        let extended = 1018 + (1 << 27) + 1;
        assert_eq!(
            page.collect::<Vec<_>>(),
            [(1005, &[1; 8][..]), (extended, &[2; 6]), ((2 << 27) + 7, &[3; 4])]
        );
    }

    #[test]
    fn lost_records_are_counted_where_the_kernel_counts_them() {
        let missed = |flags, behind: &[u8]| {
            let bytes = page(0, &[], flags, behind);
            layout().page(&bytes).expect("a page").missed
        };
        assert_eq!(missed(MISSED | MISSED_STORED, &17_u64.to_ne_bytes()), Missed::Records(17));
        assert_eq!(missed(MISSED, &[]), Missed::Unknown);
        assert_eq!(missed(MISSED | MISSED_STORED, &[1]), Missed::Unknown);
    }

    proptest! {
        #[test]
        fn any_bytes_end_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            if let Some(page) = layout().page(&bytes) {
                // Each record takes at least its header of four bytes.
                prop_assert!(page.count() <= bytes.len() / 4);
            }
        }
    }
}
