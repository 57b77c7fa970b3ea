//! The part of QEMU's plugin interface that is used here, in the version that QEMU 9.2 began: its functions, and safe
//! wrappers around them.
//!
//! QEMU has these functions itself and binds them when it loads the plugin. Nothing here works in another program.

use std::ffi::{c_char, c_int, c_uint, c_void, CStr};

/// The version of the interface: 4 of QEMU 9.2, which has registers and the guest's memory by virtual address. QEMU
/// refuses a plugin whose version it no longer or not yet has.
pub(crate) const VERSION: c_int = 4;

/// The plugin, as QEMU counts it.
pub(crate) type Id = u64;

/// What is known of the machine when the plugin is loaded.
#[repr(C)]
#[derive(Debug)]
pub struct Info {
    target_name: *const c_char,
    _version: [c_int; 2],
    system_emulation: bool,
    vcpus: [c_int; 2],
}

impl Info {
    /// The name of the architecture, such as `x86_64`.
    pub(crate) fn target(&self) -> &str {
        // SAFETY: QEMU passes a string that ends with a zero and lasts as long as the program.
        unsafe { CStr::from_ptr(self.target_name) }.to_str().unwrap_or_default()
    }

    /// The most CPUs that the machine may have. `None`: QEMU runs a program, not a machine.
    pub(crate) fn cpus(&self) -> Option<usize> {
        self.system_emulation.then(|| self.vcpus[1].max(0) as usize)
    }
}

/// A block of instructions that is translated.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Block {
    _opaque: [u8; 0],
}

/// An instruction of a block.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Instruction {
    _opaque: [u8; 0],
}

#[repr(C)]
struct Register {
    handle: *mut c_void,
    name: *const c_char,
    _feature: *const c_char,
}

/// An array of glib.
#[repr(C)]
struct Array {
    data: *mut c_void,
    len: c_uint,
}

#[repr(C)]
struct Value {
    kind: c_int,
    data: [u64; 2],
}

/// An access to memory, as QEMU describes it to its own functions.
#[derive(Debug, Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Access(u32);

/// The callbacks.
type OnBlock = extern "C" fn(Id, *mut Block);
type OnCpu = extern "C" fn(Id, c_uint);
type OnInstruction = extern "C" fn(c_uint, *mut c_void);
type OnAccess = extern "C" fn(c_uint, Access, u64, *mut c_void);
type OnDropped = extern "C" fn(Id);
type OnExit = extern "C" fn(Id, *mut c_void);

const READS_NOTHING: c_int = 0;
const READS_REGISTERS: c_int = 1;
const LOADS: c_int = 1;
const STORES: c_int = 2;

extern "C" {
    fn qemu_plugin_register_vcpu_init_cb(id: Id, on: OnCpu);
    fn qemu_plugin_register_vcpu_tb_trans_cb(id: Id, on: OnBlock);
    fn qemu_plugin_register_flush_cb(id: Id, on: OnDropped);
    fn qemu_plugin_register_atexit_cb(id: Id, on: OnExit, data: *mut c_void);
    fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        on: OnInstruction,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    fn qemu_plugin_insn_data(instruction: *const Instruction, into: *mut c_void, len: usize) -> usize;
    fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    fn qemu_plugin_insn_haddr(instruction: *const Instruction) -> *mut c_void;
    fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        on: OnInstruction,
        flags: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        on: OnAccess,
        flags: c_int,
        which: c_int,
        data: *mut c_void,
    );
    fn qemu_plugin_mem_get_value(access: Access) -> Value;
    fn qemu_plugin_mem_size_shift(access: Access) -> c_uint;
    fn qemu_plugin_get_hwaddr(access: Access, address: u64) -> *mut c_void;
    fn qemu_plugin_hwaddr_is_io(hardware: *const c_void) -> bool;
    fn qemu_plugin_hwaddr_phys_addr(hardware: *const c_void) -> u64;
    fn qemu_plugin_get_registers() -> *mut Array;
    fn qemu_plugin_read_register(handle: *mut c_void, into: *mut Array) -> c_int;
    fn qemu_plugin_read_memory_vaddr(address: u64, into: *mut Array, len: usize) -> bool;
    fn g_byte_array_new() -> *mut Array;
    fn g_byte_array_set_size(array: *mut Array, len: c_uint) -> *mut Array;
    fn g_array_free(array: *mut Array, free: c_int) -> *mut c_char;
}

/// What QEMU tells the plugin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Callbacks {
    pub(crate) cpu: OnCpu,
    pub(crate) block: OnBlock,
    pub(crate) dropped: OnDropped,
    pub(crate) exit: OnExit,
}

impl Callbacks {
    pub(crate) fn register(self, id: Id) {
        // SAFETY: QEMU calls them with the arguments of their types until it ends, and never unloads the plugin.
        unsafe {
            qemu_plugin_register_vcpu_init_cb(id, self.cpu);
            qemu_plugin_register_flush_cb(id, self.dropped);
            qemu_plugin_register_atexit_cb(id, self.exit, std::ptr::null_mut());
        }
        on_each_block(id, self.block);
    }
}

/// Asks for a call for each block that is translated.
pub(crate) fn on_each_block(id: Id, on: OnBlock) {
    // SAFETY: QEMU calls it with the arguments of its type until it ends, and never unloads the plugin.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, on) }
}

/// Asks for a call before each execution of a block that is being translated. The call reads no registers.
pub(crate) fn before_each(block: *mut Block, on: OnInstruction, data: *mut c_void) {
    // SAFETY: QEMU passes a block that lasts as long as the callback. It passes `data` on and does nothing else with it.
    unsafe { qemu_plugin_register_vcpu_tb_exec_cb(block, on, READS_NOTHING, data) }
}

/// The instructions of a block, while it is translated.
pub(crate) fn instructions(block: *mut Block) -> impl Iterator<Item = Translated> {
    // SAFETY: QEMU passes a block that lasts as long as the callback, in which the iterator is used.
    let count = unsafe { qemu_plugin_tb_n_insns(block) };
    // SAFETY: as above, and each index is below the block's number of instructions.
    (0..count).map(move |index| Translated(unsafe { qemu_plugin_tb_get_insn(block, index) }))
}

/// An instruction that is being translated.
#[derive(Debug)]
pub(crate) struct Translated(*mut Instruction);

impl Translated {
    /// Its bytes: as many as there are and `into` has room for.
    pub(crate) fn bytes<'a>(&self, into: &'a mut [u8]) -> &'a [u8] {
        // SAFETY: the instruction is of the block that is being translated, and `into` has room for so many bytes.
        let len = unsafe { qemu_plugin_insn_data(self.0, into.as_mut_ptr().cast(), into.len()) };
        &into[..len.min(into.len())]
    }

    /// Its virtual address.
    pub(crate) fn address(&self) -> u64 {
        // SAFETY: as above.
        unsafe { qemu_plugin_insn_vaddr(self.0) }
    }

    /// Its place in the emulator's memory. 0: it is a device's.
    pub(crate) fn place(&self) -> u64 {
        // SAFETY: as above.
        unsafe { qemu_plugin_insn_haddr(self.0) as u64 }
    }

    /// Asks for a call before each of its executions, in which registers can be read.
    pub(crate) fn before(&self, on: OnInstruction, data: *mut c_void) {
        // SAFETY: as above. QEMU passes `data` on and does nothing else with it.
        unsafe { qemu_plugin_register_vcpu_insn_exec_cb(self.0, on, READS_REGISTERS, data) }
    }

    /// Asks for a call after each of its loads, and another one after each of its stores.
    pub(crate) fn after_each_access(&self, load: OnAccess, store: OnAccess, data: *mut c_void) {
        for (on, which) in [(load, LOADS), (store, STORES)] {
            // SAFETY: as above.
            unsafe { qemu_plugin_register_vcpu_mem_cb(self.0, on, READS_REGISTERS, which, data) }
        }
    }
}

impl Access {
    /// The number of its bytes.
    pub(crate) fn bytes(self) -> u64 {
        // SAFETY: it only looks at its argument.
        1 << unsafe { qemu_plugin_mem_size_shift(self) }
    }

    /// The value that it read or wrote, if it has at most eight bytes.
    pub(crate) fn value(self) -> Option<u64> {
        // SAFETY: called within the callback of the access.
        let Value { kind, data } = unsafe { qemu_plugin_mem_get_value(self) };
        let bits = 8_u32 << kind;
        (bits <= 64).then(|| data[0] & (u64::MAX >> (64 - bits)))
    }

    /// The physical address behind a virtual one. `None`: a device's, or unknown to QEMU.
    pub(crate) fn physical(self, address: u64) -> Option<u64> {
        // SAFETY: called within the callback of the access, with its own address. QEMU's answer is in a place of this
        // thread that lasts until the next call.
        unsafe {
            let hardware = qemu_plugin_get_hwaddr(self, address);
            (!hardware.is_null() && !qemu_plugin_hwaddr_is_io(hardware))
                .then(|| qemu_plugin_hwaddr_phys_addr(hardware))
        }
    }
}

/// A register of a CPU, which can be read in callbacks of that CPU.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Handle(*mut c_void);

// SAFETY: a handle is a number that QEMU made a pointer of; QEMU finds the register by it and by the calling thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    /// The registers of the calling CPU with these names, in their order. `None` for those that it lacks. `|` is between
    /// names of the same one.
    pub(crate) fn find(names: &[&str]) -> Vec<Option<Self>> {
        // SAFETY: called on the thread of a CPU. The array has so many elements of this type, and each name ends with a
        // zero.
        unsafe {
            let array = qemu_plugin_get_registers();
            let all = std::slice::from_raw_parts((*array).data.cast::<Register>(), (*array).len as usize);
            let handle = |name: &&str| {
                let is = |register: &&Register| {
                    let own = CStr::from_ptr(register.name).to_bytes();
                    name.split('|').any(|name| name.as_bytes() == own)
                };
                all.iter().find(is).map(|register| Self(register.handle))
            };
            let found = names.iter().map(handle).collect();
            g_array_free(array, 1);
            found
        }
    }

    /// Its value: the lowest eight bytes.
    pub(crate) fn read(self) -> Option<u64> {
        with_bytes(|array| {
            // SAFETY: called on the thread of a CPU, in a callback that may read registers, with an array of bytes.
            unsafe { qemu_plugin_read_register(self.0, array) > 0 }
        })
    }
}

/// Reads eight bytes of the calling CPU's memory.
pub(crate) fn load(address: u64) -> Option<u64> {
    with_bytes(|array| {
        // SAFETY: called on the thread of a CPU, with an array of bytes.
        unsafe { qemu_plugin_read_memory_vaddr(address, array, 8) }
    })
}

/// The first eight bytes that `fill` appends to an array, lowest first. `None`: it failed.
fn with_bytes(fill: impl FnOnce(*mut Array) -> bool) -> Option<u64> {
    thread_local! {
        // SAFETY: it makes an array, which is kept: registers are read often.
        static ARRAY: *mut Array = unsafe { g_byte_array_new() };
    }
    ARRAY.with(|&array| {
        // SAFETY: the array is this thread's, and nobody else has it: `fill` appends to it and asks for no other value. It is
        // emptied, filled, and read within its length.
        unsafe {
            g_byte_array_set_size(array, 0);
            fill(array).then(|| {
                let bytes = std::slice::from_raw_parts((*array).data.cast::<u8>(), (*array).len as usize);
                let mut low = [0; 8];
                low.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
                u64::from_le_bytes(low)
            })
        }
    })
}
