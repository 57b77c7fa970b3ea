//! Bits of a word that stand for 64 neighbours.

use std::ops::Range;

/// The number of neighbours in a word.
pub(crate) const WIDTH: u64 = u64::BITS as u64;

/// The numbers of the bits that are set.
pub(crate) fn ones(mut bits: u64) -> impl Iterator<Item = u64> {
    std::iter::from_fn(move || {
        let at = bits.trailing_zeros();
        bits &= bits.checked_sub(1)?;
        Some(at.into())
    })
}

/// The bits of those of 64 numbers, `first` the lowest, that lie in a range.
pub(crate) fn inside(first: u64, range: &Range<u64>) -> u64 {
    let below = |end: u64| {
        let count = end.saturating_sub(first).min(WIDTH);
        u64::MAX.checked_shr((WIDTH - count) as u32).unwrap_or(0)
    };
    below(range.end) & !below(range.start)
}
