//! Zeroing a page, copying it from node to node, and the fault that brings a fresh one.
//!
//! The buffers exceed the last-level cache where memory allows it. So the pages come from memory, as those of reclaim
//! and migration do.

use std::io;
use std::thread;
use std::time::Duration;

use super::computer::{pin, Computer};
use super::latency::joined;
use super::mapping::{Mapping, PAGE, PAGE_WORDS};
use super::quartiles::{quartiles, timed, Effort, Quartiles};
use super::{Notes, Quantity};

/// Pages in a round.
const PAGES: usize = 32;
/// The time of each measurement at most, if there are few nodes.
const TIME: Duration = Duration::from_millis(700);
/// The time of all copies together at most.
const ALL_COPIES: Duration = Duration::from_secs(5);

/// The least and the greatest size of a buffer, in pages.
const SIZES: (usize, usize) = (1 << 10, 1 << 15);

/// The number of pages of a buffer: twice the last-level cache, or what a sixteenth of the `memory` holds.
fn buffer(cache: usize, memory: u64) -> usize {
    let room = usize::try_from(memory / 16).unwrap_or(usize::MAX) / PAGE;
    (2 * cache / PAGE).min(room).clamp(SIZES.0, SIZES.1) / PAGES * PAGES
}

pub(super) fn measure(computer: &Computer, (rounds, memory): (usize, u64), notes: &mut Notes) {
    let pages = buffer(computer.cache(), memory);
    // Without nodes in sysfs, all memory is one node.
    let places: Vec<Option<u32>> = match computer.nodes() {
        [] | [_] => vec![None],
        several => several.iter().copied().map(Some).collect(),
    };
    let time = TIME.min(ALL_COPIES / (places.len() * places.len()) as u32);
    let effort = Effort { rounds, time };
    for &node in places.iter().filter(|node| node.is_none_or(|node| computer.cpu_of(node).is_some())) {
        let number = node.unwrap_or(0);
        let zero = at(computer, node, || zero(pages, node, effort));
        notes.note(Quantity::Zero { node: number }, zero);
        let fault = at(computer, node, || fault(pages, node, effort));
        notes.note(Quantity::Fault { node: number }, fault);
    }
    for &from in &places {
        for &to in &places {
            // A copy is made by a CPU of the node that gets the page, if it has one.
            let place = to.filter(|&node| computer.cpu_of(node).is_some()).or(from);
            let copy = at(computer, place, || copy(pages, from, to, effort));
            let quantity = Quantity::Copy { from: from.unwrap_or(0), to: to.unwrap_or(0) };
            notes.note(quantity, copy);
        }
    }
}

/// Runs work in a thread on a CPU of the node. The work runs on any CPU if the node has none, or if Linux refuses.
fn at<T: Send>(computer: &Computer, node: Option<u32>, work: impl FnOnce() -> T + Send) -> T {
    let cpu = node.map_or_else(|| computer.cpus().next(), |node| computer.cpu_of(node));
    thread::scope(|scope| {
        joined(scope.spawn(|| {
            // Without it the thread may move, which disturbs few rounds.
            let _ = cpu.map(pin);
            work()
        }))
    })
}

/// Memory of a node, all of whose pages have been stored to.
fn filled(pages: usize, node: Option<u32>) -> io::Result<Mapping> {
    let mut mapping = empty(pages, node)?;
    mapping.words().fill(1);
    Ok(mapping)
}

/// Memory of a node without a page.
fn empty(pages: usize, node: Option<u32>) -> io::Result<Mapping> {
    let mut mapping = Mapping::of_pages(pages)?;
    if let Some(node) = node {
        mapping.bind(node)?;
    }
    Ok(mapping)
}

/// The time of zeroing a page, in nanoseconds: the median of the rounds.
fn zero(pages: usize, node: Option<u32>, effort: Effort) -> io::Result<Option<Quartiles>> {
    let mut mapping = filled(pages, node)?;
    let mut rounds = (0..pages / PAGES).cycle();
    Ok(quartiles(effort, || {
        let part = rounds.next()? * PAGES * PAGE_WORDS;
        let words = &mut mapping.words()[part..part + PAGES * PAGE_WORDS];
        let time = timed(|| words.chunks_mut(PAGE_WORDS).for_each(|page| std::hint::black_box(page).fill(0)));
        Some(time / PAGES as f64)
    }))
}

/// The time of copying a page, in nanoseconds: the median of the rounds.
fn copy(pages: usize, from: Option<u32>, to: Option<u32>, effort: Effort) -> io::Result<Option<Quartiles>> {
    let (mut from, mut to) = (filled(pages, from)?, filled(pages, to)?);
    let mut rounds = (0..pages / PAGES).cycle();
    Ok(quartiles(effort, || {
        let part = rounds.next()? * PAGES * PAGE_WORDS;
        let part = part..part + PAGES * PAGE_WORDS;
        let (from, to) = (&from.words()[part.clone()], &mut to.words()[part]);
        let pairs = to.chunks_mut(PAGE_WORDS).zip(from.chunks(PAGE_WORDS));
        let time = timed(|| pairs.for_each(|(to, from)| std::hint::black_box(to).copy_from_slice(from)));
        Some(time / PAGES as f64)
    }))
}

/// The time of a store to a page that is not there, in nanoseconds: the median of the rounds. Each round has pages of
/// its own. When all have been used, they are given back together.
fn fault(pages: usize, node: Option<u32>, effort: Effort) -> io::Result<Option<Quartiles>> {
    let mut mapping = empty(pages, node)?;
    let mut rounds = (0..pages / PAGES).cycle();
    let mut failed = Ok(());
    let spread = quartiles(effort, || {
        let round = rounds.next()?;
        if round == 0 {
            failed = mapping.discard(0, pages);
        }
        let words = &mut mapping.words()[round * PAGES * PAGE_WORDS..][..PAGES * PAGE_WORDS];
        let time =
            timed(|| words.chunks_mut(PAGE_WORDS).for_each(|page| *std::hint::black_box(&mut page[0]) = 1));
        Some(time / PAGES as f64)
    });
    failed.map(|()| spread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_exceeds_the_cache_if_there_is_memory() {
        assert_eq!(buffer(32 << 20, u64::MAX), 1 << 14);
        assert_eq!(buffer(32 << 20, 1 << 29), 1 << 13);
        assert_eq!(buffer(1 << 30, u64::MAX), 1 << 15);
        assert_eq!(buffer(0, 0), 1 << 10);
    }

    #[test]
    fn a_node_that_does_not_exist_is_refused() {
        let effort = Effort { rounds: 1, time: Duration::ZERO };
        assert!(zero(32, Some(1 << 20), effort).is_err());
        assert!(copy(32, None, Some(1 << 20), effort).is_err());
    }
}
