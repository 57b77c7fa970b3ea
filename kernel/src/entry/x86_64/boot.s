// From the loader's 32 bits, or an application processor's 16, to 64 bits at the kernel's own addresses.
//
// The loader must speak PVH, as QEMU's -kernel does. It finds the entry point in a note, and enters it in flat
// protected mode with the address of its information in ebx.

.section .note.pvh, "a", @note
    .balign 4
    .long 4                         // bytes of the name
    .long 8                         // bytes of the value
    .long 18                        // XEN_ELFNOTE_PHYS32_ENTRY
    .asciz "Xen"
    .quad pvh_start

.section .boot, "awx", @progbits

// The first page tables, in pages of 1 GiB: memory up to 4 GiB at its physical addresses, until the code has left them;
// all of memory from the start of the upper half (slot 256); the kernel in the last 2 GiB (slot 511).
    .balign 4096
.global boot_root
boot_root:
    .quad boot_low + 3
    .fill 255, 8, 0
    .quad boot_direct + 3
    .fill 254, 8, 0
    .quad boot_high + 3
boot_low:
    .set gibibyte, 0
    .rept 4
    .quad (gibibyte << 30) + 0x83
    .set gibibyte, gibibyte + 1
    .endr
    .fill 508, 8, 0
boot_direct:
    .set gibibyte, 0
    .rept 512
    .quad (gibibyte << 30) + 0x183
    .set gibibyte, gibibyte + 1
    .endr
boot_high:
    .fill 510, 8, 0
    .quad 0x183
    .quad 0

boot_segments:
    .quad 0
    .quad 0x00af9a000000ffff        // 0x08: code, 64 bits
    .quad 0x00cf92000000ffff        // 0x10: data
boot_segments_end:
boot_segments_pointer:
    .word boot_segments_end - boot_segments - 1
    .quad boot_segments

.code32
.global pvh_start
pvh_start:
    cli
    cld
    mov eax, cr4
    or eax, 0xa0                    // PAE, PGE
    mov cr4, eax
    mov eax, offset boot_root
    mov cr3, eax
    mov ecx, 0xc0000080             // EFER
    rdmsr
    or eax, 0x100                   // LME
    wrmsr
    mov eax, cr0
    or eax, 0x80010001              // PG, WP, PE
    mov cr0, eax
    lgdt [boot_segments_pointer]
    .byte 0xea                      // a far jump
    .long boot_64
    .word 0x08

.code64
boot_64:
    mov eax, 0x10
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov edi, ebx
    movabs rsp, offset BOOT_STACK + {boot_stack}
    movabs rax, offset {start}
    call rax
    ud2

// Copied below 1 MiB, where application processors start, in real mode.
.code16
.global trampoline
trampoline:
    cli
    xor ax, ax
    mov ds, ax
    .byte 0x0f, 0x01, 0x16          // lgdt of the pointer below, where it is in the copy
    .word trampoline_pointer - trampoline + {trampoline_at}
    mov eax, cr4
    or eax, 0xa0
    mov cr4, eax
    mov eax, offset boot_root
    mov cr3, eax
    mov ecx, 0xc0000080
    rdmsr
    or eax, 0x100
    wrmsr
    mov eax, cr0
    and eax, 0x9fffffff             // CD, NW off
    or eax, 0x80010001
    mov cr0, eax
    .byte 0x66, 0xea                // a far jump with 32 bits
    .long ap_64
    .word 0x08
    .balign 4
trampoline_pointer:
    .word boot_segments_end - boot_segments - 1
    .long boot_segments
.global trampoline_end
trampoline_end:

.code64
ap_64:
    mov eax, 0x10
    mov ds, eax
    mov es, eax
    mov ss, eax
    mov eax, 1
    movabs rcx, offset {next}
    lock xadd [rcx], rax
    movabs rcx, offset {stacks}
    mov rsp, [rcx + rax * 8]
    movabs rax, offset {ap_start}
    call rax
    ud2
