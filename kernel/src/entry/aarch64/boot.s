// From the loader, or the firmware that starts another CPU, to the kernel's own addresses, at exception level 1 with
// the MMU on.
//
// Both enter with the MMU off at the image's load address, so all addresses here are relative to the code.

.section .boot, "ax"

.global boot_start
boot_start:
    msr daifset, #0xf
    mov x19, x0
    bl leave_hypervisor
    bl enable_mmu
    ldr x9, =BOOT_STACK + {boot_stack}
    mov sp, x9
    mov x0, x19
    ldr x9, ={start}
    blr x9
    brk #0

// PSCI starts another CPU here, with the CPU's number.
.global boot_other
boot_other:
    msr daifset, #0xf
    mov x19, x0
    bl leave_hypervisor
    bl enable_mmu
    ldr x9, ={stacks}
    ldr x9, [x9, x19, lsl #3]
    mov sp, x9
    mov x0, x19
    ldr x9, ={start_other}
    blr x9
    brk #0

// If the CPU is at exception level 2, returns to the caller at level 1, which then has timers and interrupt controller
// to itself.
leave_hypervisor:
    mrs x9, CurrentEL
    cmp x9, #2 << 2
    b.ne 1f
    mov x9, #1 << 31                // RW: level 1 has 64 bits; nothing is trapped
    msr hcr_el2, x9
    mov x9, #3                      // EL1PCTEN, EL1PCEN
    msr cnthctl_el2, x9
    msr cntvoff_el2, xzr
    mov x9, #0xf                    // SRE, and level 1 may use it
    msr icc_sre_el2, x9
    mov x9, #0x33ff                 // RES1: no floating point is trapped
    msr cptr_el2, x9
    msr hstr_el2, xzr
    msr vttbr_el2, xzr
    mrs x9, midr_el1
    msr vpidr_el2, x9
    mrs x9, mpidr_el1
    msr vmpidr_el2, x9
    mov x9, #0x0800                 // RES1
    movk x9, #0x30d0, lsl #16
    msr sctlr_el1, x9
    mov x9, #0x3c5                  // level 1, its own stack pointer, everything masked
    msr spsr_el2, x9
    msr elr_el2, x30
    eret
1:  ret

// Returns to the caller at the kernel's addresses. Programs' addresses map memory at its physical addresses for now.
enable_mmu:
    mov x9, #3 << 20                // FPEN: the compiler uses vector registers
    msr cpacr_el1, x9
    ldr x9, ={mair}
    msr mair_el1, x9
    ldr x9, ={tcr}
    msr tcr_el1, x9
    adrp x9, boot_low
    msr ttbr0_el1, x9
    adrp x9, boot_root
    msr ttbr1_el1, x9
    dsb ish                         // the tables, stored with the MMU off; no litmus test has an MMU that is off
    tlbi vmalle1
    ic iallu
    dsb nsh                         // both are done (DDI 0487 M.b, D8.17.8, R_PSMWS)
    isb                             // and the registers count, before the MMU is on
    ldr x9, ={sctlr}
    msr sctlr_el1, x9
    isb                             // the MMU is on
    ldr x9, ={direct}
    add x30, x30, x9
    ret

    .ltorg

// The kernel's first tables, in blocks of 1 GiB: devices, and as much memory as this machine can have. (An entry that
// leads where nothing is could be followed speculatively.)
.section .data
    .balign 4096
.global boot_root
boot_root:
    .fill 256, 8, 0
    .quad boot_direct - {direct} + 3
    .fill 255, 8, 0
boot_low:
    .quad boot_direct - {direct} + 3
    .fill 511, 8, 0
boot_direct:
    .quad {device} + 1
    .quad (1 << 30) + {normal} + 1
    .quad (2 << 30) + {normal} + 1
    .quad (3 << 30) + {normal} + 1
    .fill 508, 8, 0
