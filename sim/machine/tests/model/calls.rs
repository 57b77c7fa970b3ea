//! The memory manager on the simulator: its calls, and its errors as the model names them.

use std::cell::RefCell;
use std::fmt::Debug;

use ceasefire_machine::{Options, Program, Sim, Simulation};
use ceasefire_memory::{FaultError, Memory, NodeId, ObjectId, Pages, Placement, Protection, SpaceHandle};

use crate::call::{Advice, Call, Place, Refusal, Reply, Subject};
use crate::common::guards::{self, Guard};
use crate::flight::Fault;
use crate::model::Rights;
use crate::script::Setup;

/// The length of a range of whole pages: programs have no other ranges.
fn length(bytes: u64) -> Pages {
    Pages::of_bytes(bytes).expect("whole pages")
}

/// The memory manager on the simulator.
#[derive(Debug, Default)]
pub(crate) struct Simulated {
    files: RefCell<Vec<ObjectId>>,
    without: Option<Guard>,
}

impl Simulated {
    #[cfg(ceasefire_sabotage)]
    pub(crate) fn without(guard: Guard) -> Self {
        Self { without: Some(guard), ..Self::default() }
    }

    fn file(&self, file: usize) -> ObjectId {
        self.files.borrow()[file]
    }

    fn system_call(&self, memory: &Memory<Sim>, space: &SpaceHandle<Sim>, call: &Call) -> Reply {
        match *call {
            Call::MapAnonymous { pages } => address(memory.map_anonymous(space, Pages::new(pages))),
            Call::MapShared { file, first, pages, writable } => {
                address(memory.map_shared(space, self.file(file), first, Pages::new(pages), writable))
            }
            Call::MapPrivate { file, first, pages } => {
                address(memory.map_private(space, self.file(file), first, Pages::new(pages)))
            }
            Call::Unmap { start, bytes } => done(memory.unmap(space, start, length(bytes))),
            Call::Discard { start, bytes } => done(memory.discard(space, start, length(bytes))),
            Call::Protect { start, bytes, to } => {
                let to = match to {
                    Rights::None => Protection::None,
                    Rights::Read => Protection::Read,
                    Rights::Write => Protection::ReadWrite,
                };
                done(memory.protect(space, start, length(bytes), to))
            }
            Call::Remap { start, bytes, new_bytes, place } => {
                let place = match place {
                    Place::Here => Placement::Here,
                    Place::Anywhere => Placement::Anywhere,
                    Place::At(address) => Placement::At(address),
                };
                address(memory.remap(space, start, length(bytes), length(new_bytes), place))
            }
            Call::Advise { start, bytes, advice } => match advice {
                Advice::Free => done(memory.advise_free(space, start, length(bytes))),
                Advice::Cold => done(memory.advise_cold(space, start, length(bytes))),
                Advice::PageOut => done(memory.advise_page_out(space, start, length(bytes))),
                Advice::Huge(allow) => done(memory.advise_huge(space, start, length(bytes), allow)),
            },
            Call::Lock { start, bytes } => done(memory.lock(space, start, length(bytes))),
            Call::Unlock { start, bytes } => done(memory.unlock(space, start, length(bytes))),
            Call::Fork => memory.fork(space).map_or_else(refused, Reply::Space),
            Call::Exit => {
                memory.exit(space.clone());
                Reply::Done
            }
            Call::Collapse { address } => done(memory.collapse(space, address).map(drop)),
            Call::MigrateSpace { from, to } => {
                done(memory.migrate_space(space, NodeId(from), NodeId(to)).map(drop))
            }
            Call::MovePages { ref pages } => {
                let pages: Vec<(u64, NodeId)> =
                    pages.iter().map(|&(address, node)| (address, NodeId(node))).collect();
                Reply::Pages(memory.move_pages(space, &pages).len())
            }
            Call::Hint { start, bytes } => done(memory.hint(space, start, length(bytes)).map(drop)),
            Call::Read { file, offset, bytes } => {
                let mut into = vec![0xee; bytes as usize];
                let read = memory.read(self.file(file), offset, &mut into);
                read.map_or_else(refused, |count| {
                    into.truncate(count);
                    Reply::Read(Some(into))
                })
            }
            Call::Write { file, offset, ref data } => done(memory.write(self.file(file), offset, data)),
            Call::Truncate { file, bytes } => done(memory.truncate(self.file(file), bytes)),
            Call::Invalidate { file, first, pages } => {
                let busy = |_| Reply::Refused(Refusal::Busy);
                memory.invalidate(self.file(file), first, pages).map_or_else(busy, |()| Reply::Done)
            }
            Call::Sync { file } => {
                memory.sync(self.file(file));
                Reply::Done
            }
            Call::Load { .. } | Call::Store { .. } => unreachable!("{call:?} is no system call"),
        }
    }
}

fn done<E: Debug>(result: Result<(), E>) -> Reply {
    result.map_or_else(refused, |()| Reply::Done)
}

fn address<E: Debug>(result: Result<u64, E>) -> Reply {
    result.map_or_else(refused, Reply::Address)
}

/// An error, as far as the model distinguishes them. Every call has an error type of its own, and running out of
/// memory has the same name in all.
fn refused<E: Debug>(error: E) -> Reply {
    let name = format!("{error:?}");
    let out_of_memory = name.contains("OutOfMemory") || name.contains("Full");
    Reply::Refused(if out_of_memory { Refusal::OutOfMemory } else { Refusal::Wrong })
}

fn fault(error: FaultError) -> Reply {
    Reply::Refused(match error {
        FaultError::NotMapped(address) => Refusal::Fault(Fault::NotMapped, address),
        FaultError::ReadOnly(address) => Refusal::Fault(Fault::ReadOnly, address),
        FaultError::NoAccess(address) => Refusal::Fault(Fault::NoAccess, address),
        FaultError::BeyondEnd(address) => Refusal::Fault(Fault::BeyondEnd, address),
        FaultError::OutOfMemory => Refusal::OutOfMemory,
        FaultError::Ended => Refusal::Wrong,
    })
}

impl Subject for Simulated {
    fn options(&self, setup: &Setup) -> Options {
        let numbers = setup.clone();
        Options {
            contents: true,
            slack: u64::from(setup.slack) * 1000,
            payment: setup.payment(),
            tick: u64::from(setup.tick) * 1000,
            configure: Box::new(move |config| {
                for (node, setup) in config.nodes.iter_mut().zip(&numbers.nodes) {
                    node.tier = setup.tier as u8;
                }
                config.fault_around = numbers.fault_around;
                config.read_ahead = numbers.read_ahead;
                config.lru_batch = numbers.lru_batch as usize;
                config.lru_drain = numbers.lru_drain();
                config.swap_pages = numbers.swap;
                config.demote = numbers.demote > 0;
                config.objects = 128;
                config.lazy.max_age = 3 * u64::from(numbers.tick);
            }),
            broadcast: setup.broadcasts(),
            look_every: setup.look_every.into(),
            wide: setup.wide,
            ..Options::new(setup.schedule())
        }
    }

    fn create_files(&self, simulation: &Simulation, pages: &[u32]) {
        let create = |&pages: &u32| simulation.memory().create_file(pages).expect("a free object");
        self.files.replace(pages.iter().map(create).collect());
        guards::remove(simulation.memory(), self.without);
    }

    fn supports(&self, _: &Call) -> bool {
        true
    }

    fn call(&self, program: &Program, _: usize, call: &Call) -> Reply {
        match *call {
            Call::Load { address } => {
                program.load(address, 1).map_or_else(fault, |value| Reply::Loaded(Some(value)))
            }
            Call::Store { address, value } => {
                program.store(address, 1, value).map_or_else(fault, |()| Reply::Done)
            }
            _ => program.system_call(|memory, space| self.system_call(memory, space, call)),
        }
    }

    fn file_bytes(&self, program: &Program, file: usize) -> Option<u64> {
        Some(program.memory().file_bytes(self.file(file)))
    }

    fn finish(&self, simulation: &Simulation) -> Result<(), String> {
        for file in self.files.take() {
            simulation.memory().delete_file(file);
        }
        simulation.memory().list_collected();
        Ok(())
    }
}
