//! The end of a space: its ASID is given back once, and only when no CPU runs the space under it.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use ceasefire::{Asid, Batch, Bounds, Engine, Flush, PageSize, Root, Schedule, StillLoaded};

use crate::hands::{was, Hands};
use crate::script::{broadcasting, every, hybrid, id, machine, Machine, Space};
use crate::threads::Threads;

const PAGE: u64 = 0x1000;

/// A space that every CPU of `cpus` runs under a global ASID, with a page cached on each.
fn running(m: &Machine, cpus: impl IntoIterator<Item = usize> + Clone) -> Space {
    let p = m.space(1);
    for cpu in cpus.clone() {
        m.switch(cpu, &p);
    }
    // Where spaces move to an ASID, two flushes end the transition.
    for _ in 0..3 {
        m.flush(&p, Flush::page(9 * PAGE, PageSize::KIB_4));
    }
    assert!(p.asid().is_some_and(|asid| asid != Asid::SHARED));
    for cpu in cpus {
        m.fill(cpu, PAGE, 1);
    }
    m.events();
    p
}

/// The ASIDs of `asids` new spaces, one for each ASID there is.
fn asids_of_new(m: &Machine, root: u64, count: u64) -> (Vec<Space>, Vec<Option<Asid>>) {
    let spaces: Vec<Space> = (0..count).map(|space| m.space(root + space)).collect();
    let asids = spaces.iter().map(|space| space.asid()).collect();
    (spaces, asids)
}

#[test]
fn an_asid_under_which_a_cpu_runs_is_not_given_back() {
    let m = broadcasting(3, 3);
    let p = running(&m, [1]);
    let asid = p.asid();
    assert_eq!(m.retire(&p), Err(StillLoaded(id(1))));
    let (_spaces, asids) = asids_of_new(&m, 10, 4);
    assert!(!asids.contains(&asid), "R4: {asids:?}");
    assert!(m.cached(1, PAGE).is_some(), "the program runs on");
    drop(m.on(1, Engine::unload));
    assert_eq!((m.retire(&p), m.retire(&p)), (Ok(()), Ok(())));
    let (_more, asids) = asids_of_new(&m, 20, 4);
    assert_eq!(asids.iter().filter(|given| **given == asid).count(), 1, "once: {asids:?}");
}

/// A CPU loads the space after its end, while another runs it under the ASID.
#[test]
fn a_space_that_is_loaded_after_its_end_is_flushed_on_both_sides() {
    let m = broadcasting(4, 3);
    let p = running(&m, [1]);
    let asid = p.asid();
    assert!(m.retire(&p).is_err());
    m.switch(2, &p);
    assert_eq!(m.on(2, Engine::loaded_asid), Some(Asid::SHARED));
    assert_eq!(m.on(1, Engine::loaded_asid), asid);
    m.fill(2, PAGE, 1);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!((m.cached(1, PAGE), m.cached(2, PAGE)), (None, None));
    for (cpu, page) in [(1, PAGE), (2, PAGE)] {
        m.fill(cpu, page, 2);
    }
    let mut batch: Batch<'_, _, u64, _> = Batch::new(&m, Schedule::Batched, |_| {
        assert_eq!((m.cached(1, PAGE), m.cached(2, PAGE)), (None, None));
    });
    batch.unmap(&p, was(PAGE, false), 1);
    drop(batch);
    // The late CPU continues under the shared ASID, which has no owner and is not given back.
    drop(m.on(1, Engine::unload));
    assert_eq!(m.retire(&p), Ok(()));
    m.fill(2, PAGE, 3);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.cached(2, PAGE), None);
    // Entries of other spaces under the shared ASID are not used: each load flushes it.
    m.fill(2, PAGE, 3);
    let others = [30, 31, 32].map(|root| m.space(root));
    assert!(others.iter().any(|space| space.asid() == Some(Asid::SHARED)));
    for space in &others {
        m.switch(2, space);
        assert_eq!(m.usable(2), []);
    }
}

#[test]
fn a_space_that_got_its_asid_while_it_ran_ends_on_slots() {
    let m = hybrid(4, 1);
    let p = running(&m, [1, 2]);
    let asid = p.asid();
    assert_eq!(m.retire(&p), Err(StillLoaded(id(1))));
    // A CPU that loads the space takes a slot. A flush reaches both sides, and moves the others to slots.
    m.switch(3, &p);
    assert_ne!(m.on(3, Engine::loaded_asid), asid);
    m.fill(3, PAGE, 1);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert!((1..4).all(|cpu| m.cached(cpu, PAGE).is_none()));
    assert!((1..4).all(|cpu| m.on(cpu, Engine::loaded_asid) != asid));
    assert_eq!((m.retire(&p), p.asid()), (Ok(()), None), "the flush ended the transition");
    let q = m.space(2);
    for cpu in [1, 2] {
        m.switch(cpu, &q);
    }
    m.flush(&q, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(q.asid(), asid, "given back once: there is one");
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    let r = m.space(3);
    for cpu in [0, 3] {
        m.switch(cpu, &r);
    }
    m.flush(&r, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(r.asid(), None);
}

#[test]
fn a_space_that_ends_while_it_moves_to_an_asid_keeps_it_from_others_until_no_cpu_has_it() {
    let m = hybrid(4, 1);
    let p = m.space(1);
    for cpu in [1, 2] {
        m.switch(cpu, &p);
    }
    m.flush(&p, Flush::page(9 * PAGE, PageSize::KIB_4));
    let asid = p.asid();
    assert!(asid.is_some(), "it is moving");
    // CPU 2 has moved, CPU 1 has not.
    drop(m.on(2, Engine::unload));
    m.switch(2, &p);
    assert_eq!(m.retire(&p), Err(StillLoaded(id(2))));
    drop(m.on(2, Engine::unload));
    assert_eq!(m.retire(&p), Ok(()), "CPU 1 runs it under a slot");
    m.fill(1, PAGE, 1);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.cached(1, PAGE), None);
}

#[test]
fn a_space_that_is_dropped_before_its_end_is_counted() {
    let m = broadcasting(2, 3);
    let before = Engine::<crate::script::Script>::leaked_asids();
    drop(m.space(1));
    // Other tests may drop spaces at the same time.
    assert!(Engine::<crate::script::Script>::leaked_asids() > before);
}

/// Histories of the next test.
const SEEDS: u32 = 300;

/// A CPU switches between two spaces, one of which ends at any moment. The end waits for a switch that is under way, and
/// then judges.
#[test]
fn a_switch_delays_the_end_and_decides_it_only_if_the_cpu_then_runs_the_space() {
    let mut given_back = 0;
    for seed in 0..u64::from(ceasefire_testing::cases(SEEDS)) {
        let engine = Arc::new(Threads::engine(seed, 2, every(4), Bounds::STRICT));
        let [p, q] = [1, 2].map(|root| Arc::new(engine.new_space(Root(root))));
        let asid = p.asid().expect("every space gets one");
        let (begun, retired) = (AtomicBool::new(false), Mutex::new(None));
        Threads::run(&engine, |engine, me| {
            let threads = engine.platform();
            if me == 0 {
                while !begun.load(SeqCst) {
                    threads.pause();
                }
                (0..threads.random(30)).for_each(|_| threads.pause());
                let result = engine.retire(&p);
                // No other CPU had its turn since the judgement.
                let runs = threads.runs_under(1, p.id(), asid);
                assert_eq!(result, if runs { Err(StillLoaded(id(1))) } else { Ok(()) }, "seed {seed}");
                *retired.lock().expect("not poisoned") = Some(result);
                return;
            }
            while retired.lock().expect("not poisoned").is_none() {
                drop(engine.switch_to(&p));
                begun.store(true, SeqCst);
                // A switch that began before the end may end after it.
                let ended = *retired.lock().expect("not poisoned") == Some(Ok(()));
                assert!(!ended || !threads.runs_under(1, p.id(), asid), "R4: seed {seed}");
                drop(engine.switch_to(&q));
            }
        });
        given_back += u32::from(matches!(retired.into_inner(), Ok(Some(Ok(())))));
    }
    // A few histories may all end alike.
    let all = ceasefire_testing::cases(SEEDS);
    assert!(all < SEEDS || (SEEDS / 10..SEEDS * 9 / 10).contains(&given_back), "{given_back} of {SEEDS}");
}

#[test]
fn a_space_without_an_asid_has_nothing_to_give_back() {
    let m = machine(2);
    let p = m.space(1);
    m.switch(1, &p);
    assert_eq!(m.retire(&p), Ok(()));
    m.fill(1, PAGE, 1);
    m.flush(&p, Flush::page(PAGE, PageSize::KIB_4));
    assert_eq!(m.cached(1, PAGE), None);
}

#[test]
fn the_error_names_the_cpu() {
    let error = StillLoaded(id(7)).to_string();
    assert!(error.contains("CPU 7"), "{error}");
}
