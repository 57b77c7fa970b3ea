//! A hash map for small numbers, such as those of frames, threads and page-table pages.
//!
//! The oracle looks some up at every fill and every free. The standard hasher, which resists chosen keys, would take
//! longer than the rest.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A map by number.
pub(crate) type Numbered<V> = HashMap<u32, V, BuildHasherDefault<Spread>>;

/// Spreads neighbouring numbers over all bits of a hash.
#[derive(Debug, Default)]
pub(crate) struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u32(byte.into());
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
