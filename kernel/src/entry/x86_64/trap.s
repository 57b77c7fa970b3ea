// The way into the kernel and back. Every exception, interrupt and system call takes it, and leaves the registers of
// the stopped code in a `Frame`.

.text
.macro save_registers
    push rax
    push rbx
    push rcx
    push rdx
    push rsi
    push rdi
    push rbp
    push r8
    push r9
    push r10
    push r11
    push r12
    push r13
    push r14
    push r15
.endm

.macro restore_registers
    pop r15
    pop r14
    pop r13
    pop r12
    pop r11
    pop r10
    pop r9
    pop r8
    pop rbp
    pop rdi
    pop rsi
    pop rdx
    pop rcx
    pop rbx
    pop rax
.endm

// The offset of the stopped code's segment in a Frame. Its lowest bits say whether it was a program.
.set FRAME_CS, 18 * 8

// One entry for each vector, 16 bytes long. It pushes an error code where the processor pushes none, and the vector.
    .balign 16
.global trap_vectors
trap_vectors:
    .set vector, 0
.rept 256
    .balign 16
    .if (vector == 8) || (vector >= 10 && vector <= 14) || (vector == 17) || (vector == 21)
    .else
    push 0
    .endif
    push vector
    .if (vector == 2) || (vector == 8) || (vector == 18)
    jmp trap_anywhere
    .else
    jmp trap_entry
    .endif
    .set vector, vector + 1
.endr

// The common entry. The stopped code's segment says which base GS has.
    .balign 16
trap_entry:
    save_registers
    cld
    test byte ptr [rsp + FRAME_CS], 3
    jz 1f
    swapgs
1:
    mov rdi, rsp
    call {trap}
// A thread that has never run in user mode comes here too, with a frame made for it.
.global trap_return
trap_return:
    test byte ptr [rsp + FRAME_CS], 3
    jz 1f
    swapgs
1:
    restore_registers
    add rsp, 16
    iretq

// NMI, double fault and machine check end the run. They come on stacks of their own at any instruction, also within an
// entry or exit, where segment and GS do not agree. The base of GS itself then says whose it is: the kernel's has its
// highest bit set.
    .balign 16
trap_anywhere:
    save_registers
    cld
    mov ecx, 0xc0000101
    rdmsr
    test edx, edx
    js 1f
    swapgs
1:
    mov rdi, rsp
    call {trap_anywhere}
    ud2

// switch_stacks(save: *mut u64, load: u64): saves the registers that a call keeps on one stack, and takes them from
// another.
    .balign 16
.global switch_stacks
switch_stacks:
    push rbp
    push rbx
    push r12
    push r13
    push r14
    push r15
    mov [rdi], rsp
    mov rsp, rsi
    pop r15
    pop r14
    pop r13
    pop r12
    pop rbx
    pop rbp
    ret

// load_word(address: *const u64, value: *mut u64) -> bool, store_word(address: *mut u64, value: u64) -> bool: whether
// the access was possible. A fault in the first instruction continues at word_failed.
    .balign 16
.global load_word
load_word:
    mov rax, [rdi]
    mov [rsi], rax
    mov eax, 1
    ret
.global store_word
store_word:
    mov [rdi], rsi
    mov eax, 1
    ret
.global word_failed
word_failed:
    xor eax, eax
    ret

// copy_user(to: *mut u8, from: *const u8, bytes: usize) -> usize: returns how many bytes were not copied. After a fault
// that cannot be resolved it continues at its end.
    .balign 16
.global copy_user
copy_user:
    mov rcx, rdx
.global copy_user_access
copy_user_access:
    rep movsb
.global copy_user_end
copy_user_end:
    mov rax, rcx
    ret
