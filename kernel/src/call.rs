//! System calls: arguments checked, and handed to whoever does it.

use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;

use ceasefire::{LockClass, RwLock};
use ceasefire_kernel_abi::{Advice, Call, Counter, Error, Finding, Parameter, ANYWHERE, LINE};
use ceasefire_memory::{
    AdviseError, MapError, NodeId, ObjectId, Placement, ProtectError, Protection, RemapError, SpaceHandle,
    TruncateError, UnmapError, WriteError,
};

use crate::arch::{clock, this_cpu, user, Frame};
use crate::failure::{self, Kind};
use crate::lock::{IrqLock, Sleep};
use crate::platform::{memory, Kernel};
use crate::{cpu, log, process, report, schedule, thread};

/// The lock of a file: whoever changes its bytes or its length by a system call. Below all of the memory manager's.
static FILE: LockClass = LockClass { name: "file", rank: 0, sleeps: true, interrupts_off: false };
/// Bytes that a call copies at a time.
const CHUNK: usize = 4096;

/// A file.
#[derive(Debug)]
struct File {
    object: ObjectId,
    lock: Sleep<()>,
}

/// Files by the numbers that programs know them by.
static FILES: IrqLock<BTreeMap<u64, Arc<File>>> = IrqLock::new(BTreeMap::new());

fn file(number: u64) -> Result<Arc<File>, Error> {
    FILES.lock().get(&number).cloned().ok_or(Error::Invalid)
}

/// Does what the program asks for; the result.
pub(crate) fn handle(frame: &mut Frame) -> Result<u64, Error> {
    let call = Call::from_number(frame.call()).ok_or(Error::NoCall)?;
    let [a, b, c, d, _] = frame.arguments();
    let process = process::current()?;
    let space = &process.space;
    match call {
        Call::Exit => process::exit(a),
        Call::Log => log_line(a, b),
        Call::Spawn => process::spawn(Some(a), b, place(c)?),
        Call::Thread => process::start_thread(a, b, place(c)?, d),
        Call::Fork => process::fork(frame),
        Call::Wait => process::wait_for(a),
        Call::Yield => {
            schedule::give_way();
            Ok(0)
        }
        Call::Sleep => {
            schedule::sleep_until(clock::now().saturating_add(a));
            Ok(0)
        }
        Call::Now => Ok(clock::now()),
        Call::Cpu => Ok(this_cpu::get().number() as u64),
        Call::Pin => {
            schedule::move_to(place(a)?);
            Ok(0)
        }
        Call::Parameter => Parameter::from_number(a).map(report::parameter).ok_or(Error::Invalid),
        Call::Recover => {
            process.set_recovery(a, b, c);
            Ok(0)
        }
        Call::MeasureBegin => {
            report::begin();
            Ok(0)
        }
        Call::MeasureEnd => {
            report::end(a);
            Ok(0)
        }
        Call::Counter => Counter::from_number(a).map(report::counter).ok_or(Error::Invalid),
        Call::Report => report_finding(frame, a, b, c, d),
        Call::MapAnonymous
        | Call::MapShared
        | Call::MapPrivate
        | Call::Unmap
        | Call::Remap
        | Call::Protect
        | Call::Advise
        | Call::Migrate => change_space(call, space, [a, b, c, d]),
        Call::CreateFile
        | Call::DeleteFile
        | Call::ReadFile
        | Call::WriteFile
        | Call::Truncate
        | Call::SyncFile => use_file(call, [a, b, c, d]),
    }
}

/// A CPU that a thread may be tied to.
fn place(number: u64) -> Result<usize, Error> {
    if number == ANYWHERE {
        return Ok(thread::ANYWHERE);
    }
    let known = usize::try_from(number).ok().filter(|&number| number < cpu::all().len());
    known.ok_or(Error::Invalid)
}

fn log_line(address: u64, bytes: u64) -> Result<u64, Error> {
    let mut line = [0; LINE];
    let bytes = usize::try_from(bytes).ok().filter(|&bytes| bytes <= LINE).ok_or(Error::Invalid)?;
    user::copy_in(&mut line[..bytes], address).map_err(|_| Error::Invalid)?;
    let text = core::str::from_utf8(&line[..bytes]).map_err(|_| Error::Invalid)?;
    log::line(format_args!("{text}"));
    Ok(0)
}

fn report_finding(frame: &Frame, finding: u64, address: u64, expected: u64, found: u64) -> ! {
    let what = match Finding::from_number(finding) {
        Some(Finding::StaleRead) => "stale read",
        Some(Finding::LostWrite) => "lost write",
        Some(Finding::Forbidden) => "forbidden access",
        Some(Finding::Broken) => "broken promise",
        None => "unknown finding",
    };
    let who = thread::current();
    failure::stop(
        Kind::Rule,
        frame,
        format_args!("{what}: {who} at {address:#x}: expected {expected:#x}, found {found:#x}"),
    )
}

fn change_space(call: Call, space: &SpaceHandle<Kernel>, [a, b, c, d]: [u64; 4]) -> Result<u64, Error> {
    let memory = memory();
    let page = |number: u64| u32::try_from(number).map_err(|_| Error::Invalid);
    let nothing = |()| 0;
    match call {
        Call::MapAnonymous => memory.map_anonymous(space, a).map_err(of_map),
        Call::MapShared => memory.map_shared(space, file(a)?.object, page(b)?, c, d != 0).map_err(of_map),
        Call::MapPrivate => memory.map_private(space, file(a)?.object, page(b)?, c).map_err(of_map),
        Call::Unmap => memory.unmap(space, a, b).map(nothing).map_err(|error| match error {
            UnmapError::Range(_) => Error::Invalid,
            _ => Error::NoMemory,
        }),
        Call::Remap => {
            let placement = if d == ANYWHERE { Placement::Anywhere } else { Placement::At(d) };
            memory.remap(space, a, b, c, placement).map_err(|error| match error {
                RemapError::Range(_) | RemapError::Overlap => Error::Invalid,
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
            memory.protect(space, a, b, protection).map(nothing).map_err(|error| match error {
                ProtectError::Range(_) => Error::Invalid,
                ProtectError::NotMapped(_) => Error::NotMapped,
                ProtectError::Forbidden(_) => Error::Denied,
                _ => Error::NoMemory,
            })
        }
        Call::Advise => {
            let done = match Advice::from_number(c).ok_or(Error::Invalid)? {
                Advice::Discard => memory.discard(space, a, b),
                Advice::Free => memory.advise_free(space, a, b),
                Advice::Cold => memory.advise_cold(space, a, b),
                Advice::PageOut => memory.advise_page_out(space, a, b),
                Advice::Huge => memory.advise_huge(space, a, b, true),
            };
            done.map(nothing).map_err(|error| match error {
                AdviseError::Range(_) => Error::Invalid,
                AdviseError::NotMapped(_) => Error::NotMapped,
                AdviseError::NotAnonymous(_) | AdviseError::Locked(_) => Error::Denied,
                AdviseError::OutOfMemory => Error::NoMemory,
            })
        }
        Call::Migrate => {
            let node = |number: u64| {
                let nodes = memory.config().nodes.len() as u64;
                if number < nodes {
                    Ok(NodeId(number as u16))
                } else {
                    Err(Error::Invalid)
                }
            };
            let of = process::find(a)?;
            let moved = memory.migrate_space(&of.space, node(b)?, node(c)?);
            // Whatever does not fit stays where it is.
            Ok(match moved {
                Ok(migrated) | Err(ceasefire_memory::MigrateError::Full { migrated, .. }) => {
                    migrated.moved as u64
                }
                Err(ceasefire_memory::MigrateError::NoNode(_)) => return Err(Error::Invalid),
            })
        }
        _ => Err(Error::NoCall),
    }
}

fn of_map(error: MapError) -> Error {
    match error {
        MapError::Length(_) => Error::Invalid,
        MapError::Objects(_) => Error::TooMany,
        MapError::NoRoom(_) => Error::NoMemory,
    }
}

fn use_file(call: Call, [a, b, c, d]: [u64; 4]) -> Result<u64, Error> {
    let memory = memory();
    let platform = memory.platform();
    if call == Call::CreateFile {
        let pages = u32::try_from(a).map_err(|_| Error::Invalid)?;
        let object = memory.create_file(pages).map_err(|_| Error::TooMany)?;
        let number = u64::from(object.get());
        FILES.lock().insert(number, Arc::new(File { object, lock: Sleep::new(&FILE, ()) }));
        return Ok(number);
    }
    let file = file(a)?;
    match call {
        Call::DeleteFile => {
            let _alone = file.lock.write(platform);
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
                    let _shared = file.lock.read(platform);
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
            let mut buffer = vec![0; CHUNK];
            let mut done = 0;
            while done < d {
                let part = (d - done).min(CHUNK as u64) as usize;
                user::copy_in(&mut buffer[..part], c + done).map_err(|_| Error::Invalid)?;
                let _alone = file.lock.write(platform);
                memory.write(file.object, b + done, &buffer[..part]).map_err(|error| match error {
                    WriteError::TooLong(_) => Error::Invalid,
                    WriteError::OutOfMemory { .. } => Error::NoMemory,
                })?;
                done += part as u64;
            }
            Ok(done)
        }
        Call::Truncate => {
            let _alone = file.lock.write(platform);
            memory.truncate(file.object, b).map(|()| 0).map_err(|error| match error {
                TruncateError::TooLong(_) => Error::Invalid,
                TruncateError::OutOfMemory => Error::NoMemory,
            })
        }
        Call::SyncFile => {
            let _shared = file.lock.read(platform);
            Ok(memory.sync(file.object))
        }
        _ => Err(Error::NoCall),
    }
}
