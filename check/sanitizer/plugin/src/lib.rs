//! The plugin for QEMU of `ceasefire sanitize`: what QEMU loads, and the callbacks. `qemu` is QEMU's interface. `count` is
//! another thing that the plugin can do.

mod count;
mod qemu;

use std::cell::UnsafeCell;
use std::collections::BTreeMap;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::marker::PhantomData;
use std::path::PathBuf;
use std::process;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Instant;

use ceasefire_sanitizer::arch::aarch64::Aarch64;
use ceasefire_sanitizer::arch::riscv64::Riscv64;
use ceasefire_sanitizer::arch::x86::X86;
use ceasefire_sanitizer::arch::{Arch, Operands};
use ceasefire_sanitizer::find::Report;
use ceasefire_sanitizer::free::{Free, NoFree};
use ceasefire_sanitizer::watch::{self, Accessed, Code, Cpu, Watch};

use self::qemu::{Access, Block, Callbacks, Handle, Id, Info};

/// The version of the interface for which the plugin is made. QEMU looks for it by this name.
#[no_mangle]
pub static qemu_plugin_version: c_int = qemu::VERSION;

/// The machine of the emulator. There is one in a process.
#[derive(Debug)]
struct Machine<A> {
    watch: Watch,
    cpus: Vec<Own<A>>,
}

/// A CPU, in the callbacks of that CPU.
#[derive(Debug)]
struct Own<A>(UnsafeCell<Cpu<A>>);

// SAFETY: QEMU makes the callbacks of a CPU one after the other, on the CPU's own thread or on one that all CPUs share.
// They alone touch the cell.
unsafe impl<A: Arch> Sync for Own<A> {}

/// An architecture whose machine the emulator may be.
trait Emulated: Arch {
    fn machine() -> &'static OnceLock<Machine<Self>>;
}

macro_rules! emulated {
    ($($arch:ty)*) => {$(
        impl Emulated for $arch {
            fn machine() -> &'static OnceLock<Machine<Self>> {
                static MACHINE: OnceLock<Machine<$arch>> = OnceLock::new();
                &MACHINE
            }
        }
    )*};
}

emulated!(X86 Aarch64 Riscv64);

/// The machine and the CPU whose callback this is.
#[inline]
fn in_callback_of<A: Emulated>(cpu: c_uint) -> Option<(&'static Watch, &'static mut Cpu<A>)> {
    let machine = A::machine().get()?;
    // SAFETY: each callback asks once, for its own CPU, and none runs within another: see `Own`.
    let cpu = unsafe { &mut *machine.cpus.get(cpu as usize)?.0.get() };
    Some((&machine.watch, cpu))
}

/// The handles of the registers that operands need, by their places.
static REGISTERS: OnceLock<Vec<Option<Handle>>> = OnceLock::new();

/// The functions that free frames.
static FREES: OnceLock<Vec<Free>> = OnceLock::new();

/// Loads the plugin. Its arguments are `out=FILE`, the report; `code=FIRST+BYTES`, the kernel's code, both in hexadecimal
/// digits, without which no callers are reported; and `free=`, a [`Free`], as often as there is one. Or `count=FILE` alone:
/// then it counts, and watches nothing.
///
/// # Safety
/// QEMU calls it, with what its interface promises.
#[no_mangle]
pub unsafe extern "C" fn qemu_plugin_install(
    id: Id,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    // SAFETY: QEMU passes a description that lasts through the call.
    let info = unsafe { &*info };
    let texts = (0..count.max(0) as usize).map(|index| {
        // SAFETY: there are `count` strings, each with a zero at its end.
        unsafe { CStr::from_ptr(*arguments.add(index)) }.to_string_lossy().into_owned()
    });
    match install(id, info, texts.collect()) {
        Ok(()) => 0,
        Err(message) => {
            eprintln!("ceasefire: {message}");
            1
        }
    }
}

fn install(id: Id, info: &Info, arguments: Vec<String>) -> Result<(), String> {
    if let [argument] = &arguments[..] {
        if let Some(path) = argument.strip_prefix("count=") {
            return count::install(id, info, path);
        }
    }
    let (mut out, mut code, mut frees) = (None, Code::default(), Vec::new());
    for argument in arguments {
        match argument.split_once('=') {
            Some(("out", path)) => out = Some(PathBuf::from(path)),
            Some(("code", range)) => {
                code = code_in(range).ok_or_else(|| format!("{argument}: it must be code=FIRST+BYTES"))?;
            }
            Some(("free", text)) => {
                frees.push(
                    text.parse().map_err(|NoFree| format!("{argument}: it must be as `Free` is written"))?,
                );
            }
            _ => return Err(format!("{argument}: the plugin knows out=FILE, code=FIRST+BYTES and free=")),
        }
    }
    let out = out.ok_or("the plugin needs out=FILE")?;
    let cpus = info.cpus().ok_or("QEMU must run a machine (qemu-system-...), not a program")?;
    // QEMU loads the plugin once.
    let _ = FREES.set(frees);
    let report = Report::create(&out).map_err(|error| format!("{}: {error}", out.display()))?;
    let target = info.target();
    match target {
        "x86_64" => begin::<X86>(id, target, cpus, code, report),
        "aarch64" => begin::<Aarch64>(id, target, cpus, code, report),
        "riscv64" => begin::<Riscv64>(id, target, cpus, code, report),
        other => return Err(format!("{other}: the plugin knows x86_64, aarch64 and riscv64")),
    }
    Ok(())
}

/// The code in an argument.
fn code_in(range: &str) -> Option<Code> {
    let (first, bytes) = range.split_once('+')?;
    let number = |digits: &str| u64::from_str_radix(digits, 16).ok();
    Some(Code { first: number(first)?, bytes: number(bytes)? })
}

fn begin<A: Emulated>(id: Id, target: &str, cpus: usize, code: Code, report: Report) {
    let watch = Watch::new(target, cpus, code, report, now);
    let cpus = (0..cpus).map(|index| Own(UnsafeCell::new(Cpu::new(index)))).collect();
    // QEMU loads the plugin once.
    let _ = A::machine().set(Machine { watch, cpus });
    Callbacks { cpu: on_cpu::<A>, block: on_block::<A>, dropped: on_dropped::<A>, exit: on_exit::<A> }
        .register(id);
}

/// The nanoseconds since the first call.
fn now() -> u64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    BEGUN.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

/// The registers of the calling CPU.
#[derive(Clone, Copy)]
struct Registers;

impl Operands for Registers {
    fn register(&self, index: usize) -> u64 {
        let handles = REGISTERS.get();
        // One that is not found was reported then.
        handles.and_then(|handles| (*handles.get(index)?)?.read()).unwrap_or_default()
    }

    fn load(&self, address: u64) -> Option<u64> {
        qemu::load(address)
    }
}

extern "C" fn on_cpu<A: Emulated>(_: Id, cpu: c_uint) {
    static FIRST: OnceLock<(ThreadId, c_uint)> = OnceLock::new();
    let thread = thread::current().id();
    let first = *FIRST.get_or_init(|| (thread, cpu));
    if first.0 == thread && first.1 != cpu {
        // QEMU 10 then tells for each block the CPU that translated it.
        eprintln!(
            "ceasefire: QEMU runs its CPUs on one thread, and tells plugins wrong CPUs then: give it one CPU, or \
             -accel tcg,thread=multi and no -icount"
        );
        process::exit(1);
    }
    REGISTERS.get_or_init(|| {
        let found = Handle::find(A::REGISTERS);
        for (index, name) in A::REGISTERS.iter().enumerate() {
            if found[index].is_none() && !A::LACKED.contains(&index) {
                eprintln!("ceasefire: QEMU does not tell the register {name}, so the report may be wrong");
            }
        }
        found
    });
}

/// An instruction that concerns translations, and its address.
type Special<A> = (<A as Arch>::Instruction, u64);

/// A block's first instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct First {
    address: u64,
    /// Its physical address. `None`: the guest's memory was not found when the block was translated.
    physical: Option<u64>,
    /// Its place in the emulator.
    place: u64,
}

/// They are kept: QEMU may translate the block again while a CPU still runs it.
fn kept(first: First) -> &'static First {
    static KEPT: Mutex<BTreeMap<First, &First>> = Mutex::new(BTreeMap::new());
    let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
    kept.entry(first).or_insert_with(|| Box::leak(Box::new(first)))
}

extern "C" fn on_block<A: Emulated>(_: Id, block: *mut Block) {
    for (number, instruction) in qemu::instructions(block).enumerate() {
        let mut bytes = [0; 16];
        let address = instruction.address();
        // A block begins where a call leads.
        if number == 0 {
            let frees = FREES.get().into_iter().flatten();
            for free in frees.filter(|free| free.function == address) {
                instruction.before(on_free::<A>, std::ptr::from_ref(free).cast_mut().cast());
            }
        }
        if let Some(what) = A::decode(instruction.bytes(&mut bytes)) {
            // It is kept: QEMU may translate the block again while a CPU still runs it. There are few in a kernel.
            let special: &'static Special<A> = Box::leak(Box::new((what, address)));
            instruction.before(on_special::<A>, std::ptr::from_ref(special).cast_mut().cast());
        } else if number == 0 {
            let place = instruction.place();
            let physical = A::machine().get().and_then(|machine| machine.watch.physical(place));
            let block = std::ptr::from_ref(kept(First { address, physical, place }));
            instruction.before(on_first::<A>, block.cast_mut().cast());
        }
        instruction.after_each_access(on_access::<A, false>, on_access::<A, true>, address as *mut c_void);
    }
}

extern "C" fn on_first<A: Emulated>(cpu: c_uint, block: *mut c_void) {
    // SAFETY: `on_block` made the pointer of a reference that lasts for ever.
    let &First { address, physical, place } = unsafe { &*block.cast::<First>() };
    let Some((watch, cpu)) = in_callback_of::<A>(cpu) else { return };
    if !cpu.is_known() {
        cpu.learn(&Registers);
    }
    if let Some(physical) = physical.or_else(|| watch.physical(place)) {
        watch.fetch(cpu, address, physical, Registers);
    }
}

extern "C" fn on_special<A: Emulated>(cpu: c_uint, special: *mut c_void) {
    // SAFETY: `on_block` made the pointer of a reference that lasts for ever.
    let &(what, address) = unsafe { &*special.cast::<Special<A>>() };
    if let Some((watch, cpu)) = in_callback_of::<A>(cpu) {
        watch.execute(cpu, what, address, &Registers);
    }
}

extern "C" fn on_free<A: Emulated>(cpu: c_uint, free: *mut c_void) {
    // SAFETY: `on_block` made the pointer of a reference that lasts for ever.
    let free = unsafe { &*free.cast::<Free>() };
    if let Some((watch, cpu)) = in_callback_of::<A>(cpu) {
        watch.frees(cpu, free, &Registers);
    }
}

/// An access and its address.
struct At<A>(Access, u64, PhantomData<A>);

impl<A> Clone for At<A> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<A> Copy for At<A> {}

impl<A> Operands for At<A> {
    fn register(&self, index: usize) -> u64 {
        Registers.register(index)
    }

    fn load(&self, address: u64) -> Option<u64> {
        Registers.load(address)
    }
}

impl<A: Arch> watch::Access for At<A> {
    fn physical(self) -> Option<u64> {
        self.0.physical(self.1)
    }

    fn value(self) -> Option<u64> {
        self.0.value()
    }

    fn bytes(self) -> u64 {
        self.0.bytes()
    }
}

extern "C" fn on_access<A: Emulated, const STORE: bool>(
    cpu: c_uint,
    access: Access,
    address: u64,
    by: *mut c_void,
) {
    let Some((watch, cpu)) = in_callback_of::<A>(cpu) else { return };
    let what = Accessed { address, by: by as u64, store: STORE, fetch: false };
    watch.access(cpu, what, At(access, address, PhantomData::<A>));
}

/// QEMU has dropped all blocks: it does so when it has loaded a snapshot, and sometimes for want of room. No CPU runs.
extern "C" fn on_dropped<A: Emulated>(_: Id) {
    if let Some(machine) = A::machine().get() {
        machine.watch.forget();
    }
}

extern "C" fn on_exit<A: Emulated>(_: Id, _: *mut c_void) {
    if let Some(machine) = A::machine().get() {
        machine.watch.end();
    }
}
