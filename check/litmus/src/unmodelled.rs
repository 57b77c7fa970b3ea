//! Barriers and properties that no litmus test can have, with the reason.

/// A function of the port with a barrier that stands in no test: the file below `kernel/src`, the function, and the
/// reason. A file of assembly has no functions.
pub const BARRIERS: &[(&str, &str, &str)] = &[
    ("arch/aarch64/clock.rs", "count", "the ISB keeps the counter from being read early; no memory access"),
    (
        "arch/aarch64/clock.rs",
        "start_ticks",
        "the ISB makes the timer's register take effect; no memory access",
    ),
    ("arch/aarch64/clock.rs", "set_next", "as above"),
    ("arch/aarch64/gic.rs", "enable", "registers of the interrupt controller, of which the model has none"),
    ("arch/aarch64/gic.rs", "set_mask", "as above: the mask takes effect before the CPU halts (IHI 0069)"),
    ("arch/aarch64/gic.rs", "disable", "as above"),
    ("arch/aarch64/gic.rs", "end", "as above"),
    (
        "arch/aarch64/gic.rs",
        "stop_others",
        "as `send`, for the interrupt that stops the CPUs; no flush follows",
    ),
    ("arch/aarch64/interrupts.rs", "wait", "the model has no halts; the DSB completes earlier stores first"),
    ("arch/aarch64/interrupts.rs", "stop", "as above"),
    (
        "arch/aarch64/tlb.rs",
        "enable_asids",
        "the model has no `TCR_EL1`; nothing is tagged yet, and all is invalidated",
    ),
    ("entry/aarch64/boot.s", "", "the MMU is off, and the model has none that is"),
    ("entry/aarch64/trap.rs", "load", "the model has no vectors of exceptions"),
    ("entry/aarch64/trap.s", "", "the ISB comes before the read of `PAR_EL1`; no memory access"),
];

/// Properties of the flush paths that herd 7.58 cannot express.
pub const PROPERTIES: &[(&str, &str)] = &[
    (
        "a walk through a freed table",
        "the model has one level of tables. Its variant `pte2` adds a second, to which no TLBI applies. So `flush.tables` \
         differs from the last level in the name of the TLBI alone; QEMU and the adversary (C5, H9) test it",
    ),
    (
        "ranges (`RVAE1IS`)",
        "herd does not know them. Two pages by two TLBIs between the same barriers stand for one: `range-first`",
    ),
    (
        "ASIDs",
        "translations have no tag. `ASIDE1IS` names a page in its operand there, and `VAAE1IS` is `VAE1IS`. That a tag has \
         a new owner is R4 of the adversary (E5, E8)",
    ),
    (
        "the root (`TTBR0_EL1`)",
        "there is none. A store to the entry stands for a change of roots: `root.recycled-asid`",
    ),
    (
        "interrupts and their controller",
        "there are none. A store and a load stand for sending one and taking it; exceptions, which synchronise the context \
         by themselves, are left out",
    ),
    ("level hints", "a TLBI has none; unit tests of `tlbi.rs` compare them with DDI 0487"),
    (
        "repeated broadcasts (CVE-2025-10263)",
        "the model is that of processors without errata: `twice` shows only that the second round does no harm",
    ),
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::paths;
    use crate::port::SOURCES;

    #[test]
    fn every_barrier_of_the_port_is_in_a_test_or_has_a_reason() {
        let written = paths::written().unwrap();
        let tested: BTreeSet<&str> = written
            .iter()
            .flat_map(|written| written.places().map(|(_, _, place)| place).collect::<Vec<_>>())
            .map(|place| place.split(": ").next().unwrap_or_default())
            .map(|function| function.strip_prefix("again ").unwrap_or(function))
            .collect();
        let mut unused: BTreeSet<_> = BARRIERS.iter().map(|(file, function, _)| (*file, *function)).collect();
        for source in SOURCES {
            let file = source.path.strip_prefix("kernel/src/").unwrap();
            for (number, line, function) in source.barriers() {
                let reason = BARRIERS.iter().find(|(of, in_it, _)| (*of, *in_it) == (file, function));
                if let Some((of, in_it, _)) = reason {
                    unused.remove(&(*of, *in_it));
                } else {
                    assert!(tested.contains(function), "{}:{number}: no test has {line}", source.path);
                }
            }
        }
        assert!(unused.is_empty(), "no barrier there: {unused:?}");
    }

    #[test]
    fn no_other_file_of_the_port_has_a_barrier() {
        let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let known: BTreeSet<_> = SOURCES.iter().map(|source| source.path).collect();
        for folder in ["kernel/src/arch/aarch64", "kernel/src/entry/aarch64"] {
            for entry in std::fs::read_dir(format!("{root}{folder}")).unwrap() {
                let name = entry.unwrap().file_name().into_string().unwrap();
                let path = format!("{folder}/{name}");
                let text = std::fs::read_to_string(format!("{root}{path}")).unwrap();
                let has_one = !crate::port::barriers(&text).is_empty();
                assert_eq!(has_one, known.contains(path.as_str()), "{path}");
            }
        }
    }
}
