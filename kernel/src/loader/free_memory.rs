//! The memory that is free when the kernel begins: the machine's memory without the parts in use. A piece goes from one
//! physical address up to another.

/// A piece of memory.
pub(crate) type Piece = (u64, u64);

/// The `bytes` bytes from `start` on.
pub(crate) fn piece(start: u64, bytes: u64) -> Piece {
    (start, start.saturating_add(bytes))
}

/// The largest piece of `memory` that overlaps nothing in `taken`; empty if there is none.
pub(crate) fn largest(memory: impl Iterator<Item = Piece>, taken: &[Piece]) -> Piece {
    let bytes = |&(start, end): &Piece| end.saturating_sub(start);
    memory.flat_map(|piece| free_in(piece, taken)).max_by_key(bytes).unwrap_or((0, 0))
}

/// All free parts of a piece. Each begins where the piece begins or where something in `taken` ends.
fn free_in((start, end): Piece, taken: &[Piece]) -> impl Iterator<Item = Piece> + '_ {
    let begins = core::iter::once(start).chain(taken.iter().map(|&(_, end)| end));
    let free =
        move |&at: &u64| start <= at && at < end && !taken.iter().any(|&(from, to)| from <= at && at < to);
    begins.filter(free).map(move |at| {
        let next = taken.iter().map(|&(from, _)| from).filter(|&from| from >= at);
        (at, next.fold(end, u64::min))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(memory: &[Piece], taken: &[Piece]) -> Piece {
        largest(memory.iter().copied(), taken)
    }

    #[test]
    fn the_largest_piece_is_found_around_taken_memory() {
        let memory = [(10, 20), (100, 200)];
        assert_eq!(of(&memory, &[]), (100, 200));
        assert_eq!(of(&memory, &[(90, 120)]), (120, 200));
        assert_eq!(of(&memory, &[(190, 220)]), (100, 190));
        assert_eq!(of(&memory, &[(110, 120), (130, 140)]), (140, 200));
        assert_eq!(of(&memory, &[(105, 195), (195, 200)]), (10, 20));
        assert_eq!(of(&memory, &[(150, 160), (120, 155)]), (160, 200), "they may overlap");
    }

    #[test]
    fn nothing_is_free_where_all_is_taken_or_no_memory_is() {
        assert_eq!(of(&[], &[(1, 2)]), (0, 0));
        assert_eq!(of(&[(10, 20)], &[(0, u64::MAX)]), (0, 0));
        assert_eq!(of(&[(20, 10)], &[]), (0, 0), "a piece that ends before it begins");
        assert_eq!(of(&[piece(10, u64::MAX)], &[piece(30, 5), (35, u64::MAX)]), (10, 30), "one without end");
    }

    /// Tests every layout of three things in a small memory against a count byte by byte.
    #[test]
    fn the_piece_is_as_large_as_possible() {
        const END: u64 = 9;
        let pieces = (0..=END).flat_map(|start| (start..=END).map(move |end| (start, end)));
        let pieces: alloc::vec::Vec<Piece> = pieces.filter(|(start, end)| start < end).collect();
        for &one in &pieces {
            for &two in &pieces {
                for &three in pieces.iter().step_by(7) {
                    let taken = [one, two, three];
                    let is_free = |at: u64| !taken.iter().any(|&(from, to)| from <= at && at < to);
                    let (start, end) = of(&[(1, END)], &taken);
                    assert!((start..end).all(|at| (1..END).contains(&at) && is_free(at)), "{taken:?}");
                    let mut longest = 0;
                    let mut run = 0;
                    for at in 1..END {
                        run = if is_free(at) { run + 1 } else { 0 };
                        longest = longest.max(run);
                    }
                    assert_eq!(end - start, longest, "{taken:?}");
                }
            }
        }
    }
}
