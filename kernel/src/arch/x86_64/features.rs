//! The processor's features, read once.

use core::sync::atomic::{AtomicBool, Ordering};

use raw_cpuid::CpuId;
use spin::Once;
use x86_64::instructions::tlb::Invlpgb;
use x86_64::registers::control::{Cr4, Cr4Flags};
use x86_64::registers::model_specific::{Efer, EferFlags};

/// Whether the processor has a feature.
#[derive(Debug)]
pub(super) struct Feature(AtomicBool);

impl Feature {
    const fn new() -> Self {
        Self(AtomicBool::new(false))
    }

    pub(super) fn is_there(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn set(&self, there: bool) {
        self.0.store(there, Ordering::Relaxed);
    }
}

/// Entries are tagged with process-context identifiers.
pub(super) static PCID: Feature = Feature::new();
/// Entries of any tag can be invalidated.
pub(super) static INVPCID: Feature = Feature::new();
/// The local APIC is reached through registers instead of memory.
pub(super) static X2APIC: Feature = Feature::new();
/// Broadcasts of invalidations, if the processor has them.
static INVLPGB: Once<Invlpgb> = Once::new();

/// Broadcasts of invalidations, if the processor has them. The answer is kept, because CPUID leaves a virtual machine
/// for the host and returns.
pub(super) fn invlpgb() -> Option<&'static Invlpgb> {
    INVLPGB.get()
}

/// Reads the features of the first CPU; all CPUs are alike.
pub(crate) fn detect() {
    let cpuid = CpuId::new();
    let basic = cpuid.get_feature_info();
    PCID.set(basic.as_ref().is_some_and(raw_cpuid::FeatureInfo::has_pcid));
    X2APIC.set(basic.as_ref().is_some_and(raw_cpuid::FeatureInfo::has_x2apic));
    INVPCID.set(cpuid.get_extended_feature_info().is_some_and(|info| info.has_invpcid()));
    if let Some(hardware) = Invlpgb::new() {
        INVLPGB.call_once(|| hardware);
    }
}

/// Turns on the features that the kernel uses. Each CPU must run it before it loads its first space.
pub(crate) fn enable() {
    let mut flags = Cr4::read() | Cr4Flags::PAGE_GLOBAL;
    flags.set(Cr4Flags::PCID, PCID.is_there());
    // SAFETY: the kernel's pages have no user bit, so SMEP does not affect it. CR3 holds PCID 0, as the switch to PCIDs
    // demands.
    unsafe {
        let smep = CpuId::new().get_extended_feature_info().is_some_and(|info| info.has_smep());
        flags.set(Cr4Flags::SUPERVISOR_MODE_EXECUTION_PROTECTION, smep);
        Cr4::write(flags);
    }
    // SAFETY: pages may be marked as not executable from now on; none is.
    unsafe { Efer::update(|flags| flags.insert(EferFlags::NO_EXECUTE_ENABLE)) };
}

/// The features that the kernel uses and the processor has, by name.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let all = [(&PCID, "pcid"), (&INVPCID, "invpcid"), (&X2APIC, "x2apic")];
    let there = all.into_iter().filter(|(feature, _)| feature.is_there()).map(|(_, name)| name);
    there.chain(invlpgb().map(|_| "invlpgb"))
}
