//! The time at which new pages are listed when programs give pages back.

use ceasefire_memory::{Access, Config, LruDrain, Pages, PAGE_BYTES};
use proptest::prelude::*;

use crate::common::{config, end, exhaust, Rig};

/// Stores to fresh pages and gives each back at once; returns after each how many frames were not free.
fn held(drain: LruDrain, lru_batch: usize, pages: u64) -> Vec<u64> {
    let rig = Rig::by_hand(Config { lru_batch, lru_drain: drain, ..config(512) });
    let all = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let base = rig.memory.map_anonymous(&space, Pages::new(pages)).unwrap();
    let mut before = None;
    let held = (0..pages)
        .map(|page| {
            let address = base + page * PAGE_BYTES;
            rig.memory.fault(&space, address, Access::Write).unwrap();
            // Besides the page itself there are the tables, all of which exist by now.
            let tables = *before.get_or_insert(rig.memory.free_frames() + 1);
            rig.memory.discard(&space, address, Pages::new(1)).unwrap();
            tables - rig.memory.free_frames()
        })
        .collect();
    drop(rig.memory.engine().unload());
    rig.memory.exit(space);
    rig.memory.list_collected();
    assert_eq!(rig.memory.free_frames(), all, "frames were lost or found");
    rig.platform().assert_no_violation();
    held
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ceasefire_testing::cases(60), failure_persistence: None, ..ProptestConfig::default() })]

    /// Eager: a page is free as soon as it is given back. Batched: the batch holds each page until the batch is full;
    /// then all are free.
    #[test]
    fn a_page_given_back_is_free_at_once_or_with_its_batch(batch in 1_usize..=31, pages in 1_u64..100) {
        prop_assert_eq!(held(LruDrain::Eager, batch, pages), vec![0; pages as usize]);
        let expected: Vec<u64> = (1..=pages).map(|made| made % batch as u64).collect();
        let batched = held(LruDrain::Batched, batch, pages);
        if batch == 1 {
            prop_assert_eq!(batched, vec![0; pages as usize]);
        } else {
            // The page that fills the batch is listed while the program still has it.
            prop_assert_eq!(batched, expected);
        }
    }
}

#[test]
fn an_allocation_reclaims_pages_on_their_way_to_the_lists_on_another_cpu() {
    let rig = Rig::by_hand(Config { lru_batch: 31, ..config(512) });
    let file = rig.memory.create_file(20).unwrap();
    let bytes = 20 * PAGE_BYTES as usize;
    assert_eq!(rig.on(1, || rig.memory.read(file, 0, &mut vec![0; bytes])), Ok(bytes));
    assert_eq!(rig.memory.cached_pages(file), 20);
    let spaces = exhaust(&rig);
    assert_eq!(rig.memory.cached_pages(file), 0, "memory is out while pages could be freed");
    end(&rig, spaces);
}

#[test]
fn a_batch_is_between_one_page_and_31() {
    assert_eq!(held(LruDrain::Batched, 0, 3), held(LruDrain::Batched, 1, 3));
    assert_eq!(held(LruDrain::Batched, usize::MAX, 70), held(LruDrain::Batched, 31, 70));
}
