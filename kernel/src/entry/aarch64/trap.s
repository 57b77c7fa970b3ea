// The way into the kernel and back. Every exception, interrupt and system call takes it, and leaves the registers of
// the stopped code in a `Frame`.

.set FRAME, 832
.set FRAME_SP, 248
.set FRAME_PC, 256
.set FRAME_SYNDROME, 272
.set FRAME_FLOAT, 288
.set FRAME_ENTRY, 304
.set FRAME_VECTORS, 320

.text
// One of the sixteen entries: makes room, and notes the entry's number and the stack pointer of the stopped code. The
// code before it runs while all registers are those of the stopped code.
.macro entry number, from
    sub sp, sp, #FRAME
    stp x0, x1, [sp]
    mov x0, #\number
    .ifc \from, program
    mrs x1, sp_el0
    .else
    add x1, sp, #FRAME
    .endif
    b trap_entry
.endm

    .balign 2048
.global trap_vectors
trap_vectors:
    // From the kernel, with a stack pointer that it does not use.
.irp number, 12, 13, 14, 15
    .balign 128
    entry \number, kernel
.endr
    // From the kernel. An exception may come because the stack is used up, and then the frame has no room on it.
    .balign 128
    msr tpidrro_el0, x0
    sub x0, sp, #FRAME
    at s1e1w, x0
    isb                             // before its result is read
    mrs x0, par_el1
    tbnz x0, #0, stack_used_up
    mrs x0, tpidrro_el0
    entry 0, kernel
.irp number, 1, 2, 3
    .balign 128
    entry \number, kernel
.endr
    // From a program.
.irp number, 4, 5, 6, 7
    .balign 128
    entry \number, program
.endr
    // From a program with registers of 32 bits. There are none.
.irp number, 8, 9, 10, 11
    .balign 128
    entry \number, program
.endr

// On the stack of last resort, with the number for this case.
stack_used_up:
    mrs x0, tpidr_el1
    add x0, x0, #{last_stack}
    sub x0, x0, #FRAME
    str x1, [x0, #8]
    mov x1, sp
    mov sp, x0
    mrs x0, tpidrro_el0
    str x0, [sp]
    mov x0, #16
    b trap_entry

// x0 and x1 are stored; they now hold the number and the stack pointer.
trap_entry:
    stp x2, x3, [sp, #16]
    stp x4, x5, [sp, #32]
    stp x6, x7, [sp, #48]
    stp x8, x9, [sp, #64]
    stp x10, x11, [sp, #80]
    stp x12, x13, [sp, #96]
    stp x14, x15, [sp, #112]
    stp x16, x17, [sp, #128]
    stp x18, x19, [sp, #144]
    stp x20, x21, [sp, #160]
    stp x22, x23, [sp, #176]
    stp x24, x25, [sp, #192]
    stp x26, x27, [sp, #208]
    stp x28, x29, [sp, #224]
    stp x30, x1, [sp, #240]
    mrs x2, elr_el1
    mrs x3, spsr_el1
    mrs x4, esr_el1
    mrs x5, far_el1
    mrs x6, fpcr
    mrs x7, fpsr
    stp x2, x3, [sp, #FRAME_PC]
    stp x4, x5, [sp, #FRAME_SYNDROME]
    stp x6, x7, [sp, #FRAME_FLOAT]
    str x0, [sp, #FRAME_ENTRY]
    add x1, sp, #FRAME_VECTORS
    stp q0, q1, [x1]
    stp q2, q3, [x1, #32]
    stp q4, q5, [x1, #64]
    stp q6, q7, [x1, #96]
    stp q8, q9, [x1, #128]
    stp q10, q11, [x1, #160]
    stp q12, q13, [x1, #192]
    stp q14, q15, [x1, #224]
    stp q16, q17, [x1, #256]
    stp q18, q19, [x1, #288]
    stp q20, q21, [x1, #320]
    stp q22, q23, [x1, #352]
    stp q24, q25, [x1, #384]
    stp q26, q27, [x1, #416]
    stp q28, q29, [x1, #448]
    stp q30, q31, [x1, #480]
    mov x0, sp
    bl {trap}

// Returns, with interrupts off, to the code in the frame at the stack pointer.
trap_return:
    add x1, sp, #FRAME_VECTORS
    ldp q0, q1, [x1]
    ldp q2, q3, [x1, #32]
    ldp q4, q5, [x1, #64]
    ldp q6, q7, [x1, #96]
    ldp q8, q9, [x1, #128]
    ldp q10, q11, [x1, #160]
    ldp q12, q13, [x1, #192]
    ldp q14, q15, [x1, #224]
    ldp q16, q17, [x1, #256]
    ldp q18, q19, [x1, #288]
    ldp q20, q21, [x1, #320]
    ldp q22, q23, [x1, #352]
    ldp q24, q25, [x1, #384]
    ldp q26, q27, [x1, #416]
    ldp q28, q29, [x1, #448]
    ldp q30, q31, [x1, #480]
    // Masked as at an exception: a trap here would overwrite the registers that are set.
    msr daifset, #0xf
    ldp x2, x3, [sp, #FRAME_PC]
    ldp x6, x7, [sp, #FRAME_FLOAT]
    msr elr_el1, x2
    msr spsr_el1, x3
    msr fpcr, x6
    msr fpsr, x7
    tst x3, #0xc
    b.ne 1f
    ldr x4, [sp, #FRAME_SP]
    msr sp_el0, x4
1:
    ldp x2, x3, [sp, #16]
    ldp x4, x5, [sp, #32]
    ldp x6, x7, [sp, #48]
    ldp x8, x9, [sp, #64]
    ldp x10, x11, [sp, #80]
    ldp x12, x13, [sp, #96]
    ldp x14, x15, [sp, #112]
    ldp x16, x17, [sp, #128]
    ldp x18, x19, [sp, #144]
    ldp x20, x21, [sp, #160]
    ldp x22, x23, [sp, #176]
    ldp x24, x25, [sp, #192]
    ldp x26, x27, [sp, #208]
    ldp x28, x29, [sp, #224]
    ldr x30, [sp, #240]
    ldp x0, x1, [sp]
    add sp, sp, #FRAME
    eret

// leave_for_program(frame: *const Frame, end: u64): moves the frame to the end of its stack, last bytes first since the
// two may overlap, and returns to the program in it.
.global leave_for_program
leave_for_program:
    add x2, x0, #FRAME
1:
    ldp x3, x4, [x2, #-16]!
    stp x3, x4, [x1, #-16]!
    cmp x2, x0
    b.ne 1b
    mov sp, x1
    b trap_return

// switch_stacks(save: *mut u64, load: u64): saves the registers that a call keeps on one stack, and takes them from
// another.
.global switch_stacks
switch_stacks:
    sub sp, sp, #160
    stp x19, x20, [sp]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret

// load_word(address: *const u64, value: *mut u64) -> bool, store_word(address: *mut u64, value: u64) -> bool: whether
// the access was possible. A fault in the first instruction continues at word_failed.
.global load_word
load_word:
    ldr x2, [x0]
    str x2, [x1]
    mov x0, #1
    ret
.global store_word
store_word:
    str x1, [x0]
    mov x0, #1
    ret
.global word_failed
word_failed:
    mov x0, #0
    ret

// copy_user(to: *mut u8, from: *const u8, bytes: usize) -> usize: returns how many bytes were not copied, or more.
// After a fault that cannot be resolved it continues at its end.
.global copy_user
copy_user:
.global copy_user_access
copy_user_access:
    cmp x2, #8
    b.lo 2f
1:
    ldr x3, [x1], #8
    str x3, [x0], #8
    sub x2, x2, #8
    cmp x2, #8
    b.hs 1b
2:
    cbz x2, copy_user_end
3:
    ldrb w3, [x1], #1
    strb w3, [x0], #1
    subs x2, x2, #1
    b.ne 3b
.global copy_user_end
copy_user_end:
    mov x0, x2
    ret
