//! One CPU changes something while the others wait, and then every CPU looks. The CPUs take turns with the change.

use core::ops::Range;
use core::sync::atomic::Ordering::SeqCst;

use crate::actor::{Actor, Done, Stop};
use crate::kernel::{Away, Cpu, PAGES, TABLE};
use crate::verdict::Verdict;

/// Ranges that are unmapped at once, and the pages from one to the next.
const RANGES: usize = 64;
const APART: usize = PAGES / RANGES;

/// The page of a round. Rounds go through all tables.
const fn page(round: usize) -> usize {
    round * 67 % PAGES
}

pub(super) fn unmap_then_read<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    actor.clear()?;
    for round in actor.rounds() {
        let (turn, page) = (actor.turn(round), page(round));
        actor.alone(turn, || actor.map(page).map(drop))?;
        actor.see(page)?;
        actor.alone(turn, || actor.unmap(page..page + 1))?;
        actor.miss(page)?;
    }
    actor.meet()
}

pub(super) fn protect_then_store<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    actor.clear()?;
    for round in actor.rounds() {
        let (turn, page) = (actor.turn(round), page(round));
        actor.alone(turn, || actor.map(page).map(drop))?;
        actor.see(page)?;
        actor.touch(page)?;
        actor.alone(turn, || actor.protect(page))?;
        // The right to load stays.
        actor.touch(page)?;
        actor.see(page)?;
        actor.alone(turn, || actor.unmap(page..page + 1))?;
    }
    actor.meet()
}

pub(super) fn remap_elsewhere<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    actor.clear()?;
    for round in actor.rounds() {
        let (turn, from) = (actor.turn(round), page(round));
        let to = (from + TABLE + 1) % PAGES;
        actor.alone(turn, || actor.map(from).map(drop))?;
        actor.see(from)?;
        actor.alone(turn, || actor.remap(from, to))?;
        actor.miss(from)?;
        actor.see(to)?;
        actor.alone(turn, || actor.map(from).map(drop))?;
        actor.see(from)?;
        actor.see(to)?;
        actor.alone(turn, || actor.unmap_all(&[from..from + 1, to..to + 1]))?;
    }
    actor.meet()
}

pub(super) fn many_ranges<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    let ranges: [Range<usize>; RANGES] = core::array::from_fn(|range| range * APART..range * APART + 1);
    actor.clear()?;
    for round in actor.rounds() {
        let turn = actor.turn(round);
        actor.alone(turn, || ranges.iter().try_for_each(|range| actor.map(range.start).map(drop)))?;
        ranges.iter().try_for_each(|range| actor.see(range.start))?;
        actor.alone(turn, || actor.unmap_all(&ranges))?;
        ranges.iter().try_for_each(|range| actor.miss(range.start))?;
    }
    actor.meet()
}

pub(super) fn kernel_ranges<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    let stage = actor.stage;
    for round in actor.rounds() {
        let turn = actor.turn(round);
        actor.alone(turn, || {
            let address = actor.map_kernel()?;
            if stage.shared.swap(address, SeqCst) == address {
                stage.count.fetch_add(1, SeqCst);
            }
            Ok(())
        })?;
        actor.see_kernel(stage.shared.load(SeqCst))?;
        actor.alone(turn, || Ok(actor.cpu.unmap_kernel(stage.shared.load(SeqCst))?))?;
    }
    if stage.count.load(SeqCst) == 0 && actor.rounds().len() > 1 {
        return Err(Stop::Because(Verdict::Untried));
    }
    actor.meet()
}

pub(super) fn idle_cpu<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    let stage = actor.stage;
    actor.clear()?;
    for round in actor.rounds() {
        let (turn, table) = (actor.turn(round), round % (PAGES / TABLE) * TABLE);
        let page = table + page(round) % TABLE;
        actor.alone(turn, || {
            stage.count.store(0, SeqCst);
            actor.map(page).map(drop)
        })?;
        actor.see(page)?;
        actor.meet()?;
        let before = actor.newest(page);
        let is_replaced = || stage.shared.load(SeqCst) > before;
        if actor.number() == turn {
            actor.wait(|| stage.count.load(SeqCst) + 1 >= actor.cpus())?;
            actor.unmap(table..table + TABLE)?;
            actor.reuse()?;
            stage.shared.store(actor.map(page)?, SeqCst);
        } else {
            actor.away(Away::Idle, is_replaced)?;
        }
        actor.see(page)?;
        actor.alone(turn, || actor.unmap(page..page + 1))?;
    }
    actor.meet()
}
