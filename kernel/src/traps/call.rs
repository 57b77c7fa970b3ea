//! System calls: they check their arguments and call the part of the kernel that does the work.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::{Deref, DerefMut};

use ceasefire_kernel_abi::{Advice, Call, Counter, Error, Finding, Parameter, ANYWHERE, LINE, MOVE_PAGES};
use ceasefire_memory::{
    AdviseError, KernelMapError, LockClass, MapError, MigrateError, Moved, NodeId, ObjectId, Pages,
    Placement, ProtectError, Protection, RemapError, RwLock, SpaceHandle, TruncateError, UnmapError,
    WriteError, PAGE_BYTES, USER_END,
};

use super::user;
use crate::arch::user::{load_kernel, store_kernel};
use crate::arch::{clock, this_cpu, Frame};
use crate::failure::{self, Kind};
use crate::lock::IrqLock;
use crate::manager::{memory, Kernel};
use crate::memory::ranges;
use crate::memory::sleep::Sleep;
use crate::processes::lifecycle;
use crate::report::{log, parameters, result};
use crate::threads::{cpu, current, offline, schedule, thread};

/// The lock of a file, for system calls that change its bytes or its length. It ranks below all locks of the memory
/// manager.
static FILE: LockClass = LockClass { name: "file", rank: 0, sleeps: true, interrupts_off: false };
/// The most pages of a file: 64 GiB. The memory manager's directory of a file grows with its length.
const MOST_PAGES: u64 = 1 << 24;
/// Bytes that a call copies at a time.
const CHUNK: usize = 4096;

/// A file.
#[derive(Debug)]
struct File {
    object: ObjectId,
    /// False once it is deleted.
    exists: Sleep<bool>,
}

impl File {
    /// Keeps its length and its existence unchanged.
    fn share(&self) -> Result<impl Deref<Target = bool> + '_, Error> {
        let exists = self.exists.read(memory().platform());
        if *exists {
            Ok(exists)
        } else {
            Err(Error::Invalid)
        }
    }

    /// Excludes all other calls.
    fn lock(&self) -> Result<impl DerefMut<Target = bool> + '_, Error> {
        let exists = self.exists.write(memory().platform());
        if *exists {
            Ok(exists)
        } else {
            Err(Error::Invalid)
        }
    }
}

/// Files by the numbers that programs use.
static FILES: IrqLock<BTreeMap<u64, Arc<File>>> = IrqLock::new(BTreeMap::new());

fn file(number: u64) -> Result<Arc<File>, Error> {
    FILES.lock().get(&number).cloned().ok_or(Error::Invalid)
}

/// Executes the call. Returns its result.
pub(crate) fn handle(frame: &mut Frame) -> Result<u64, Error> {
    let call = Call::from_number(frame.call()).ok_or(Error::NoCall)?;
    let [a, b, c, d, _] = frame.arguments();
    let process = lifecycle::current()?;
    let space = &process.space;
    match call {
        Call::Exit => lifecycle::exit(a),
        Call::Log => log_line(a, b),
        Call::Spawn => lifecycle::spawn(Some(instruction(a)?), b, place(c)?),
        Call::Thread => lifecycle::start_thread(instruction(a)?, b, place(c)?, stack(d)?),
        Call::Fork => lifecycle::fork(frame),
        Call::Wait => lifecycle::wait_for(a),
        Call::Yield => {
            schedule::give_way();
            Ok(0)
        }
        Call::Sleep => {
            schedule::sleep_until(clock::now().saturating_add(a));
            Ok(0)
        }
        Call::Now => Ok(clock::now()),
        Call::Cpu => Ok(this_cpu::number() as u64),
        Call::Pin => {
            schedule::move_to(place(a)?);
            Ok(0)
        }
        Call::Parameter => Parameter::from_number(a).map(parameters::parameter).ok_or(Error::Invalid),
        Call::Recover => {
            process.set_recovery(a, b, instruction(c)?);
            Ok(0)
        }
        Call::MeasureBegin => {
            result::begin();
            Ok(0)
        }
        Call::MeasureEnd => {
            result::end(a);
            Ok(0)
        }
        Call::Counter => Counter::from_number(a).map(parameters::counter).ok_or(Error::Invalid),
        Call::Report => report_finding(frame, a, b, c, d),
        Call::MapAnonymous
        | Call::MapShared
        | Call::MapPrivate
        | Call::Unmap
        | Call::Remap
        | Call::Protect
        | Call::Advise
        | Call::Migrate
        | Call::MovePages
        | Call::Reclaim => change_space(call, space, [a, b, c, d]),
        Call::CreateFile
        | Call::DeleteFile
        | Call::ReadFile
        | Call::WriteFile
        | Call::Truncate
        | Call::SyncFile => use_file(call, [a, b, c, d]),
        Call::MapKernel | Call::UnmapKernel | Call::PurgeKernel | Call::LoadKernel | Call::StoreKernel => {
            use_kernel_range(call, [a, b])
        }
        Call::Offline => offline::take_offline(place(a)?, b).map(|()| 0),
    }
}

/// A CPU to which a thread may be tied.
fn place(number: u64) -> Result<usize, Error> {
    if number == ANYWHERE {
        return Ok(thread::ANYWHERE);
    }
    let known = usize::try_from(number).ok().filter(|&number| number < cpu::all().len());
    known.ok_or(Error::Invalid)
}

/// An address at which a program may continue. Beyond its half lie addresses for which the processor faults before it
/// reaches user mode.
fn instruction(address: u64) -> Result<u64, Error> {
    (address < USER_END).then_some(address).ok_or(Error::Invalid)
}

/// An address at which a program's stack may end.
fn stack(end: u64) -> Result<u64, Error> {
    (16..=USER_END).contains(&end).then_some(end).ok_or(Error::Invalid)
}

fn log_line(address: u64, bytes: u64) -> Result<u64, Error> {
    let mut line = [0; LINE];
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes <= LINE).ok_or(Error::Invalid)?;
    user::copy_in(&mut line[..bytes], address).map_err(|_| Error::Invalid)?;
    let text = core::str::from_utf8(&line[..bytes]).map_err(|_| Error::Invalid)?;
    log::line(format_args!("{text}"));
    Ok(0)
}

fn report_finding(
    frame: &Frame,
    finding: u64,
    address: u64,
    expected: u64,
    found: u64,
) -> Result<u64, Error> {
    let who = current::thread();
    let what = match Finding::from_number(finding) {
        Some(Finding::StaleRead) => "stale read",
        Some(Finding::LostWrite) => "lost write",
        Some(Finding::Forbidden) => "forbidden access",
        // This may be due to a lack of memory or threads, and does not prove that a rule was broken.
        Some(Finding::Broken) => failure::stop(
            Kind::Program,
            frame,
            format_args!("{who} panicked in line {address} of the file that it names above"),
        ),
        None => failure::stop(Kind::Program, frame, format_args!("{who} reports unknown finding {finding}")),
    };
    if parameters::is_unchecked() {
        return Ok(0);
    }
    failure::stop(
        Kind::Rule,
        frame,
        format_args!("{what}: {who} at {address:#x}: expected {expected:#x}, found {found:#x}"),
    )
}

fn change_space(call: Call, space: &SpaceHandle<Kernel>, [a, b, c, d]: [u64; 4]) -> Result<u64, Error> {
    let memory = memory();
    let page = |number: u64| u32::try_from(number).map_err(|_| Error::Invalid);
    let node = |number: u64| {
        let known = number < memory.config().nodes.len() as u64;
        known.then_some(NodeId(number as u16)).ok_or(Error::Invalid)
    };
    let length = |bytes: u64| Pages::of_bytes(bytes).ok_or(Error::Invalid);
    let nothing = |()| 0;
    match call {
        Call::MapAnonymous => memory.map_anonymous(space, Pages::new(a)).map_err(of_map),
        Call::MapShared | Call::MapPrivate => {
            let (file, first) = (file(a)?, page(b)?);
            let _shared = file.share()?;
            let mapped = if call == Call::MapShared {
                memory.map_shared(space, file.object, first, Pages::new(c), d != 0)
            } else {
                memory.map_private(space, file.object, first, Pages::new(c))
            };
            mapped.map_err(of_map)
        }
        Call::Unmap => memory.unmap(space, a, length(b)?).map(nothing).map_err(|error| match error {
            UnmapError::Range(_) | UnmapError::Ended => Error::Invalid,
            UnmapError::OutOfMemory => Error::NoMemory,
        }),
        Call::Remap => {
            let placement = if d == ANYWHERE { Placement::Anywhere } else { Placement::At(d) };
            memory.remap(space, a, length(b)?, length(c)?, placement).map_err(|error| match error {
                RemapError::Range(_) | RemapError::Overlap | RemapError::Ended => Error::Invalid,
                RemapError::NotOneMapping(_) => Error::NotMapped,
                RemapError::NoRoom(_) | RemapError::OutOfMemory => Error::NoMemory,
            })
        }
        Call::Protect => {
            let protection = match c {
                0 => Protection::None,
                1 => Protection::Read,
                2 => Protection::ReadWrite,
                _ => return Err(Error::Invalid),
            };
            memory.protect(space, a, length(b)?, protection).map(nothing).map_err(|error| match error {
                ProtectError::Range(_) | ProtectError::Ended => Error::Invalid,
                ProtectError::NotMapped(_) => Error::NotMapped,
                ProtectError::Forbidden(_) => Error::Denied,
                ProtectError::OutOfMemory => Error::NoMemory,
            })
        }
        Call::Advise => {
            let pages = length(b)?;
            let done = match Advice::from_number(c).ok_or(Error::Invalid)? {
                Advice::Discard => memory.discard(space, a, pages),
                Advice::Free => memory.advise_free(space, a, pages),
                Advice::Cold => memory.advise_cold(space, a, pages),
                Advice::PageOut => memory.advise_page_out(space, a, pages),
                Advice::Huge => memory.advise_huge(space, a, pages, true),
            };
            done.map(nothing).map_err(of_advise)
        }
        Call::Reclaim => memory.reclaim_range(space, a, length(b)?).map_err(of_advise),
        Call::Migrate => {
            let of = lifecycle::find(a)?;
            let moved = memory.migrate_space(&of.space, node(b)?, node(c)?);
            // Pages that do not fit stay where they are.
            Ok(match moved {
                Ok(migrated) | Err(MigrateError::Full { migrated, .. }) => migrated.moved,
                Err(MigrateError::NoNode(_) | MigrateError::Ended) => return Err(Error::Invalid),
            })
        }
        Call::MovePages => {
            if a % PAGE_BYTES != 0 || b / PAGE_BYTES > MOVE_PAGES {
                return Err(Error::Invalid);
            }
            let (end, to) = (a.checked_add(b).ok_or(Error::Invalid)?, node(c)?);
            let pages: Vec<_> = (a..end).step_by(PAGE_BYTES as usize).map(|address| (address, to)).collect();
            let moved = memory.move_pages(space, &pages);
            Ok(moved.into_iter().filter(|&moved| moved == Moved::There).count() as u64)
        }
        _ => Err(Error::NoCall),
    }
}

fn use_kernel_range(call: Call, [a, b]: [u64; 2]) -> Result<u64, Error> {
    let area = || ranges::area(a).ok_or(Error::Invalid);
    let word = || ranges::has_word(a).then_some(a).ok_or(Error::Invalid);
    match call {
        Call::MapKernel => {
            let pages = u32::try_from(b).ok().filter(|&pages| pages > 0).ok_or(Error::Invalid)?;
            ranges::map(area()?, pages).map_err(|error| match error {
                KernelMapError::NoRoom | KernelMapError::OutOfMemory => Error::NoMemory,
            })
        }
        Call::UnmapKernel => ranges::unmap(a, b != 0).then_some(0).ok_or(Error::NotMapped),
        Call::PurgeKernel => {
            area()?.purge();
            Ok(0)
        }
        // SAFETY: the word lies in an area.
        Call::LoadKernel => unsafe { load_kernel(word()?) }.ok_or(Error::NotMapped),
        // SAFETY: as above. The areas are for system calls alone, so what is mapped there is for programs to change.
        Call::StoreKernel => unsafe { store_kernel(word()?, b) }.then_some(0).ok_or(Error::NotMapped),
        _ => Err(Error::NoCall),
    }
}

fn of_map(error: MapError) -> Error {
    match error {
        MapError::Length(_) | MapError::Ended => Error::Invalid,
        MapError::Objects(_) => Error::TooMany,
        MapError::NoRoom(_) => Error::NoMemory,
    }
}

fn of_advise(error: AdviseError) -> Error {
    match error {
        AdviseError::Range(_) | AdviseError::Ended => Error::Invalid,
        AdviseError::NotMapped(_) => Error::NotMapped,
        AdviseError::NotAnonymous(_) | AdviseError::Locked(_) => Error::Denied,
        AdviseError::OutOfMemory => Error::NoMemory,
    }
}

/// Whether a file may end there.
fn end_of_file(end: Option<u64>) -> Result<(), Error> {
    end.filter(|&end| end <= MOST_PAGES * PAGE_BYTES).map(|_| ()).ok_or(Error::Invalid)
}

fn use_file(call: Call, [a, b, c, d]: [u64; 4]) -> Result<u64, Error> {
    let memory = memory();
    if call == Call::CreateFile {
        let pages = if a <= MOST_PAGES { a as u32 } else { return Err(Error::Invalid) };
        let object = memory.create_file(pages).map_err(|_| Error::TooMany)?;
        let number = u64::from(object.get());
        FILES.lock().insert(number, Arc::new(File { object, exists: Sleep::new(&FILE, true) }));
        return Ok(number);
    }
    let file = file(a)?;
    match call {
        Call::DeleteFile => {
            let mut exists = file.lock()?;
            if memory.is_mapped(file.object) {
                return Err(Error::Busy);
            }
            *exists = false;
            FILES.lock().remove(&a);
            memory.delete_file(file.object);
            Ok(0)
        }
        Call::ReadFile => {
            let mut buffer = vec![0; CHUNK];
            let mut done = 0;
            while done < d {
                let part = (d - done).min(CHUNK as u64) as usize;
                let got = {
                    let _shared = file.share()?;
                    memory.read(file.object, b + done, &mut buffer[..part]).map_err(|_| Error::NoMemory)?
                };
                user::copy_out(c + done, &buffer[..got]).map_err(|_| Error::Invalid)?;
                done += got as u64;
                if got < part {
                    break;
                }
            }
            Ok(done)
        }
        Call::WriteFile => {
            end_of_file(b.checked_add(d))?;
            let mut buffer = vec![0; CHUNK];
            let mut done = 0;
            while done < d {
                let part = (d - done).min(CHUNK as u64) as usize;
                user::copy_in(&mut buffer[..part], c + done).map_err(|_| Error::Invalid)?;
                let _alone = file.lock()?;
                memory.write(file.object, b + done, &buffer[..part]).map_err(|error| match error {
                    WriteError::TooLong(_) => Error::Invalid,
                    WriteError::OutOfMemory { .. } => Error::NoMemory,
                })?;
                done += part as u64;
            }
            Ok(done)
        }
        Call::Truncate => {
            end_of_file(Some(b))?;
            let _alone = file.lock()?;
            memory.truncate(file.object, b).map(|()| 0).map_err(|error| match error {
                TruncateError::TooLong(_) => Error::Invalid,
                TruncateError::OutOfMemory => Error::NoMemory,
            })
        }
        Call::SyncFile => {
            let _shared = file.share()?;
            Ok(memory.sync(file.object))
        }
        _ => Err(Error::NoCall),
    }
}
