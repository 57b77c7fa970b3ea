//! The guards of the memory manager, and the engine's where the memory manager asks for them.

use ceasefire::sabotage::Guard as Engine;
use ceasefire::Schedule;
use ceasefire_memory::sabotage::Guard;
use ceasefire_memory::{Config, NodeLayout, Protection};

use super::programs::{breaking, without};
use crate::model::promise::Promise;
use crate::model::removed::Removed;
use crate::model::rule::Rule::{Words, R1, R2, R3, R5, R6, R7};
use crate::search::scenario::{Managing, Scenario, PLAIN};
use crate::subject::manager::Manager;

/// Without a guard of the memory manager.
const fn unguarded(guard: Guard) -> Removed {
    Removed::Manager(guard)
}

/// The frames of a node.
const FRAMES: u32 = 64;

/// Few frames, no neighbours in a fault, and pages that are listed at once.
fn one_node() -> Config {
    Config {
        fault_around: 1,
        lru_batch: 1,
        read_ahead: 1,
        objects: 8,
        ..Config::new(vec![NodeLayout::new(FRAMES)], 2, Schedule::Batched)
    }
}

/// Each CPU with a node of its own.
fn two_nodes() -> Config {
    Config { nodes: vec![NodeLayout::new(FRAMES); 2], ..one_node() }
}

/// The same, with faults that map neighbours.
fn with_neighbours() -> Config {
    Config { fault_around: 16, ..two_nodes() }
}

/// A space with two pages of memory.
fn memory(manager: &Manager) {
    manager.add_space();
    manager.add_memory(2);
}

/// A space that maps the two pages of a file for stores.
fn shared_file(manager: &Manager) {
    manager.add_space();
    manager.add_file(2);
    manager.add_shared(0, 2, true);
}

/// A space that maps the two pages of a file for loads.
fn read_file(manager: &Manager) {
    manager.add_space();
    manager.add_file(2);
    manager.add_shared(0, 2, false);
}

/// The pages of a second range, which are worked on before the one flush for both.
const MORE: u64 = 4;

/// The pages of which the memory manager keeps the debts together.
const TOGETHER: u32 = 64;

/// A space that maps the last page of one group of a file, and the first of the next.
fn two_groups(manager: &Manager) {
    manager.add_space();
    manager.add_file(TOGETHER + 1);
    manager.add_shared(TOGETHER - 1, 2, false);
}

/// Mappings of one page, each of which needs a table of its own.
const TABLES: usize = 4;

/// Frames for a huge page and for as many small ones, which are listed many at a time.
fn with_huge_pages() -> Config {
    Config { nodes: vec![NodeLayout::new(1200)], lru_batch: 31, ..one_node() }
}

/// The same, with a node to which pages can be moved.
fn with_huge_pages_and_a_node() -> Config {
    Config { nodes: vec![NodeLayout::new(1200), NodeLayout::new(FRAMES)], ..with_huge_pages() }
}

/// Areas each of which is unmapped beside its first fault.
const AREAS: u64 = 8;

/// The pages of a table, or of a huge page.
const HUGE: u64 = 512;

/// A space with memory as long as the range of a table.
fn table_of_memory(manager: &Manager) {
    manager.add_space();
    manager.add_memory(HUGE);
}

/// A child of the first space. Each has a first page of its own, and the reverse map leads from each to both spaces.
fn and_child(manager: &Manager) {
    let stores = |space| {
        manager.run(&space);
        manager.store(manager.at(0));
        manager.leave();
    };
    stores(manager.space(0));
    stores(manager.add_child());
}

/// Follows the reverse map from the child's page again and again.
fn walks(manager: &Manager) {
    manager.until_over(|| {
        manager.migrate(&manager.space(1), 0, 1);
        manager.migrate(&manager.space(1), 1, 0);
        true
    });
}

/// Frames for a table of memory, of which DONTNEED frees the table.
fn with_freed_tables() -> Config {
    Config { frees_tables: true, ..with_huge_pages() }
}

/// Discards the range of a table again and again.
fn discards_table(manager: &Manager) {
    manager.await_flag(0);
    (0..4).for_each(|_| manager.discard(&manager.space(0), manager.at(0), HUGE));
    manager.end();
}

/// A space with memory in a huge page, from the first store on.
fn huge_memory(manager: &Manager) {
    table_of_memory(manager);
    manager.allow_huge(&manager.space(0), manager.at(0), HUGE);
}

/// The same with a second mapping, which keeps the tables above the first in use.
fn table_with_neighbour(manager: &Manager) {
    table_of_memory(manager);
    let space = manager.space(0);
    let neighbour = manager.map_memory(&space, 1).expect("there is room");
    manager.run(&space);
    manager.store(neighbour);
    manager.leave();
}

/// A swap device with a few slots.
fn swapping() -> Config {
    Config { swap_pages: 4, ..one_node() }
}

/// Stores to the first page, says so, and stores again and again.
fn stores(manager: &Manager) {
    stores_and(manager, |_| ());
}

/// The same; between the first store and the others it does something else.
fn stores_and(manager: &Manager, act: fn(&Manager)) {
    let space = manager.space(0);
    manager.run(&space);
    manager.store(manager.at(0));
    manager.set_flag(0);
    act(manager);
    manager.until_over(|| manager.store(manager.at(0)));
    manager.leave();
}

/// Loads a page, says so, and loads again and again.
fn loads(manager: &Manager, page: u64) {
    let space = manager.space(0);
    manager.run(&space);
    manager.load(manager.at(page));
    manager.set_flag(0);
    manager.until_over(|| manager.load(manager.at(page)));
    manager.leave();
}

fn unmaps(manager: &Manager) {
    manager.await_flag(0);
    manager.unmap(&manager.space(0), manager.at(0), 2);
    manager.end();
}

const PLAYED: Managing = Managing { config: one_node, before: memory, programs: &[] };

/// Once the other CPU has used the first page, reclaim takes it and leaves it in debt.
fn reclaims(manager: &Manager) {
    let space = manager.space(0);
    manager.await_flag(0);
    // The first one or two find that the page was used.
    (0..3).for_each(|_| manager.reclaim_range(&space, manager.at(0), 1));
}

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "M1-munmap",
        source: "memory manager, munmap",
        guards: &[
            (&[without(Engine::GatherFlush)], &[R1, R2, R3]),
            (&[without(Engine::Others)], &[R1, R2, R3]),
        ],
        manager: Some(Managing { programs: &[unmaps, stores], ..PLAYED }),
        ..PLAIN
    },
    Scenario {
        name: "M2-stored-page-of-a-file-is-unmapped",
        source: "Linux, 1cf35d47712d",
        guards: &[(&[unguarded(Guard::DirtyTable)], &[R5])],
        manager: Some(Managing {
            before: shared_file,
            programs: &[unmaps, |manager| stores_and(manager, Manager::sync)],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M3-truncate-beside-munmap",
        source: "memory manager, Guard::Unhook",
        guards: &[(&[unguarded(Guard::Unhook)], &[Words])],
        manager: Some(Managing {
            before: |manager| {
                shared_file(manager);
                manager.write(0);
            },
            programs: &[
                |manager| {
                    manager.await_flag(0);
                    manager.unmap(&manager.space(0), manager.at(0), 2);
                },
                |manager| loads(manager, 0),
                |manager| {
                    manager.await_flag(0);
                    manager.await_entry(manager.at(0), |entry| entry.is_none());
                    manager.truncate(0);
                    manager.end();
                },
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M4-write-out-beside-munmap",
        source: "memory manager, Guard::Holders",
        guards: &[(&[unguarded(Guard::Holders)], &[R5])],
        manager: Some(Managing {
            before: shared_file,
            programs: &[unmaps, |manager| {
                stores_and(manager, |manager| manager.invalidate(0));
            }],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M5-given-up-page-is-listed",
        source: "memory manager, madvise FREE",
        guards: &[(&[without(Engine::UnlockFlush)], &[R5])],
        manager: Some(Managing {
            before: |manager| {
                manager.add_space();
                manager.add_memory(2 + MORE);
            },
            programs: &[
                |manager| {
                    manager.await_flag(1);
                    manager.give_up(&manager.space(0), &[(manager.at(0), 1), (manager.at(2), MORE)]);
                    manager.end();
                },
                |manager| {
                    let space = manager.space(0);
                    manager.run(&space);
                    for page in [0].into_iter().chain(2..2 + MORE) {
                        manager.store(manager.at(page));
                    }
                    stores(manager);
                },
                |manager| {
                    manager.await_flag(0);
                    manager.exhaust();
                    manager.set_flag(1);
                    manager.await_entry(manager.at(0), |entry| entry.is_some_and(|entry| !entry.dirty()));
                    manager.reclaim();
                },
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M6-given-up-page-is-stored-to",
        source: "memory manager, Guard::Restore",
        guards: &[(&[unguarded(Guard::Restore)], &[Words])],
        manager: Some(Managing {
            programs: &[
                |manager| {
                    let space = manager.space(0);
                    manager.run(&space);
                    manager.store(manager.at(0));
                    manager.give_up(&space, &[(manager.at(0), 1)]);
                    manager.store(manager.at(0));
                    manager.set_flag(0);
                    manager.until_over(|| manager.load(manager.at(0)));
                    manager.leave();
                },
                |manager| {
                    manager.await_flag(0);
                    manager.page_out(&manager.space(0), manager.at(0), 1);
                    manager.end();
                },
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M7-store-beside-write-out",
        source: "memory manager, Guard::Stable",
        guards: &[(&[unguarded(Guard::Stable)], &[R5])],
        manager: Some(Managing {
            before: shared_file,
            programs: &[
                |manager| {
                    manager.await_flag(0);
                    (0..2).for_each(|_| manager.sync());
                    manager.end();
                },
                stores,
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M8-write-to-a-page-whose-slot-owes",
        source: "LUF, scenarios 3 to 6, hole 9; Linux, page reclaim and a fault",
        guards: &[(&[unguarded(Guard::Slot)], &[R6])],
        lazy: true,
        manager: Some(Managing {
            config: two_nodes,
            before: read_file,
            programs: &[
                |manager| {
                    manager.await_flag(0);
                    manager.migrate(&manager.space(0), 1, 0);
                    manager.write(0);
                    manager.end();
                },
                |manager| loads(manager, 0),
            ],
        }),
        ..PLAIN
    },
    Scenario {
        name: "M9-neighbour-whose-slot-owes",
        source: "LUF, scenario 4, hole 6",
        guards: &[(&[unguarded(Guard::Slot)], &[R6])],
        lazy: true,
        manager: Some(Managing {
            config: with_neighbours,
            before: two_groups,
            programs: &[
                |manager| {
                    manager.await_flag(0);
                    let space = manager.space(0);
                    manager.migrate(&space, 1, 0);
                    manager.run(&space);
                    manager.load(manager.at(0));
                    manager.end();
                    manager.leave();
                },
                |manager| loads(manager, 1),
            ],
        }),
        ..PLAIN
    },
    Scenario {
        name: "M10-frame-that-owes-is-handed-out",
        source: "LUF, holes 1 and 3",
        guards: &[(&[without(Engine::Stamp)], &[R1])],
        lazy: true,
        manager: Some(Managing {
            config: two_nodes,
            before: read_file,
            programs: &[
                |manager| {
                    manager.await_flag(0);
                    manager.migrate(&manager.space(0), 1, 0);
                    manager.exhaust();
                    manager.end();
                },
                |manager| loads(manager, 0),
            ],
        }),
        ..PLAIN
    },
    Scenario {
        name: "M11-munmap-where-reclaim-owes",
        source: "LUF, scenarios 1 and 2",
        guards: &[(&[without(Engine::Settle)], &[R3])],
        lazy: true,
        manager: Some(Managing {
            before: read_file,
            programs: &[
                |manager| {
                    reclaims(manager);
                    manager.discard(&manager.space(0), manager.at(0), 1);
                    manager.end();
                },
                |manager| loads(manager, 0),
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M12-sync-beside-a-fault-that-makes-a-table",
        source: "memory manager, page lock",
        guards: &[(&[breaking(Promise::Consistent)], &[R5])],
        manager: Some(Managing {
            before: |manager| {
                manager.add_space();
                manager.add_file(1);
                for _ in 0..TABLES {
                    manager.map_file(&manager.space(0), 0, 1, true);
                }
            },
            programs: &[
                |manager| {
                    for _ in 0..TABLES {
                        manager.write(0);
                        manager.sync();
                    }
                    manager.end();
                },
                |manager| {
                    let space = manager.space(0);
                    manager.run(&space);
                    for (start, _) in manager.mappings(&space) {
                        manager.store(start);
                        manager.store(start);
                    }
                    manager.until_over(|| {
                        manager.mappings(&space).iter().all(|&(start, _)| manager.store(start))
                    });
                    manager.leave();
                },
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M13-collapse",
        source: "memory manager, madvise COLLAPSE; Linux, collapse_huge_page",
        guards: &[(&[without(Engine::Tables)], &[R2]), (&[without(Engine::GatherFlush)], &[R1, R2, R6, R7])],
        manager: Some(Managing {
            config: with_huge_pages_and_a_node,
            before: |manager| {
                table_of_memory(manager);
                and_child(manager);
            },
            programs: &[
                |manager| {
                    manager.await_flag(0);
                    manager.collapse(&manager.space(0), manager.at(0));
                    manager.end();
                },
                stores,
                // The reverse map leads from the child's page to the table.
                |manager| {
                    manager.await_flag(0);
                    walks(manager);
                },
            ],
        }),
        ..PLAIN
    },
    Scenario {
        name: "M14-huge-page-is-split",
        source: "memory manager, mprotect of a part of a huge page; Intel SDM volume 3, 4.10.2.3",
        // A CPU that has missed the flush of the split is behind by two flushes in the end.
        guards: &[(&[without(Engine::AtOnce), without(Engine::OneBehind)], &[R3])],
        manager: Some(Managing {
            config: with_huge_pages,
            before: huge_memory,
            programs: &[
                |manager| {
                    manager.await_flag(0);
                    manager.protect(&manager.space(0), manager.at(0), 1, Protection::Read);
                    manager.end();
                },
                |manager| stores_and(manager, |manager| manager.await_entry(manager.at(0), |_| false)),
            ],
        }),
        ..PLAIN
    },
    Scenario {
        name: "M15-mremap-of-a-table",
        source: "memory manager, mremap; Linux, move_normal_pmd",
        guards: &[(&[without(Engine::GatherFlush)], &[R3])],
        manager: Some(Managing {
            config: with_huge_pages,
            before: table_with_neighbour,
            programs: &[
                |manager| {
                    manager.await_flag(0);
                    manager.remap(&manager.space(0), manager.at(0), HUGE);
                    manager.end();
                },
                stores,
            ],
        }),
        ..PLAIN
    },
    Scenario {
        name: "M16-mremap-of-pages",
        source: "memory manager, mremap; Linux, eb66ae030829",
        guards: &[(&[without(Engine::GatherFlush)], &[R2, R3])],
        manager: Some(Managing {
            programs: &[
                |manager| {
                    manager.await_flag(0);
                    manager.remap(&manager.space(0), manager.at(0), 2);
                    manager.end();
                },
                stores,
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M17-mremap-where-reclaim-owes",
        source: "memory manager, mremap; LUF, scenarios 1 and 2",
        guards: &[(&[without(Engine::Settle)], &[R3])],
        lazy: true,
        manager: Some(Managing {
            before: read_file,
            programs: &[
                |manager| {
                    reclaims(manager);
                    // The second page keeps the table, so no table is freed with a flush of its own.
                    manager.remap(&manager.space(0), manager.at(0), 1);
                    manager.end();
                },
                |manager| loads(manager, 0),
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M18-swap",
        source: "memory manager, swap; LUF, hole 9",
        guards: &[(&[unguarded(Guard::Slot)], &[R6])],
        lazy: true,
        manager: Some(Managing {
            config: swapping,
            before: memory,
            programs: &[
                |manager| {
                    let space = manager.space(0);
                    manager.await_flag(0);
                    // From now on the device has the page, and loads map it.
                    manager.page_out(&space, manager.at(0), 1);
                    manager.set_flag(1);
                    manager.await_flag(2);
                    (0..3).for_each(|_| manager.reclaim_range(&space, manager.at(0), 1));
                    manager.run(&space);
                    manager.load(manager.at(0));
                    manager.end();
                    manager.leave();
                },
                |manager| {
                    let space = manager.space(0);
                    manager.run(&space);
                    manager.store(manager.at(0));
                    manager.set_flag(0);
                    manager.await_flag(1);
                    manager.load(manager.at(0));
                    manager.set_flag(2);
                    manager.until_over(|| manager.load(manager.at(0)));
                    manager.leave();
                },
            ],
        }),
        ..PLAIN
    },
    Scenario {
        name: "M19-sync-beside-mremap",
        source: "memory manager, mremap; Linux, move_page_tables under the rmap locks",
        guards: &[(&[without(Engine::WritableFlush)], &[R5])],
        manager: Some(Managing {
            before: shared_file,
            programs: &[
                |manager| {
                    manager.await_flag(0);
                    manager.remap(&manager.space(0), manager.at(0), 2);
                    manager.end();
                },
                |manager| {
                    let space = manager.space(0);
                    manager.run(&space);
                    manager.store(manager.at(0));
                    manager.set_flag(0);
                    manager.until_over(|| manager.store(manager.at(0)));
                    manager.await_entry(manager.at(0), |_| false);
                    let moved = manager.mappings(&space)[0].0;
                    manager.until_over(|| manager.store(moved));
                    manager.leave();
                },
                |manager| {
                    manager.await_flag(0);
                    (0..3).for_each(|_| manager.sync());
                },
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M20-munmap-beside-reclaim",
        source: "memory manager, munmap and the reverse map; Linux, free_pgtables after unlink_anon_vmas",
        guards: &[(&[without(Engine::GatherFlush)], &[R1, R2, R3])],
        manager: Some(Managing {
            config: two_nodes,
            before: |manager| {
                memory(manager);
                and_child(manager);
            },
            // The reverse map leads from the child's page to the table.
            programs: &[unmaps, stores, |manager| {
                manager.await_flag(0);
                walks(manager);
            }],
        }),
        ..PLAIN
    },
    Scenario {
        name: "M21-store-beside-discard",
        source: "Linux, madvise(DONTNEED) under the lock of a VMA",
        guards: &[(&[unguarded(Guard::Mark)], &[R7])],
        manager: Some(Managing {
            programs: &[
                |manager| {
                    manager.await_flag(0);
                    (0..2).for_each(|_| manager.discard(&manager.space(0), manager.at(0), 1));
                    manager.end();
                },
                stores,
                |manager| loads(manager, 0),
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M22-fault-beside-munmap",
        source: "Linux, per-VMA locks: 0bff0aaea03e",
        guards: &[(&[unguarded(Guard::StillOpen)], &[R2, R3]), (&[unguarded(Guard::Close)], &[R2, R3])],
        manager: Some(Managing {
            before: |manager| {
                manager.add_space();
                (0..AREAS).for_each(|_| manager.add_memory(1));
            },
            // Nothing is to be flushed, so the one need not answer the other.
            programs: &[
                |manager| {
                    let space = manager.space(0);
                    let areas = manager.mappings(&space);
                    manager.await_flag(0);
                    for (start, _) in areas {
                        manager.unmap(&space, start, 1);
                    }
                    manager.end();
                },
                |manager| {
                    let space = manager.space(0);
                    let areas = manager.mappings(&space);
                    manager.run(&space);
                    manager.set_flag(0);
                    for (start, _) in areas {
                        manager.load(start);
                    }
                    manager.leave();
                },
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
    Scenario {
        name: "M23-store-beside-discard-of-a-table",
        source: "Linux, empty tables are freed: 6375e95f381e",
        guards: &[(&[unguarded(Guard::InPlace)], &[R2, R7, Words]), (&[unguarded(Guard::Mark)], &[R7])],
        manager: Some(Managing {
            config: with_freed_tables,
            before: table_of_memory,
            programs: &[discards_table, stores, |manager| loads(manager, 0)],
        }),
        ..PLAIN
    },
    Scenario {
        name: "M24-reclaim-beside-discard-of-a-table",
        source: "memory manager, the reverse map and freed tables",
        guards: &[(&[without(Engine::Tables)], &[R2])],
        manager: Some(Managing {
            config: || Config {
                nodes: vec![NodeLayout::new(1200), NodeLayout::new(FRAMES)],
                ..with_freed_tables()
            },
            before: |manager| {
                table_of_memory(manager);
                and_child(manager);
            },
            programs: &[discards_table, stores, |manager| {
                manager.await_flag(0);
                walks(manager);
            }],
        }),
        ..PLAIN
    },
    Scenario {
        name: "M25-page-that-leaves-while-it-is-found",
        source: "Linux, filemap_get_entry",
        guards: &[(&[unguarded(Guard::Recheck)], &[Words])],
        manager: Some(Managing {
            before: |manager| {
                manager.add_space();
                manager.add_file(2);
                (0..2).for_each(|page| manager.write(page));
            },
            programs: &[
                // The frame that was freed last is that of the second page. It becomes the first page's.
                |manager| {
                    for _ in 0..4 {
                        manager.truncate(0);
                        (0..2).for_each(|page| manager.write(page));
                    }
                    manager.end();
                },
                |manager| {
                    manager.until_over(|| {
                        manager.read(1);
                        true
                    });
                },
            ],
            ..PLAYED
        }),
        ..PLAIN
    },
];
