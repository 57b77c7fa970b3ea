//! Paying: all debts that exist at the time of the call, however many.

use ceasefire::{Payment, Stamp};

use crate::hands::release_in_debt;
use crate::script::{every, lazy_until, lazy_with, Machine, Space};

const PAGE: u64 = 0x1000;
/// More than there are epochs.
const MANY: u64 = 40;

/// Debts of so many times that no epoch is free, and the open epoch takes the rest.
fn owe_in_every_epoch(m: &Machine) -> (Space, Vec<Stamp>) {
    let p = m.space(1);
    m.switch(1, &p);
    let stamps: Vec<Stamp> = (0..MANY)
        .map(|page| {
            m.fill(1, page * PAGE, 1);
            m.pass(2000);
            release_in_debt(m, &p, page * PAGE)
        })
        .collect();
    assert_eq!(stamps[MANY as usize - 2], stamps[MANY as usize - 1], "no epoch is free");
    (p, stamps)
}

#[test]
fn paying_all_pays_the_open_epoch_too_where_none_is_free_to_follow_it() {
    let m = lazy_until(2, Payment::Demand);
    let (p, stamps) = owe_in_every_epoch(&m);
    assert!(m.cached(1, PAGE).is_some());
    m.events();
    m.pay_all();
    assert!(stamps.iter().all(|stamp| m.is_settled(*stamp)) && !m.owes(&p));
    assert_eq!(m.usable(1), []);
    assert_eq!(m.interrupted(), [1, 1], "one round for the closed epochs, and one for the open one");
    m.pay_all();
    assert_eq!(m.interrupted(), [], "nothing is owed");
}

#[test]
fn paying_all_by_broadcast_pays_the_open_epoch_too() {
    let m = lazy_with(2, every(256), Payment::Demand);
    let (p, stamps) = owe_in_every_epoch(&m);
    m.pay_all();
    assert!(stamps.iter().all(|stamp| m.is_settled(*stamp)) && !m.owes(&p));
    assert_eq!(m.usable(1), []);
}

/// A batch that enters debts while another CPU pays does not keep it paying.
#[test]
fn a_later_debt_is_not_waited_for() {
    let m = lazy_until(3, Payment::Demand);
    let (p, stamps) = owe_in_every_epoch(&m);
    let space = p.clone();
    m.at(crate::script::Point::Wait, move |m| {
        m.on(2, |_| {
            m.fill(1, 99 * PAGE, 1);
            release_in_debt(m, &space, 99 * PAGE);
        });
    });
    m.pay_all();
    assert!(stamps.iter().all(|stamp| m.is_settled(*stamp)));
}

/// A free frame's stamp may be overwritten by a wild store. Debug builds report it.
#[test]
#[cfg(not(debug_assertions))]
fn paying_for_a_stamp_that_no_batch_gave_ends() {
    use ceasefire::Owed;

    use crate::script::lazy;

    let m = lazy(2);
    let p = m.space(1);
    m.switch(1, &p);
    m.fill(1, PAGE, 1);
    let stamp = release_in_debt(&m, &p, PAGE);
    assert!(!m.is_settled(stamp));
    assert_eq!(m.pay(Owed::new(7, Stamp::stored(u64::MAX))), 7);
    assert!(m.is_settled(stamp) && m.cached(1, PAGE).is_none(), "all debts are paid");
}
