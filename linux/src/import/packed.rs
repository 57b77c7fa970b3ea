//! Records that `perf record -z` compressed: pieces of one frame of zstd, which never ends.
//!
//! The decoder keeps the last bytes of a frame, its window, until the frame ends. So records come out later than the
//! piece in which they are, and whoever waits for all records of a piece asks how many bytes were decoded by then.

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// The bytes of a record's head, and of a block's.
const RECORD_HEAD: usize = 8;
const BLOCK_HEAD: usize = 3;
/// A block of zeros, and their number: the size of the smallest window, which no block exceeds.
const ZEROS: [u8; 4] = [0b010, 0x20, 0, 0];
const ZERO_COUNT: u64 = 1 << 10;
/// A last block, which is empty, and a checksum, which nobody compares.
const LAST: [u8; 7] = [1, 0, 0, 0, 0, 0, 0];

/// A frame that cannot be decoded further.
#[derive(Debug)]
pub(super) struct Damaged;

/// A frame, of which blocks are decoded when their records are asked for.
#[derive(Default)]
pub(super) struct Frame {
    decoder: FrameDecoder,
    has_begun: bool,
    /// Blocks that were not decoded yet.
    blocks: Vec<u8>,
    /// Decoded bytes, and how many of them were taken.
    bytes: Vec<u8>,
    at: usize,
    /// The zeros that the decoder still has to give.
    zeros: u64,
    /// What the decoder could give when it had zeros alone, and what it gave so far.
    could_give: u64,
    gave: u64,
    taken: u64,
}

impl Frame {
    /// Adds a piece. Without the frame's head, it cannot be decoded.
    pub(super) fn add(&mut self, mut piece: &[u8]) -> Result<(), Damaged> {
        if !self.has_begun {
            self.decoder.init(&mut piece).map_err(|_| Damaged)?;
            self.has_begun = true;
            // With its window full of zeros, the decoder tells how much it decoded.
            while self.decoder.can_collect() == 0 {
                self.decode(&ZEROS)?;
                self.zeros += ZERO_COUNT;
            }
            self.could_give = self.decoder.can_collect() as u64;
        }
        self.blocks.extend_from_slice(piece);
        Ok(())
    }

    fn decode(&mut self, block: &[u8]) -> Result<(), Damaged> {
        let decoded = self.decoder.decode_blocks(block, BlockDecodingStrategy::UptoBlocks(1));
        decoded.map(|_| ()).map_err(|_| Damaged)
    }

    fn collect(&mut self) {
        let bytes = self.decoder.collect().unwrap_or_default();
        self.gave += bytes.len() as u64;
        let zeros = self.zeros.min(bytes.len() as u64);
        self.zeros -= zeros;
        self.bytes.drain(..self.at);
        self.at = 0;
        self.bytes.extend_from_slice(&bytes[zeros as usize..]);
    }

    /// Ends the frame, and tells whether that gave bytes: those that the decoder kept.
    pub(super) fn end(&mut self) -> bool {
        let is_new = self.has_begun && !self.decoder.is_finished() && self.decode(&LAST).is_ok();
        if is_new {
            self.collect();
        }
        is_new
    }

    /// Whether there is less than a record, or a block, left. The rest of it is missing.
    pub(super) fn is_cut(&self) -> bool {
        self.at < self.bytes.len() || !self.blocks.is_empty()
    }

    /// The number of bytes of records that were decoded, until the frame ends.
    pub(super) fn decoded(&self) -> u64 {
        self.gave + self.decoder.can_collect() as u64 - self.could_give
    }

    /// The number of bytes of records that were taken.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// Takes the next record, if it is there: its kind, its flags, and its body.
    pub(super) fn next(&mut self, body: &mut Vec<u8>) -> Result<Option<(u32, u16)>, Damaged> {
        loop {
            if let Some(record) = self.record(body)? {
                return Ok(Some(record));
            }
            let Some(&[low, middle, high]) = self.blocks.first_chunk::<BLOCK_HEAD>() else { return Ok(None) };
            let head = u32::from_le_bytes([low, middle, high, 0]);
            let is_repeated = head >> 1 & 0b11 == 1;
            let bytes = BLOCK_HEAD + if is_repeated { 1 } else { head as usize >> 3 };
            if self.blocks.len() < bytes {
                return Ok(None);
            }
            let block: Vec<u8> = self.blocks.drain(..bytes).collect();
            if let Err(damaged) = self.decode(&block) {
                self.blocks.clear();
                return Err(damaged);
            }
            self.collect();
        }
    }

    fn record(&mut self, body: &mut Vec<u8>) -> Result<Option<(u32, u16)>, Damaged> {
        let rest = &self.bytes[self.at..];
        let Some(&[k0, k1, k2, k3, m0, m1, b0, b1]) = rest.first_chunk::<RECORD_HEAD>() else {
            return Ok(None);
        };
        let bytes = usize::from(u16::from_ne_bytes([b0, b1]));
        if bytes < RECORD_HEAD {
            // Where the next record begins is unknown.
            self.blocks.clear();
            self.at = self.bytes.len();
            return Err(Damaged);
        }
        let Some(record) = rest.get(RECORD_HEAD..bytes) else { return Ok(None) };
        record.clone_into(body);
        self.at += bytes;
        self.taken += bytes as u64;
        Ok(Some((u32::from_ne_bytes([k0, k1, k2, k3]), u16::from_ne_bytes([m0, m1]))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a window of a kilobyte that does not end, and its records: blocks and pieces end amid them.
    fn frame() -> (Vec<u8>, Vec<u8>) {
        let record = |number: u16| {
            let body = vec![number as u8; usize::from(number % 90)];
            let bytes = (RECORD_HEAD + body.len()) as u16;
            [&u32::from(number).to_ne_bytes()[..], &number.to_ne_bytes(), &bytes.to_ne_bytes(), &body]
                .concat()
        };
        let records: Vec<u8> = (0..200).flat_map(record).collect();
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0, 0];
        for block in records.chunks(700) {
            frame.extend_from_slice(&((block.len() as u32) << 3).to_le_bytes()[..BLOCK_HEAD]);
            frame.extend_from_slice(block);
        }
        (frame, records)
    }

    #[test]
    fn every_record_comes_out_once_a_window_later() {
        let (packed, records) = frame();
        let (mut frame, mut body, mut numbers) = (Frame::default(), Vec::new(), Vec::new());
        for piece in packed.chunks(333) {
            frame.add(piece).expect("a frame");
            while let Some((kind, misc)) = frame.next(&mut body).expect("records") {
                assert_eq!((u32::from(misc), body.len()), (kind, kind as usize % 90));
                numbers.push(kind);
            }
            assert!(frame.decoded() - frame.taken() < 1024 + 100, "no more than the window and a record");
        }
        assert_eq!(frame.decoded(), records.len() as u64);
        assert!(frame.taken() < frame.decoded() && frame.end() && !frame.end());
        while let Some((kind, _)) = frame.next(&mut body).expect("records") {
            numbers.push(kind);
        }
        assert!(numbers.into_iter().eq(0..200) && frame.taken() == records.len() as u64 && !frame.is_cut());
    }

    #[test]
    fn a_frame_that_is_damaged_gives_the_records_before() {
        let (packed, _) = frame();
        let mut frame = Frame::default();
        assert!(Frame::default().add(&packed[1..]).is_err(), "no head");
        // A kind of block that there is not, behind two others.
        let third = 6 + 2 * (BLOCK_HEAD + 700);
        let mut damaged = packed;
        damaged[third] |= 0b110;
        frame.add(&damaged).expect("a frame");
        let mut body = Vec::new();
        let before = std::iter::from_fn(|| frame.next(&mut body).ok().flatten()).count();
        assert!(frame.decoded() == 1400 && frame.end());
        let all = before + std::iter::from_fn(|| frame.next(&mut body).ok().flatten()).count();
        assert!(before < all && frame.is_cut(), "{before} {all}");
    }

    #[test]
    fn a_record_without_a_length_ends_the_records() {
        let mut frame = Frame::default();
        frame.add(&[0x28, 0xb5, 0x2f, 0xfd, 0, 0, 64, 0, 0, 9, 0, 0, 0, 0, 0, 7, 0]).expect("a frame");
        assert!(frame.next(&mut Vec::new()).expect("the window").is_none() && frame.end());
        assert!(frame.next(&mut Vec::new()).is_err() && !frame.is_cut());
    }
}
