//! CPUs use pages without a pause while others change them.
//!
//! Before each change the first CPU waits until the others have used the page, so that each change takes an entry away
//! from every TLB, however fast the CPUs are.

use crate::actor::{Actor, Done};
use crate::kernel::{Away, Cpu, PAGES, TABLE};

/// The page that is changed.
const PAGE: usize = 3;
/// The times that a CPU looks with interrupts off. A flush that does not wait for it returns long before the last.
const LOOKS: usize = 64;
/// Looks of a CPU between two uses of free frames.
const EACH: u64 = 16;
/// The times that each CPU uses a page after it has changed.
const TRIES: u64 = 4;

/// Replaces the page, after every other CPU from `first` on has seen it.
fn replace<C: Cpu>(actor: &Actor<'_, C>, first: usize, before_the_next: impl FnOnce() -> Done) -> Done {
    let version = actor.map(PAGE)?;
    actor.seen_by(first, version)?;
    actor.unmap(PAGE..PAGE + 1)?;
    before_the_next()
}

pub(super) fn replace_under_read<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    actor.race(|_| replace(actor, 1, || Ok(())), || actor.look(PAGE).map(drop))
}

pub(super) fn interrupts_off<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    actor.race(|_| replace(actor, 1, || Ok(())), || actor.stare(PAGE, LOOKS))
}

pub(super) fn protect_under_store<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    let act = |_| {
        let version = actor.map(PAGE)?;
        actor.seen_by(1, version)?;
        actor.protect(PAGE)?;
        actor.used_again(TRIES)?;
        actor.unmap(PAGE..PAGE + 1)
    };
    actor.race(act, || actor.touch(PAGE).map(drop))
}

pub(super) fn frame_reuse<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    // With more than two CPUs the second one uses free frames all the time, also while the page is being unmapped.
    let first = if actor.cpus() > 2 { 2 } else { 1 };
    let act = |_| replace(actor, first, || if first == 1 { actor.reuse() } else { Ok(()) });
    actor.race(act, || if actor.number() < first { actor.reuse() } else { actor.look(PAGE).map(drop) })
}

pub(super) fn evicted<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    let act = |round: usize| {
        actor.map(PAGE)?;
        actor.protect(PAGE)?;
        actor.used_again(TRIES)?;
        actor.evict(PAGE)?;
        // Every other time the unmap follows at once. Otherwise whatever the kernel waits for has come before, and the
        // frame may be free.
        if round.is_multiple_of(2) {
            actor.reuse()?;
            actor.used_again(4 * EACH)?;
        }
        actor.unmap(PAGE..PAGE + 1)
    };
    let mut looks = 0_u64;
    actor.race(act, || {
        // A free frame may lie with the CPU that has freed it.
        looks += 1;
        if looks.is_multiple_of(EACH) {
            actor.reuse()?;
        }
        actor.look(PAGE).map(drop)
    })
}

pub(super) fn freed_tables<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    let act = |round: usize| {
        let table = round % (PAGES / TABLE) * TABLE;
        let version = actor.map(table)?;
        actor.seen_by(1, version)?;
        actor.unmap(table..table + TABLE)?;
        actor.reuse()
    };
    let mut at = 0;
    // The first page of each table is mapped. No table has a second one, so reading that always begins a walk.
    actor.race(act, || {
        at = (at + TABLE) % PAGES;
        actor.look(at)?;
        actor.miss(at + 1)
    })
}

pub(super) fn switch_under_way<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    actor.race(
        |_| replace(actor, 1, || Ok(())),
        || {
            actor.look(PAGE)?;
            actor.away(Away::OtherSpace, || true)?;
            actor.look(PAGE).map(drop)
        },
    )
}

pub(super) fn many_flushes<C: Cpu>(actor: &Actor<'_, C>) -> Done {
    let own = actor.number();
    actor.clear()?;
    for _ in actor.rounds() {
        actor.map(own)?;
        actor.meet()?;
        (0..actor.cpus()).try_for_each(|page| actor.see(page))?;
        actor.meet()?;
        actor.unmap(own..own + 1)?;
        actor.miss(own)?;
        actor.meet()?;
        (0..actor.cpus()).try_for_each(|page| actor.miss(page))?;
    }
    actor.meet()
}
