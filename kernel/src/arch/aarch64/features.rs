//! The processor's features, read once.

use core::arch::asm;

use crate::arch::aarch64_formats::tlbi::Forms;

/// A field of four bits of an identification register.
fn field(register: u64, lowest: u32) -> u64 {
    register >> lowest & 0xf
}

fn memory_model_0() -> u64 {
    let value;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, id_aa64mmfr0_el1", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

fn memory_model_1() -> u64 {
    let value;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, id_aa64mmfr1_el1", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// Bits of an ASID (`ID_AA64MMFR0_EL1.ASIDBits`).
pub(super) fn asid_bits() -> u32 {
    if field(memory_model_0(), 4) == 2 {
        16
    } else {
        8
    }
}

/// Whether hardware sets access flags on walks and marks entries as dirty on stores (`FEAT_HAFDBS`,
/// `ID_AA64MMFR1_EL1.HAFDBS`).
pub(crate) fn manages_entries() -> bool {
    field(memory_model_1(), 0) >= 2
}

/// Whether a wait for broadcasts proves nothing before it is repeated: Arm's erratum 1286807 of Cortex-A76 (part 0xd0b)
/// and Neoverse N1 (0xd0c), up to revision r3p0. Processors with CVE-2025-10263 are named by the option `errata`.
pub(super) fn repeats_broadcasts() -> bool {
    let id: u64;
    // SAFETY: reads a register.
    unsafe { asm!("mrs {}, midr_el1", out(reg) id, options(nomem, nostack, preserves_flags)) };
    let (implementer, variant, part, revision) = (id >> 24, field(id, 20), id >> 4 & 0xfff, field(id, 0));
    implementer == 0x41 && matches!(part, 0xd0b | 0xd0c) && (variant, revision) <= (3, 0)
}

/// The forms of TLBI: ranges (`ID_AA64ISAR0_EL1.TLB`) and level hints (`ID_AA64MMFR2_EL1.TTL`).
pub(super) fn tlbi() -> Forms {
    let (instructions, model): (u64, u64);
    // SAFETY: reads registers.
    unsafe {
        asm!("mrs {}, id_aa64isar0_el1", out(reg) instructions, options(nomem, nostack, preserves_flags));
        asm!("mrs {}, id_aa64mmfr2_el1", out(reg) model, options(nomem, nostack, preserves_flags));
    }
    Forms { range: field(instructions, 56) >= 2, hint: field(model, 48) >= 1 }
}

/// The features that the kernel uses and the processor has, by name.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let wide = if asid_bits() == 16 { "asid16" } else { "asid8" };
    let Forms { range, hint } = tlbi();
    let forms = [Some("tlbi-is"), range.then_some("tlbi-range"), hint.then_some("ttl")];
    [Some(wide), manages_entries().then_some("hafdbs")].into_iter().chain(forms).flatten()
}
