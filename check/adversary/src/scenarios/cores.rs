//! O. Orderings: two CPUs that each store and then read what the other stores.
//!
//! The first are programs on single parts of the engine. What they find out, they tell CPU 0, which judges.

use ceasefire::sabotage::Guard;
use ceasefire::{cores, AddressSpace, Asid, AtomicCpuSet, CpuSet, Schedule};
use ceasefire_atomics::{fence, Ordering};

use super::programs::{
    breaking, device_stores, one_page, pause, read_only_page, rests, stores, stores_to, two_pages, unmaps,
    without,
};
use crate::model::promise::Promise;
use crate::model::removed::Removed;
use crate::model::rule::Rule::{self, Ends, R1, R3, R4, R5};
use crate::search::scenario::{Carried, Scenario, PLAIN};
use crate::subject::cores::cpu;
use crate::subject::kernel::Kernel;

/// Without consistent accesses and fences, both CPUs may read what was there before.
const CONSISTENT: &[(&[Removed], &[Rule])] = &[(&[breaking(Promise::Consistent)], &[Ends])];

/// Waits until the programs of these CPUs have ended.
fn wait_for(kernel: &Kernel, others: &[usize]) {
    for &other in others {
        kernel.wait_for(other);
    }
}

/// This CPU joins a set, and then reads the generation.
fn join_and_read(kernel: &Kernel, set: &AtomicCpuSet) {
    let me = kernel.hardware().me();
    cores::join(set, cpu(me));
    kernel.cores.found[me].set(kernel.cores.space.generation().get());
}

/// A flush raises the generation, and then reads the set.
fn raise_and_read(kernel: &Kernel, set: &AtomicCpuSet) -> (u64, CpuSet) {
    let raised = cores::raise(&kernel.cores.space).get();
    let mut found = CpuSet::new();
    found.unite(set);
    (raised, found)
}

fn joins(kernel: &Kernel) {
    join_and_read(kernel, kernel.cores.space.cpus());
    kernel.raise(kernel.hardware().me());
}

fn raises_and_reads_the_set(kernel: &Kernel) {
    let (raised, found) = raise_and_read(kernel, kernel.cores.space.cpus());
    wait_for(kernel, &[1, 2]);
    misses_no_cpu(kernel, raised, &found);
}

/// Waits until every CPU has come to the end of a round. CPUs learn it out of band: no order follows from it.
fn ends_round(kernel: &Kernel) {
    let ended = &kernel.cores.ended;
    ended.set(ended.get() + 1);
    let all = ended.get().next_multiple_of(kernel.cores.found.len());
    while ended.get() < all {
        kernel.hardware().yield_here();
    }
}

fn joins_each_round(kernel: &Kernel) {
    for set in &kernel.cores.sets {
        join_and_read(kernel, set);
        ends_round(kernel);
        // The flush looks at what was read here.
        ends_round(kernel);
    }
}

fn flushes_each_round(kernel: &Kernel) {
    for set in &kernel.cores.sets {
        let (raised, found) = raise_and_read(kernel, set);
        ends_round(kernel);
        misses_no_cpu(kernel, raised, &found);
        ends_round(kernel);
    }
}

/// Of a CPU that joined and the flush, at least one has seen the other.
fn misses_no_cpu(kernel: &Kernel, raised: u64, found: &CpuSet) {
    for other in [1, 2] {
        let read = kernel.cores.found[other].get();
        assert!(read >= raised || found.contains(cpu(other)), "CPU {other} and the flush miss each other");
    }
}

/// A flush covers the CPUs under the tag that it reads.
fn raises_and_reads_the_tag(kernel: &Kernel) {
    let space = &kernel.cores.space;
    let raised = cores::raise(space).get();
    let slots_alone = cores::tag(space).is_slots();
    wait_for(kernel, &[1, 2]);
    let read = kernel.cores.found[2].get();
    assert!(!slots_alone || read == 0 || read >= raised, "CPU 2 is under a tag that the flush did not cover");
}

fn adopts(kernel: &Kernel) {
    assert!(cores::claim(&kernel.cores.space), "no other CPU claims it");
    assert!(cores::adopt(&kernel.cores.space, cores::asid(9)).is_none(), "the space lives");
}

fn gives_an_asid(kernel: &Kernel) {
    adopts(kernel);
    kernel.raise(1);
}

/// CPU 1 runs the space under another ASID, a global one or its own.
fn runs_under(kernel: &Kernel, tag: (Asid, bool)) {
    // Loading a root is a full barrier.
    cores::run_under(&kernel.cores.cpus[1], &kernel.cores.space, tag, || fence(Ordering::SeqCst));
}

/// A CPU that loads the space reads the tag, and then the generation.
fn reads_the_tag_and_the_generation(kernel: &Kernel) {
    let (asid, newest) = cores::to_load(&kernel.cores.space);
    kernel.cores.found[2].set(asid.map_or(0, |_| newest.get()));
    kernel.raise(2);
}

fn owes_and_redeems(kernel: &Kernel, owed: impl Fn() -> (u64, ceasefire::Stamp), owing: &[usize]) {
    for round in 0..3 {
        let owed = owed();
        kernel.cores.redeem(owing, owed, round == 1);
        pause(kernel, 2);
        kernel.cores.redeem(owing, owed, round == 1);
    }
}

/// Settles what is done, and flushes nothing.
fn advances(kernel: &Kernel) {
    (0..12).for_each(|_| {
        kernel.cores.debts.advance();
    });
}

fn ticks(kernel: &Kernel) {
    (0..4).for_each(|_| kernel.cores.tick(kernel.hardware().me()));
}

/// Each flush of pages is recorded as reached, by the CPU that made it.
fn reaches(kernel: &Kernel) {
    let me = kernel.hardware().me();
    kernel.cores.flushed[me].store(1, Ordering::Relaxed);
    let mine = cores::generation(me as u64 + 1);
    cores::extend_reached(&kernel.cores.space, mine, mine);
}

fn sends(kernel: &Kernel) {
    let me = kernel.hardware().me();
    let number = kernel.cores.send(me);
    kernel.cores.is_answered(me, number);
    kernel.raise(me);
}

/// Empties its inbox by itself, and then handles interrupts.
fn answers(kernel: &Kernel) {
    kernel.cores.empty();
    kernel.cores.handle();
    wait_for(kernel, &[1, 2]);
    kernel.cores.handle();
    each_is_answered_once(kernel);
}

fn goes_offline(kernel: &Kernel) {
    cores::close(&kernel.cores.cpus[0]);
    kernel.cores.empty();
    wait_for(kernel, &[1, 2]);
    each_is_answered_once(kernel);
}

/// Sends requests one after the other, and waits for the answer to each.
fn sends_and_waits(kernel: &Kernel) {
    let me = kernel.hardware().me();
    for _ in 0..3 {
        let number = kernel.cores.send(me);
        while !kernel.cores.is_answered(me, number) {
            kernel.hardware().yield_here();
        }
    }
    kernel.raise(me);
}

/// Goes offline and comes back, twice, and handles interrupts until both senders have their answers.
fn restarts(kernel: &Kernel) {
    for _ in 0..2 {
        kernel.cores.restart();
        kernel.cores.handle();
    }
    while (1..3).any(|sender| !kernel.is_raised(sender)) {
        kernel.cores.handle();
        kernel.hardware().yield_here();
    }
}

/// Takes page `page` away and lets the next access map a new one, again and again.
fn renews(kernel: &Kernel, page: u64) {
    for _ in 0..4 {
        kernel.discard(&kernel.space(0), page);
        kernel.fault(&kernel.space(0), page);
    }
}

/// Runs two spaces in turn, and uses page 1 of the first.
fn comes_and_goes(kernel: &Kernel) {
    for _ in 0..6 {
        kernel.run(&kernel.space(0));
        kernel.load(1);
        kernel.store(1);
        kernel.run(&kernel.space(1));
    }
}

fn each_is_answered_once(kernel: &Kernel) {
    for sender in [1, 2] {
        assert_eq!(kernel.cores.answers(sender), 1, "the request of CPU {sender} is answered once");
    }
}

/// Takes one of two ASIDs. A flush cleans the entries under both.
fn takes_an_asid(kernel: &Kernel) -> Option<Asid> {
    let cores = &kernel.cores;
    // A flush that does not come after the fill of an entry leaves it.
    let flush = || {
        for entries in cores.flushed.iter().filter(|entries| entries.load(Ordering::Relaxed) != 0) {
            entries.store(0, Ordering::Relaxed);
        }
    };
    let wait = |done: &dyn Fn() -> bool| {
        while !done() {
            kernel.hardware().yield_here();
        }
    };
    cores.pool.take(3, flush, wait)
}

/// Takes an ASID, fills an entry under it and gives it back.
fn uses_asids(kernel: &Kernel) {
    for _ in 0..3 {
        let Some(asid) = takes_an_asid(kernel) else { continue };
        let entries = &kernel.cores.flushed[usize::from(asid.get())];
        assert_eq!(entries.load(Ordering::Relaxed), 0, "the ASID of a new owner has entries");
        entries.store(1, Ordering::Relaxed);
        kernel.cores.pool.free(asid);
    }
}

/// Takes an ASID, where as many were given back as there are CPUs that want one.
fn finds_an_asid(kernel: &Kernel) {
    assert!(takes_an_asid(kernel).is_some(), "an ASID was given back, and a search does not find it");
}

/// Unmaps a page of its own in the kernel's ranges, and maps it again.
fn flushes_the_kernel(kernel: &Kernel) {
    let page = kernel.hardware().me() as u64;
    for _ in 0..3 {
        kernel.unmap_kernel(page, false);
        kernel.map_kernel(page);
    }
}

fn maps_kernel_pages(kernel: &Kernel) {
    (0..2).for_each(|page| {
        kernel.map_kernel(page);
    });
}

/// Two spaces, the first with pages 1 and 2 mapped for stores.
fn two_spaces(kernel: &Kernel) {
    two_pages(kernel);
    kernel.add_space();
}

fn asid_of(kernel: &Kernel) -> Option<Asid> {
    AsRef::<AddressSpace>::as_ref(&kernel.space(0)).asid()
}

pub(super) static SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "O1-join-and-flush",
        source: "contract, AtomicCpuSet",
        guards: CONSISTENT,
        programs: &[raises_and_reads_the_set, joins, joins],
        ..PLAIN
    },
    Scenario {
        name: "O2-tag-and-flush",
        source: "contract, transport::transition",
        guards: CONSISTENT,
        programs: &[raises_and_reads_the_tag, gives_an_asid, reads_the_tag_and_the_generation],
        ..PLAIN
    },
    Scenario {
        name: "O3-enter-and-settle",
        source: "contract, Ledger::enter",
        guards: CONSISTENT,
        // CPU 1 has a debt already, so it closes the epoch in which CPU 2 gets one.
        before: |kernel| {
            kernel.cores.owe(&[1]);
        },
        programs: &[|kernel| owes_and_redeems(kernel, || kernel.cores.owe(&[2]), &[2]), ticks, ticks],
        ..PLAIN
    },
    Scenario {
        name: "O4-enter-and-close",
        source: "contract, Ledger::enter",
        guards: CONSISTENT,
        programs: &[
            |kernel| owes_and_redeems(kernel, || kernel.cores.owe(&[2]), &[2]),
            |kernel| {
                for round in 1..4 {
                    kernel.cores.owe_later(&[1], 20 * round);
                    kernel.cores.debts.advance();
                }
            },
            ticks,
        ],
        ..PLAIN
    },
    Scenario {
        name: "O5-enter-and-broadcast",
        source: "contract, Ledger::begin_broadcast",
        guards: CONSISTENT,
        before: |kernel| {
            kernel.cores.owe(&[1]);
        },
        programs: &[
            |kernel| owes_and_redeems(kernel, || kernel.cores.owe_everywhere(), &[0, 1, 2]),
            ticks,
            advances,
        ],
        ..PLAIN
    },
    Scenario {
        name: "O6-pay-and-settle",
        source: "contract, Engine::pay_all",
        guards: CONSISTENT,
        before: |kernel| {
            kernel.cores.owe(&[1]);
        },
        programs: &[
            |kernel| owes_and_redeems(kernel, || kernel.cores.owe(&[1, 2]), &[1, 2]),
            advances,
            |kernel| (0..4).for_each(|_| kernel.cores.pay_everywhere()),
        ],
        ..PLAIN
    },
    Scenario {
        name: "O7-debt-of-a-cpu-that-comes-back",
        source: "contract, Ledger::leave_for_good",
        guards: CONSISTENT,
        before: |kernel| {
            kernel.cores.owe(&[1]);
        },
        programs: &[
            |kernel| {
                pause(kernel, 4);
                owes_and_redeems(kernel, || kernel.cores.owe(&[1]), &[1]);
            },
            |kernel| {
                // It goes offline, where it uses no entry. It comes back and loads the space.
                kernel.cores.flushed[1].store(u64::MAX, Ordering::Relaxed);
                kernel.cores.debts.leave_for_good(cpu(1));
                fence(Ordering::SeqCst);
                kernel.cores.flush(1);
            },
            ticks,
        ],
        ..PLAIN
    },
    Scenario {
        name: "O8-post-and-empty",
        source: "contract, Inbox::empty",
        guards: CONSISTENT,
        programs: &[answers, sends, sends],
        ..PLAIN
    },
    Scenario {
        name: "O9-post-and-close",
        source: "contract, Inbox::close",
        guards: CONSISTENT,
        programs: &[goes_offline, sends, sends],
        ..PLAIN
    },
    Scenario {
        name: "O10-answer-that-another-cpu-awaits",
        source: "contract, Request::is_answered",
        programs: &[
            |kernel| {
                for _ in 0..2 {
                    while kernel.cores.answers(1) == kernel.cores.found[0].get() {
                        kernel.hardware().yield_here();
                        kernel.cores.handle();
                    }
                    kernel.cores.found[0].set(kernel.cores.answers(1));
                }
            },
            |kernel| {
                // Whoever finds the second request under way takes the first for answered.
                for _ in 0..2 {
                    kernel.cores.send(1);
                    kernel.raise(1);
                    while !cores::is_free(&kernel.cores.cpus[1]) {
                        kernel.hardware().yield_here();
                    }
                }
            },
            |kernel| {
                kernel.wait_for(1);
                for _ in 0..6 {
                    kernel.cores.is_answered(1, 1);
                }
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "O11-reached-by-several",
        source: "contract, AtomicGeneration::extend",
        programs: &[
            |kernel| {
                for generation in 2..=cores::reached(&kernel.cores.space).get() {
                    let flushed = kernel.cores.flushed[generation as usize - 1].load(Ordering::Relaxed);
                    assert_eq!(flushed, 1, "generation {generation} is reached and not flushed");
                }
            },
            reaches,
            reaches,
        ],
        ..PLAIN
    },
    Scenario {
        name: "O12-owner-of-an-asid",
        source: "contract, transport::global_asids",
        programs: &[uses_asids, uses_asids, uses_asids],
        ..PLAIN
    },
    Scenario {
        name: "O13-join-and-retirement",
        source: "contract, Engine::retire",
        guards: CONSISTENT,
        programs: &[
            |kernel| {
                let space = &kernel.cores.born;
                let ended = cores::retire(space);
                let found = space.cpus().any_but(cpu(0));
                kernel.wait_for(1);
                assert!(
                    found || kernel.cores.found[1].get() == 0,
                    "CPU 1 is under an ASID that is given back"
                );
                cores::end(space, ended);
            },
            |kernel| {
                let space = &kernel.cores.born;
                cores::join(space.cpus(), cpu(1));
                fence(Ordering::SeqCst);
                let own = cores::tag(space).asid() == Some(cores::asid(9));
                kernel.cores.found[1].set(own.into());
                kernel.raise(1);
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "O14-switch-and-retirement",
        source: "contract, Engine::retire",
        guards: &[(&[breaking(Promise::Consistent)], &[R4])],
        carried: Carried::Broadcasts,
        before: one_page,
        programs: &[
            |kernel| {
                if asid_of(kernel).is_some() {
                    kernel.end_space(&kernel.space(0));
                }
            },
            |kernel| {
                kernel.run(&kernel.space(0));
                kernel.store(1);
                kernel.leave();
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "O15-flush-that-is-deferred-already",
        source: "contract, cpu::mode",
        guards: &[(&[breaking(Promise::Consistent)], &[R1, R3])],
        before: maps_kernel_pages,
        programs: &[flushes_the_kernel, flushes_the_kernel, |kernel| {
            for round in 0..4 {
                kernel.load_kernel(round % 2);
                kernel.isolate(12);
                kernel.load_kernel(round % 2);
                kernel.load_kernel(1 - round % 2);
            }
        }],
        ..PLAIN
    },
    Scenario {
        name: "O16-kernel-range-and-a-cpu-that-comes-back",
        source: "contract, Engine::online",
        guards: &[(&[breaking(Promise::Consistent)], &[R1, R3, Ends])],
        before: maps_kernel_pages,
        programs: &[flushes_the_kernel, |kernel| {
            for _ in 0..2 {
                kernel.sleep(1);
                kernel.load_kernel(0);
                kernel.load_kernel(0);
            }
        }],
        ..PLAIN
    },
    Scenario {
        name: "O17-batch-and-a-cpu-that-was-offline",
        source: "contract, Ledger::leave_for_good",
        lazy: true,
        before: |kernel| {
            read_only_page(kernel);
            kernel.map(&kernel.space(0), 2, false);
        },
        programs: &[
            |kernel| {
                for page in [2, 1] {
                    kernel.reclaim(&kernel.space(0), &[page], Schedule::Lazy);
                }
                for _ in 0..2 {
                    kernel.tick();
                    kernel.allocate_and_free();
                }
            },
            |kernel| {
                for _ in 0..2 {
                    kernel.run(&kernel.space(0));
                    kernel.load(1);
                    kernel.sleep(1);
                }
                kernel.run(&kernel.space(0));
                (0..4).for_each(|_| {
                    kernel.load(1);
                });
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "O18-batch-and-the-end-of-lazy-mode",
        source: "contract, Seen::is_lazy",
        guards: &[(&[breaking(Promise::Consistent)], &[R1])],
        before: one_page,
        programs: &[|kernel| kernel.reclaim(&kernel.space(0), &[1], Schedule::Batched), rests],
        ..PLAIN
    },
    Scenario {
        name: "O21-handler-that-cannot-be-masked",
        source: "Linux, nmi_uaccess_okay",
        guards: &[(&[without(Guard::CatchUp)], &[R1, R3])],
        unmasked: true,
        before: |kernel| {
            one_page(kernel);
            kernel.add_space();
        },
        programs: &[unmaps, |kernel| {
            rests(kernel);
            kernel.rest();
            pause(kernel, 4);
            kernel.run(&kernel.space(1));
            kernel.leave();
        }],
        ..PLAIN
    },
    Scenario {
        name: "O19-write-out-after-a-downgrade",
        source: "contract, InFlight",
        guards: &[(&[without(Guard::Downgrade)], &[R5])],
        before: one_page,
        programs: &[
            |kernel| kernel.soften(&kernel.space(0), 1),
            stores,
            |kernel| {
                pause(kernel, 6);
                kernel.write_out(&kernel.space(0), 1);
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "O20-device-that-comes-and-goes",
        source: "contract, AddressSpace::attach_device",
        guards: &[(&[breaking(Promise::Consistent)], &[R1, R3])],
        devices: 1,
        before: one_page,
        programs: &[
            unmaps,
            |kernel| {
                for _ in 0..2 {
                    kernel.attach_device(&kernel.space(0));
                    pause(kernel, 6);
                    kernel.detach_device(&kernel.space(0));
                }
            },
            device_stores,
        ],
        ..PLAIN
    },
    Scenario {
        name: "O22-restart-and-interrupt-that-was-lost",
        source: "contract, Inbox::open",
        programs: &[restarts, sends_and_waits, sends_and_waits],
        ..PLAIN
    },
    Scenario {
        name: "O23-change-of-tag-and-retirement",
        source: "contract, Engine::retire",
        carried: Carried::Both,
        before: two_pages,
        programs: &[
            |kernel| {
                for _ in 0..40 {
                    if asid_of(kernel).is_some() {
                        kernel.end_space(&kernel.space(0));
                        break;
                    }
                    kernel.hardware().wait_a_moment();
                }
            },
            |kernel| {
                stores_to(kernel, 2);
                kernel.leave();
            },
            |kernel| renews(kernel, 1),
        ],
        ..PLAIN
    },
    Scenario {
        name: "O24-return-and-change-of-tag",
        source: "contract, transport::transition",
        guards: &[(&[without(Guard::Transition)], &[R1, R3])],
        carried: Carried::Both,
        before: two_spaces,
        programs: &[
            |kernel| {
                kernel.run(&kernel.space(0));
                renews(kernel, 1);
            },
            comes_and_goes,
            |kernel| (0..8).for_each(|_| kernel.flush(&kernel.space(0))),
        ],
        ..PLAIN
    },
    Scenario {
        name: "O25-batch-and-change-of-tag",
        source: "contract, transport::transition",
        carried: Carried::Both,
        before: two_spaces,
        programs: &[
            |kernel| {
                for _ in 0..3 {
                    kernel.reclaim(&kernel.space(0), &[1], Schedule::Batched);
                    kernel.fault(&kernel.space(0), 1);
                }
            },
            comes_and_goes,
            |kernel| (0..8).for_each(|_| kernel.flush(&kernel.space(0))),
        ],
        ..PLAIN
    },
    Scenario {
        name: "O26-search-after-the-flush-of-another",
        source: "contract, transport::global_asids",
        before: |kernel| {
            let asids = [takes_an_asid(kernel), takes_an_asid(kernel)];
            asids.into_iter().flatten().for_each(|asid| kernel.cores.pool.free(asid));
        },
        programs: &[finds_an_asid, finds_an_asid],
        ..PLAIN
    },
    Scenario {
        name: "O27-join-beside-another",
        source: "contract, AtomicCpuSet",
        guards: CONSISTENT,
        programs: &[flushes_each_round, joins_each_round, joins_each_round],
        ..PLAIN
    },
    Scenario {
        name: "O28-page-used-under-the-old-tag",
        source: "contract, transport::transition",
        before: |kernel| {
            runs_under(kernel, (cores::asid(1), false));
            adopts(kernel);
        },
        programs: &[
            |kernel| {
                let reading = cores::tag(&kernel.cores.space);
                while !cores::has_moved(&kernel.cores.cpus[1], &kernel.cores.space, reading) {
                    kernel.hardware().yield_here();
                }
                let used = kernel.cores.flushed[1].load(Ordering::Relaxed);
                assert_eq!(used, 1, "CPU 1 has moved, and what it did under its old tag is not seen");
            },
            |kernel| {
                kernel.cores.flushed[1].store(1, Ordering::Relaxed);
                runs_under(kernel, (cores::asid(9), true));
            },
        ],
        ..PLAIN
    },
    Scenario {
        name: "O29-switch-while-an-asid-comes-and-goes",
        source: "contract, transport::transition",
        before: adopts,
        programs: &[
            |kernel| {
                // A flush ends the transition if it finds no CPU.
                let space = &kernel.cores.space;
                let reading = cores::tag(space);
                if space.cpus().is_empty() {
                    cores::end(space, reading);
                }
            },
            |kernel| {
                // A flush by broadcast alone, which passes over CPU 2. Another takes the ASID away.
                let space = &kernel.cores.space;
                let raised = cores::raise(space).get();
                let reading = cores::tag(space);
                let left = !reading.is_in_transition() && cores::leave(space, reading);
                kernel.wait_for(2);
                let read = kernel.cores.found[2].get();
                assert!(
                    !left || read == 0 || read >= raised,
                    "CPU 2 trusts its slot, which the flush passed over"
                );
            },
            |kernel| {
                let space = &kernel.cores.space;
                cores::join(space.cpus(), cpu(2));
                fence(Ordering::SeqCst);
                let (asid, newest) = cores::to_load(space);
                kernel.cores.found[2].set(if asid.is_none() { newest.get() } else { 0 });
                kernel.raise(2);
            },
        ],
        ..PLAIN
    },
];
