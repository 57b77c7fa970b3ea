//! The instructions of an x86-64 kernel while a program of its guest runs a load.
//!
//! The program executes a no-operation with a number that no compiler writes before its load and after it (`guest_loads`).
//! Blocks of instructions are counted when they begin; an exception in one makes the rest of it count, too. Repeated string
//! instructions are not counted: QEMU ends the block with each repetition, and a processor does not.

use std::ffi::{c_uint, c_void};
use std::fs::{self, File};
use std::io::Write as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::qemu::{self, Block, Id, Info};

/// `nopl NUMBER(%rax,%rax,1)`, without the number, whose lowest bit tells the end of a load from its begin.
const MARK: [u8; 4] = [0x0f, 0x1f, 0x84, 0x00];
const BEGINS: u32 = 0x7ea5_e0b0;
const ENDS: u32 = BEGINS + 1;

/// Where the kernel's addresses begin.
const KERNEL: u64 = 1 << 63;

/// The instructions of the kernel so far.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// The count when the load began, and the file for that of the load.
static LOAD: OnceLock<Mutex<(Option<u64>, PathBuf)>> = OnceLock::new();

/// Counts, and adds the count of each load to a file when the load has ended.
pub(crate) fn install(id: Id, info: &Info, path: &str) -> Result<(), String> {
    if info.target() != "x86_64" {
        return Err(format!("{}: instructions are counted of x86_64 alone", info.target()));
    }
    // What an earlier run left is no count of this one.
    fs::write(path, "").map_err(|error| format!("{path}: {error}"))?;
    // QEMU loads the plugin once.
    let _ = LOAD.set(Mutex::new((None, path.into())));
    qemu::on_each_block(id, on_block);
    Ok(())
}

extern "C" fn on_block(_: Id, block: *mut Block) {
    let mut count: usize = 0;
    for instruction in qemu::instructions(block) {
        let mut bytes = [0; 16];
        let bytes = instruction.bytes(&mut bytes);
        if instruction.address() >= KERNEL {
            count += usize::from(!is_repeated(bytes));
        } else if let Some(number) = mark_in(bytes) {
            instruction.before(on_mark, number as usize as *mut c_void);
        }
    }
    if count > 0 {
        qemu::before_each(block, on_execution, count as *mut c_void);
    }
}

/// Whether an instruction is a string instruction with a prefix of repetition.
fn is_repeated(bytes: &[u8]) -> bool {
    let is_repetition = |byte: &u8| matches!(byte, 0xf2 | 0xf3);
    let is_prefix = |byte: &&u8| is_repetition(byte) || matches!(byte, 0x66 | 0x67 | 0x40..=0x4f);
    let prefixes = bytes.iter().take_while(is_prefix).count();
    bytes[..prefixes].iter().any(is_repetition)
        && matches!(bytes.get(prefixes), Some(0x6c..=0x6f | 0xa4..=0xa7 | 0xaa..=0xaf))
}

/// The number of a mark.
fn mark_in(bytes: &[u8]) -> Option<u32> {
    let number = u32::from_le_bytes(bytes.strip_prefix(&MARK)?.try_into().ok()?);
    (BEGINS..=ENDS).contains(&number).then_some(number)
}

extern "C" fn on_execution(_: c_uint, count: *mut c_void) {
    // CPUs that run at the same time may not lose each other's counts.
    COUNT.fetch_add(count as u64, Ordering::Relaxed);
}

extern "C" fn on_mark(_: c_uint, number: *mut c_void) {
    let (ends, sum) = (number as usize == ENDS as usize, COUNT.load(Ordering::Relaxed));
    let Some(load) = LOAD.get() else { return };
    let (begun, path) = &mut *load.lock().unwrap_or_else(PoisonError::into_inner);
    if !ends {
        *begun = Some(sum);
    } else if let Some(begun) = begun.take() {
        let add = |mut file: File| writeln!(file, "{}", sum - begun);
        if let Err(error) = File::options().append(true).open(&*path).and_then(add) {
            eprintln!("ceasefire: {}: {error}", path.display());
        }
    }
}
