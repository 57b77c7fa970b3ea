//! Weaker instructions that Arm's model allows, each with the reason.
//!
//! The rule has no other exception: a sequence as it is written never shows what it must not, and shows it once any of
//! its instructions is weaker.

/// Why a weaker instruction suffices.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Why {
    /// Another instruction of the test does the same, named by its place. Without both, the test must show it.
    Covered(&'static str),
    /// The scene does not need it.
    Free(&'static str),
}

/// A weaker instruction that suffices.
#[derive(Debug)]
pub(crate) struct Exception {
    /// The tests, by patterns of their names. A `*` stands for any letters.
    pub(crate) tests: &'static [&'static str],
    /// The instruction, by patterns of its place.
    pub(crate) places: &'static [&'static str],
    /// The weaker forms, `removed` among them.
    pub(crate) weaker: &'static [&'static str],
    pub(crate) why: Why,
}

use Why::{Covered, Free};

const ANY: &[&str] = &["*"];
const OWN_STORE: Why = Free(
    "a barrier for stores suffices where this CPU itself changed the entry: the page-table store comes before it (DDI \
     0487, D8.17.1, R_DDMVT). The same code also flushes what another CPU changed",
);
const OTHERS_STORE: Why = Free(
    "a barrier for loads suffices where this CPU has only read another's store: stores are multi-copy atomic (DDI 0487, \
     B2.3). The same code also flushes what this CPU changed",
);

/// The first that fits counts.
pub(crate) static EXCEPTIONS: &[Exception] = &[
    Exception {
        tests: &["twice.*"],
        places: &["again *"],
        weaker: ANY,
        why: Free("one round suffices in the model, which knows no erratum (Arm, CVE-2025-10263)"),
    },
    Exception {
        tests: &["broadcast-*.own", "broadcast-*.self", "batch-*", "range-*", "move.*", "twice.*"],
        places: &["broadcast_pages: DSB ISH", "broadcast: DSB ISH", "broadcast_everything: DSB ISH"],
        weaker: &["DSB ISHST"],
        why: OWN_STORE,
    },
    Exception {
        tests: &["local-*", "root.recycled-asid"],
        places: &["invalidate*: DSB NSH", "set_root: DSB ISH"],
        weaker: &["DSB NSHST", "DSB ISHST"],
        why: OWN_STORE,
    },
    Exception {
        tests: &["*.other", "root.new-table", "narrow.*", "handler-*"],
        places: &[
            "broadcast_pages: DSB ISH",
            "broadcast: DSB ISH",
            "broadcast_everything: DSB ISH",
            "set_root: DSB ISH",
            "invalidate*: DSB NSH",
            "begin: DSB SY",
        ],
        weaker: &["DSB ISHLD", "DSB NSHLD", "DSB LD"],
        why: OTHERS_STORE,
    },
    Exception {
        tests: &["broadcast-*.own", "broadcast-*.other", "batch-*", "range-*", "move.*", "twice.*"],
        places: &["broadcast_wait: ISB"],
        weaker: ANY,
        why: Free("it is for this CPU's own accesses: the tests `broadcast-*.self` need it"),
    },
    Exception {
        tests: &["broadcast-*.self"],
        places: &["*: TLBI *"],
        weaker: &["TLBI *"],
        why: Free("this CPU's own entry goes with a local TLBI too"),
    },
    Exception {
        tests: &["batch-first.*", "move.*", "twice.*"],
        places: &["broadcast_wait: DSB ISH"],
        weaker: ANY,
        why: Free("another DSB ISH waits: that of the next page's broadcast, or that of the switch"),
    },
    Exception {
        tests: &["move.*"],
        places: &["set_root: ISB"],
        weaker: ANY,
        why: Free("a store comes next; `root.new-table` needs it"),
    },
    Exception {
        tests: &["handler-*", "interrupt.*", "start-cpu"],
        places: &["send: DSB ISHST", "start: DSB ISHST"],
        weaker: &["DMB ISHST"],
        why: Free(
            "a store stands for the interrupt and for the call of firmware. Hardware's are none, so a DMB does not order \
             them (IHI 0069, ICC_SGI1R_EL1)",
        ),
    },
    Exception {
        tests: &["handler-*", "interrupt.*"],
        places: &["send: ISB"],
        weaker: ANY,
        why: Free("it makes the write of ICC_SGI1R_EL1 take effect before the wait, and orders no memory access"),
    },
    Exception {
        tests: &["handler-*.other"],
        places: &["send: DSB ISHST", "Inbox::post: STLR"],
        weaker: ANY,
        why: Free("the load-acquire that read of the change comes before the store that stands for the interrupt"),
    },
    Exception {
        tests: &["handler-*.interrupt-and-inbox.*"],
        places: &["send: DSB ISHST"],
        weaker: ANY,
        why: Covered("Inbox::post: STLR"),
    },
    Exception {
        tests: &["handler-*.interrupt-and-inbox.*"],
        places: &["Inbox::post: STLR"],
        weaker: ANY,
        why: Covered("send: DSB ISHST"),
    },
    Exception {
        tests: &["handler-*.interrupt-and-inbox.*"],
        places: &["Inbox::empty: LDAR"],
        weaker: ANY,
        why: Free("the barriers of the interrupt and of the invalidation order the accesses around it"),
    },
    Exception {
        tests: &["handler-VAE1.interrupt*", "handler-VALE1.interrupt*"],
        places: &["begin: DSB SY"],
        weaker: ANY,
        why: Covered("invalidate: DSB NSH"),
    },
    Exception {
        tests: &["handler-ASIDE1.*"],
        places: &["begin: DSB SY"],
        weaker: ANY,
        why: Covered("invalidate_asid: DSB NSH"),
    },
    Exception {
        tests: &["handler-VMALLE1.*"],
        places: &["begin: DSB SY"],
        weaker: ANY,
        why: Covered("invalidate_all: DSB NSH"),
    },
    Exception {
        tests: &["handler-VAAE1.*"],
        places: &["begin: DSB SY"],
        weaker: ANY,
        why: Covered("invalidate_kernel: DSB NSH"),
    },
    Exception {
        tests: &["handler-*.interrupt*"],
        places: &["invalidate*: DSB NSH"],
        weaker: ANY,
        why: Covered("begin: DSB SY"),
    },
    Exception {
        tests: &["handler-*.inbox.*"],
        places: &["Inbox::empty: LDAR"],
        weaker: ANY,
        why: Covered("invalidate: DSB NSH"),
    },
    Exception {
        tests: &["interrupt.*"],
        places: &["begin: DSB SY"],
        weaker: &["DSB LD", "DMB SY"],
        why: Free("a load stands for the read of ICC_IAR1_EL1, which is none: a DMB and a DSB for loads do not order it"),
    },
    Exception {
        tests: &["publish.code"],
        places: &["publish_code: ISB"],
        weaker: ANY,
        why: Free("it is for this CPU's own fetches; another CPU has an ISB, or a return from an exception, of its own"),
    },
    Exception {
        tests: &["root.recycled-asid"],
        places: &["set_root: DSB ISH"],
        weaker: ANY,
        why: Covered("invalidate_asid: DSB NSH"),
    },
    Exception {
        tests: &["root.recycled-asid"],
        places: &["set_root: ISB"],
        weaker: ANY,
        why: Free("the invalidation and its barriers come next; `root.new-table` needs it"),
    },
    Exception {
        tests: &["root.recycled-asid"],
        places: &["invalidate_asid: DSB NSH"],
        weaker: ANY,
        why: Covered("set_root: DSB ISH"),
    },
    Exception {
        tests: &["root.recycled-asid"],
        places: &["invalidate_asid: DSB NSH 2"],
        weaker: ANY,
        why: Covered("again set_root: DSB ISH"),
    },
    Exception {
        tests: &["root.recycled-asid"],
        places: &["again set_root: DSB ISH"],
        weaker: ANY,
        why: Covered("invalidate_asid: DSB NSH 2"),
    },
    Exception {
        tests: &["root.recycled-asid"],
        places: &["invalidate_asid: ISB"],
        weaker: ANY,
        why: Covered("again set_root: ISB"),
    },
    Exception {
        tests: &["root.recycled-asid"],
        places: &["again set_root: ISB"],
        weaker: ANY,
        why: Covered("invalidate_asid: ISB"),
    },
];

/// The exception for an instruction of a test that became weaker.
pub(crate) fn of(test: &str, place: &str, weaker: &str) -> Option<&'static Exception> {
    let any = |patterns: &[&str], name: &str| patterns.iter().any(|pattern| fits(pattern, name));
    EXCEPTIONS.iter().find(|exception| {
        any(exception.tests, test) && any(exception.places, place) && any(exception.weaker, weaker)
    })
}

/// Whether a name fits a pattern.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((before, after)) => name.strip_prefix(before).is_some_and(|rest| {
            rest.char_indices().map(|(at, _)| at).chain([rest.len()]).any(|at| fits(after, &rest[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_letters() {
        assert!(fits("a*c", "abbc") && fits("*", "") && fits("a.*", "a.b") && fits("*.b", "a.b"));
        assert!(!fits("a*c", "abb") && !fits("a", "ab") && !fits("*.b", "a.bc"));
    }
}
