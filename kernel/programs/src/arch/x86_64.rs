//! x86-64: `int 0x80` with the number in rax, arguments in rdi, rsi, rdx, r10 and r8, and the result in rax.

use core::arch::{asm, global_asm};

// Both accesses lie between `access_load` and `access_end`, and only they can fault there. Neither has pushed anything,
// so after either fails `access_failed` can return to its caller.
global_asm!(
    r#"
    .section .text.access, "ax", @progbits
    .global access_load, access_store, access_end, access_failed
access_load:
    mov rax, [rdi]
    mov edx, 1
    ret
access_store:
    mov [rdi], rsi
    mov eax, 1
    ret
access_end:
access_failed:
    xor eax, eax
    xor edx, edx
    ret
    "#
);

/// Calls the kernel.
///
/// # Safety
/// Rust code must not otherwise rely on the memory that the call changes.
pub(crate) unsafe fn call(number: u64, arguments: [u64; 5]) -> u64 {
    let [first, second, third, fourth, fifth] = arguments;
    let result;
    // SAFETY: the kernel preserves all registers but rax. The caller is responsible for memory.
    unsafe {
        asm!(
            "int 0x80",
            inlateout("rax") number => result,
            in("rdi") first,
            in("rsi") second,
            in("rdx") third,
            in("r10") fourth,
            in("r8") fifth,
        );
    }
    result
}

/// Loads the 8 bytes at an address. An impossible load ends the run.
pub(crate) fn load(address: u64) -> u64 {
    let value;
    // SAFETY: a load that succeeds changes nothing.
    unsafe {
        asm!("mov {value}, [{address}]", address = in(reg) address, value = out(reg) value, options(nostack, readonly));
    }
    value
}

/// The entry of the first process. The kernel has made the stack as a call would have left it, with a return address of
/// 0.
#[unsafe(no_mangle)]
extern "C" fn start(argument: u64) -> ! {
    crate::run(argument)
}
