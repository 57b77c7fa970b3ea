//! Invalidations in the TLB of the own CPU, from how mprotect's time grows with the number of pages.
//!
//! Linux on x86 invalidates up to 33 pages one by one, and everything from 34 pages on
//! (`tlb_single_page_flush_ceiling`, arch/x86/mm/tlb.c). So a page beyond the ceiling costs less by one invalidation,
//! and the step at the ceiling is the invalidation of everything. mprotect gives no frame back, whose cost would not
//! grow evenly with the pages.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use super::computer::{pin, Computer};
use super::latency::joined;
use super::line::Line;
use super::mapping::Lockable;
use super::quartiles::{timed, Quartiles};
use super::{Failed, Notes, Quantity};

/// The most pages that are invalidated one by one.
const CEILING: usize = 33;
/// The numbers of pages up to the ceiling.
const FEW: [usize; 9] = [1, 5, 9, 13, 17, 21, 25, 29, CEILING];
/// The numbers of pages beyond the ceiling.
const MANY: [usize; 9] = [34, 38, 42, 46, 50, 54, 58, 62, 66];
/// Rounds whose medians give one pair of lines.
const GROUP: usize = 25;
/// The time of all rounds at most.
const TIME: Duration = Duration::from_secs(3);

pub(super) fn measure(computer: &Computer, rounds: usize, notes: &mut Notes) -> Result<(), Failed> {
    const WHAT: &str = "invalidation of one page and of everything";
    if !cfg!(target_arch = "x86_64") {
        return Err(Failed::new(WHAT, "the ceiling at which mprotect tells them apart is Linux's on x86-64"));
    }
    let cpu = computer.cpus().next();
    let found = thread::scope(|scope| {
        joined(scope.spawn(|| {
            // Without it the thread may move, which disturbs few rounds.
            let _ = cpu.map(pin);
            invalidations(rounds)
        }))
    });
    let [page, all] = found.map_err(|error| Failed::new(WHAT, error))?;
    let is_cost = |spread: &Option<Quartiles>| spread.is_some_and(|spread| spread.median > 0.0);
    if !is_cost(&page) || !is_cost(&all) {
        return Err(Failed::new(WHAT, format!("mprotect of {CEILING} pages and of one more show no step")));
    }
    notes.note(Quantity::InvalidatePage, Ok(page));
    notes.note(Quantity::InvalidateAll, Ok(all));
    Ok(())
}

/// The times of invalidating one page and everything, in nanoseconds. Each group of rounds gives a pair; the quartiles
/// are those of the groups.
fn invalidations(rounds: usize) -> io::Result<[Option<Quartiles>; 2]> {
    let ranges = |counts: [usize; 9]| counts.into_iter().map(Lockable::new).collect::<io::Result<Vec<_>>>();
    let (mut few, mut many) = (ranges(FEW)?, ranges(MANY)?);
    let begun = Instant::now();
    let mut found = [Vec::new(), Vec::new()];
    for _ in 0..(rounds / GROUP).max(1) {
        let (few, many) = (medians(&mut few)?, medians(&mut many)?);
        if let Some([page, all]) = step(&few, &many) {
            found[0].push(page);
            found[1].push(all);
        }
        if begun.elapsed() >= TIME {
            break;
        }
    }
    Ok(found.map(Quartiles::of))
}

/// The median times of forbidding stores to each range, with its number of pages.
fn medians(ranges: &mut [Lockable]) -> io::Result<Vec<(f64, f64)>> {
    let mut times = vec![Vec::with_capacity(GROUP); ranges.len()];
    // In turn, so that a disturbance concerns all counts alike.
    for _ in 0..GROUP {
        for (times, range) in times.iter_mut().zip(ranges.iter_mut()) {
            range.store();
            let mut done = Ok(());
            times.push(timed(|| done = range.lock()));
            done.and_then(|()| range.unlock())?;
        }
    }
    let median = |times| Quartiles::of(times).map(|spread| spread.median);
    let points = times
        .into_iter()
        .zip(ranges)
        .filter_map(|(times, range)| Some((range.pages() as f64, median(times)?)));
    Ok(points.collect())
}

/// The time of one invalidation, and that of the invalidation of everything, from the times below the ceiling and above
/// it: the difference of the slopes, and the difference of the lines where neither has a page.
fn step(few: &[(f64, f64)], many: &[(f64, f64)]) -> Option<[f64; 2]> {
    let (below, above) = (Line::through(few)?, Line::through(many)?);
    Some([below.slope - above.slope, above.start - below.start])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_counts_lie_on_their_sides_of_the_ceiling() {
        assert!(FEW.iter().all(|&count| count <= CEILING) && MANY.iter().all(|&count| count > CEILING));
    }

    proptest! {
        #[test]
        fn the_step_gives_back_the_costs(
            base in 100.0_f64..5000.0, work in 10.0_f64..300.0, page in 10.0_f64..300.0, all in 20.0_f64..900.0,
            noise in prop::collection::vec(-1.0_f64..1.0, 18),
        ) {
            let time = |count: usize, noise: f64| {
                let n = count as f64;
                let flush = if count <= CEILING { n * page } else { all };
                (n, base + n * work + flush + noise)
            };
            let few: Vec<_> = FEW.iter().zip(&noise).map(|(&n, &noise)| time(n, noise)).collect();
            let many: Vec<_> = MANY.iter().zip(&noise[9..]).map(|(&n, &noise)| time(n, noise)).collect();
            let [found_page, found_all] = step(&few, &many).expect("two lines");
            prop_assert!((found_page - page).abs() < 0.5, "{found_page} for {page}");
            prop_assert!((found_all - all).abs() < 10.0, "{found_all} for {all}");
        }
    }
}
