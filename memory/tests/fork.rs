//! fork: memory is shared until it is stored to.

use ceasefire_memory::{Config, FaultError, ForkError, NodeId, Pages, Protection, USER_END};

use crate::common::{at, between, config, finish, shared_space, Moment, Rig, Space};

/// A space that both CPUs run, with memory in which both have stored to `pages` pages: page `n` holds `n + 1`.
fn stored(pages: u64) -> (Rig, Space, u64, u64) {
    let (rig, space) = shared_space(1024);
    let free = rig.memory.free_frames() + 1;
    let start = rig.memory.map_anonymous(&space, Pages::new(pages)).unwrap();
    for page in 0..pages {
        rig.store(&space, at(start, page), 0).unwrap();
        rig.on(1, || rig.store(&space, at(start, page), page + 1)).unwrap();
    }
    (rig, space, start, free)
}

/// Runs `body` with `space` loaded on CPU 0.
fn inside<R>(rig: &Rig, space: &Space, home: &Space, body: impl FnOnce() -> R) -> R {
    rig.run(space);
    let result = body();
    rig.run(home);
    result
}

fn end(rig: &Rig, child: Space, home: &Space) {
    rig.memory.exit(child);
    rig.run(home);
}

#[test]
fn neither_sees_what_the_other_stores_later() {
    let (rig, space, start, free) = stored(4);
    let child = rig.memory.fork(&space).unwrap();
    rig.store(&space, start, 50).unwrap();
    inside(&rig, &child, &space, || {
        assert_eq!(rig.load(&child, start), Ok(1));
        rig.store(&child, at(start, 1), 60).unwrap();
        rig.store(&child, start, 70).unwrap();
    });
    for cpu in 0..2 {
        rig.on(cpu, || {
            assert_eq!(rig.load(&space, start), Ok(50));
            assert_eq!(rig.load(&space, at(start, 1)), Ok(2));
        });
    }
    inside(&rig, &child, &space, || {
        assert_eq!(rig.load(&child, start), Ok(70));
        assert_eq!(rig.load(&child, at(start, 1)), Ok(60));
        assert_eq!(rig.load(&child, at(start, 3)), Ok(4));
    });
    end(&rig, child, &space);
    finish(&rig, space, &[], free);
}

#[test]
fn the_kernels_half_is_in_every_root_and_stays() {
    let (rig, space, start, free) = stored(4);
    let child = rig.memory.fork(&space).unwrap();
    rig.memory.unmap(&space, 0, between(0, USER_END)).unwrap();
    assert!(rig.platform().has_kernel(&space) && rig.platform().has_kernel(&child));
    inside(&rig, &child, &space, || assert_eq!(rig.load(&child, start), Ok(1)));
    // The machine checks the kernel's half when a root is loaded, and when it is freed.
    end(&rig, child, &space);
    finish(&rig, space, &[], free);
}

#[test]
fn a_fork_takes_frames_only_for_tables() {
    let (rig, space, start, free) = stored(100);
    let before = rig.memory.free_frames();
    let child = rig.memory.fork(&space).unwrap();
    assert_eq!(rig.memory.free_frames(), before - 4, "the root and three tables below it");
    inside(&rig, &child, &space, || assert_eq!(rig.load(&child, at(start, 99)), Ok(100)));
    end(&rig, child, &space);
    assert_eq!(rig.memory.free_frames(), before);
    finish(&rig, space, &[], free);
}

#[test]
fn a_fork_makes_no_table_where_the_parent_has_none() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let start = rig.memory.map_anonymous(&space, Pages::new(64 * 512)).unwrap();
    for page in [0, 63 * 512] {
        rig.store(&space, at(start, page), 1).unwrap();
    }
    let before = rig.memory.free_frames();
    let child = rig.memory.fork(&space).unwrap();
    assert_eq!(before - rig.memory.free_frames(), 5, "the root, two tables above, two of the lowest level");
    end(&rig, child, &space);
    finish(&rig, space, &[], free);
}

#[test]
fn when_fork_returns_no_cpu_stores_to_shared_pages() {
    let (rig, space, start, free) = stored(4);
    let child = rig.memory.fork(&space).unwrap();
    // CPU 1 could store through an old entry, and the child would see it.
    rig.on(1, || rig.store(&space, start, 9)).unwrap();
    inside(&rig, &child, &space, || assert_eq!(rig.load(&child, start), Ok(1)));
    end(&rig, child, &space);
    finish(&rig, space, &[], free);
}

#[test]
fn a_page_without_other_holders_is_stored_to_in_place() {
    let (rig, space, start, free) = stored(4);
    let child = rig.memory.fork(&space).unwrap();
    end(&rig, child, &space);
    rig.memory.list_collected();
    let before = rig.memory.free_frames();
    for page in 0..4 {
        rig.store(&space, at(start, page), 9).unwrap();
    }
    assert_eq!(rig.memory.free_frames(), before, "no page was copied");
    finish(&rig, space, &[], free);
}

#[test]
fn three_generations_are_separate_in_any_order_of_stores() {
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let (rig, space, start, free) = stored(2);
        let child = rig.memory.fork(&space).unwrap();
        let grandchild = rig.memory.fork(&child).unwrap();
        let spaces = [&space, &child, &grandchild];
        let mut expected = [1, 1, 1];
        for index in order {
            inside(&rig, spaces[index], &space, || {
                rig.store(spaces[index], start, 10 + index as u64).unwrap();
            });
            expected[index] = 10 + index as u64;
            for (each, value) in spaces.iter().zip(expected) {
                inside(&rig, each, &space, || {
                    assert_eq!(rig.load(each, start), Ok(value), "{order:?}");
                    assert_eq!(rig.load(each, at(start, 1)), Ok(2));
                });
            }
        }
        end(&rig, child, &space);
        inside(&rig, &grandchild, &space, || assert_eq!(rig.load(&grandchild, start), Ok(12)));
        end(&rig, grandchild, &space);
        finish(&rig, space, &[], free);
    }
}

#[test]
fn a_grandchild_outlives_the_others() {
    let (rig, space, start, free) = stored(4);
    let child = rig.memory.fork(&space).unwrap();
    let grandchild = rig.memory.fork(&child).unwrap();
    end(&rig, child, &space);
    rig.on(1, || drop(rig.memory.engine().unload()));
    rig.memory.exit(space);
    rig.run(&grandchild);
    rig.on(1, || rig.run(&grandchild));
    for page in 0..4 {
        assert_eq!(rig.load(&grandchild, at(start, page)), Ok(page + 1));
        rig.store(&grandchild, at(start, page), 5).unwrap();
    }
    finish(&rig, grandchild, &[], free);
}

#[test]
fn shared_files_stay_shared_and_private_copies_part() {
    let (rig, space) = shared_space(512);
    let free = rig.memory.free_frames() + 1;
    let file = rig.memory.create_file(2).unwrap();
    let shared = rig.memory.map_shared(&space, file, 0, Pages::new(2), true).unwrap();
    let private = rig.memory.map_private(&space, file, 0, Pages::new(2)).unwrap();
    rig.store(&space, shared, 1).unwrap();
    rig.store(&space, private + 8, 2).unwrap();
    let child = rig.memory.fork(&space).unwrap();
    rig.store(&space, shared, 3).unwrap();
    rig.store(&space, private + 8, 4).unwrap();
    inside(&rig, &child, &space, || {
        assert_eq!(rig.load(&child, shared), Ok(3));
        assert_eq!(rig.load(&child, private), Ok(1));
        assert_eq!(rig.load(&child, private + 8), Ok(2));
        assert_eq!(rig.load(&child, at(private, 1)), Ok(0));
        rig.store(&child, at(shared, 1), 5).unwrap();
    });
    assert_eq!(rig.load(&space, at(shared, 1)), Ok(5));
    end(&rig, child, &space);
    finish(&rig, space, &[file], free);
}

#[test]
fn rights_are_inherited_and_locks_are_not() {
    let (rig, space, start, free) = stored(4);
    rig.memory.protect(&space, start, Pages::new(1), Protection::Read).unwrap();
    rig.memory.protect(&space, at(start, 1), Pages::new(1), Protection::None).unwrap();
    rig.memory.lock(&space, at(start, 2), Pages::new(1)).unwrap();
    let child = rig.memory.fork(&space).unwrap();
    inside(&rig, &child, &space, || {
        assert_eq!(rig.load(&child, start), Ok(1));
        assert_eq!(rig.store(&child, start, 1), Err(FaultError::ReadOnly(start)));
        assert_eq!(rig.load(&child, at(start, 1)), Err(FaultError::NoAccess(at(start, 1))));
        rig.memory.protect(&child, at(start, 1), Pages::new(1), Protection::ReadWrite).unwrap();
        rig.store(&child, at(start, 1), 9).unwrap();
        assert_eq!(rig.memory.discard(&child, at(start, 2), Pages::new(1)), Ok(()));
    });
    assert!(rig.memory.discard(&space, at(start, 2), Pages::new(1)).is_err(), "it is locked here");
    rig.memory.protect(&space, at(start, 1), Pages::new(1), Protection::Read).unwrap();
    assert_eq!(rig.load(&space, at(start, 1)), Ok(2));
    end(&rig, child, &space);
    finish(&rig, space, &[], free);
}

#[test]
fn a_fork_without_memory_is_an_error_and_the_parent_goes_on() {
    let (rig, space, start, free) = stored(4);
    let filler = rig.memory.map_anonymous(&space, Pages::new(1500)).unwrap();
    let full = (0..1500).find(|&page| rig.store(&space, at(filler, page), page).is_err()).unwrap();
    for frames in 0..5 {
        rig.memory.discard(&space, filler, Pages::new(frames + 1)).unwrap();
        if let Ok(child) = rig.memory.fork(&space) {
            end(&rig, child, &space);
            assert!(frames >= 3, "{frames} frames cannot hold a root and tables");
        }
        for page in 0..=frames {
            rig.store(&space, at(filler, page), page).unwrap();
        }
    }
    assert_eq!(rig.memory.fork(&space).map(drop), Err(ForkError::OutOfMemory));
    rig.on(1, || rig.store(&space, start, 8)).unwrap();
    assert_eq!(rig.load(&space, start), Ok(8));
    assert_eq!(rig.load(&space, at(filler, full - 1)), Ok(full - 1));
    finish(&rig, space, &[], free);
}

#[test]
fn pages_on_the_swap_device_are_shared_and_come_back_to_each() {
    let rig = Rig::by_hand(Config { swap_pages: 64, ..config(512) });
    let free = rig.memory.free_frames();
    let space = rig.memory.new_space().unwrap();
    rig.run(&space);
    let start = rig.memory.map_anonymous(&space, Pages::new(4)).unwrap();
    (0..4).for_each(|page| rig.store(&space, at(start, page), page + 1).unwrap());
    rig.memory.advise_page_out(&space, start, Pages::new(4)).unwrap();
    assert_eq!(rig.memory.free_slots(), 60);
    let child = rig.memory.fork(&space).unwrap();
    assert_eq!(rig.memory.free_slots(), 60, "the slots are shared");
    rig.store(&space, start, 50).unwrap();
    inside(&rig, &child, &space, || {
        assert_eq!(rig.load(&child, start), Ok(1));
        assert_eq!(rig.load(&child, at(start, 1)), Ok(2));
        rig.store(&child, at(start, 1), 60).unwrap();
    });
    assert_eq!(rig.load(&space, at(start, 1)), Ok(2));
    assert_eq!(rig.load(&space, start), Ok(50));
    end(&rig, child, &space);
    for page in 1..4 {
        assert_eq!(rig.load(&space, at(start, page)), Ok(page + 1));
    }
    finish(&rig, space, &[], free);
    assert_eq!(rig.memory.free_slots(), 64);
}

#[test]
fn a_fork_of_moved_mappings_finds_their_pages() {
    let (rig, space, start, free) = stored(4);
    let to = 1 << 40;
    let pages = Pages::new(2);
    rig.memory.remap(&space, at(start, 2), pages, pages, ceasefire_memory::Placement::At(to)).unwrap();
    let child = rig.memory.fork(&space).unwrap();
    rig.store(&space, to, 9).unwrap();
    inside(&rig, &child, &space, || {
        assert_eq!(rig.load(&child, to), Ok(3));
        assert_eq!(rig.load(&child, at(start, 1)), Ok(2));
    });
    assert_eq!(rig.memory.migrate_space(&child, NodeId(0), NodeId(1)).unwrap().moved, 1, "only its own page");
    end(&rig, child, &space);
    finish(&rig, space, &[], free);
}

#[test]
fn a_copy_has_the_bytes_from_when_it_began() {
    let (rig, space, start, free) = stored(1);
    let child = rig.memory.fork(&space).unwrap();
    let inner = (rig.clone(), space.clone());
    rig.platform().at(Moment::Copy, move || {
        let (rig, space) = inner;
        rig.on(1, || assert_eq!(rig.load(&space, start), Ok(1), "the old page can still be read"));
    });
    rig.store(&space, start, 2).unwrap();
    assert!(rig.platform().all_done());
    assert_eq!(
        rig.on(1, || rig.load(&space, start)),
        Ok(2),
        "the old page is gone once there is a newer one"
    );
    end(&rig, child, &space);
    finish(&rig, space, &[], free);
}
