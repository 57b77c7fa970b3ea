//! The scenes of a flush: what it makes safe for a program on another CPU.

use crate::line::{engine, scene, Line};
use crate::written::{Model, Written};

/// What a flush makes safe, and how its lack shows.
pub(crate) struct Scene {
    name: &'static str,
    memory: &'static str,
    changed: &'static str,
    /// The next instruction of the CPU that flushes.
    next: &'static str,
    /// A program on another CPU.
    program: &'static [&'static str],
    /// The outcome that must not be. `F` is the process that flushes, `P` the program's.
    bad: &'static str,
    /// The processes whose hardware manages the dirty state.
    manages: Option<&'static str>,
}

/// The rules R1, R3, R7 and R5, and the end of a program's right to store or to access.
pub(crate) const SCENES: [Scene; 6] = [
    // The frame is used again: its next owner's data is not read.
    Scene {
        name: "reuse",
        memory: "int x=1; [PTE(y)]=(oa:PA(x));",
        changed: "(oa:PA(x),valid:0)",
        next: "STR W8,[X6]",
        program: &["LDR W0,[X1]"],
        bad: "P:X0=2",
        manages: None,
    },
    // The call returns: a program that learns of it faults.
    Scene {
        name: "return",
        memory: "int x=1; int f=0;",
        changed: "(oa:PA(x),valid:0)",
        next: "STLR W4,[X3]",
        program: &["LDAR W2,[X3]", "LDR W0,[X1]"],
        bad: "P:X2=1 /\\ not (fault(PP,x))",
        manages: None,
    },
    // Another frame is mapped: after a read of the new one the old one is not read.
    Scene {
        name: "remap",
        memory: "int x=1; int y=2;",
        changed: "(oa:PA(x),valid:0)",
        next: "STR X13,[X11]",
        program: &["LDR W0,[X1]", "LDR W7,[X1]"],
        bad: "P:X0=2 /\\ P:X7=1",
        manages: None,
    },
    // The right to store ends: no store lands after the page was read for its write-out.
    Scene {
        name: "read-only",
        memory: "int x=1; [PTE(y)]=(oa:PA(x));",
        changed: "(oa:PA(x),db:0)",
        next: "LDR W7,[X6]",
        program: &["STR W8,[X1]"],
        bad: "F:X7=1 /\\ [x]=2",
        manages: None,
    },
    // The page is declared clean, and hardware manages the dirty state: a store that lands after the read marks it.
    Scene {
        name: "clean",
        memory: "int x=1; [PTE(y)]=(oa:PA(x)); [PTE(x)]=(oa:PA(x),db:1,dbm:1);",
        changed: "(oa:PA(x),db:0,dbm:1)",
        next: "LDR W7,[X6]",
        program: &["STR W8,[X1]"],
        bad: "F:X7=1 /\\ [x]=2 /\\ [PTE(x)]=(oa:PA(x),db:0,dbm:1)",
        manages: Some("P1"),
    },
    // The access flag is cleared: the next access notices it.
    Scene {
        name: "not-accessed",
        memory: "int x=1; int f=0;",
        changed: "(oa:PA(x),af:0)",
        next: "STLR W4,[X3]",
        program: &["LDAR W2,[X3]", "LDR W0,[X1]"],
        bad: "P:X2=1 /\\ not (fault(PP,x))",
        manages: None,
    },
];

impl Scene {
    pub(crate) fn named(name: &str) -> &'static Self {
        SCENES.iter().find(|scene| scene.name == name).expect("a scene of that name")
    }

    /// The scene with `flush` on process 0 and the program on process 1. If `by_another`, process 2 changes the entry,
    /// and process 0 has read that it did.
    pub(crate) fn with(
        &self,
        flush: &str,
        code: Vec<Line>,
        by_another: bool,
        promise: &'static str,
    ) -> Written {
        // The break before the make is a step of its own.
        let change = if self.name == "remap" {
            engine("Gather::clear", ["STR X12,[X11]"])
        } else {
            scene(["STR X12,[X11]"])
        };
        let next = [Line { text: self.next.to_owned(), place: None }];
        let program =
            self.program.iter().map(|text| Line { text: (*text).to_owned(), place: None }).collect();
        let mut bad = self.bad.replace("F:", "0:").replace("PP", "P1").replace("P:", "1:");
        let first = if by_another { scene(["LDAR W10,[X9]"]) } else { change.clone() };
        let mut processes = vec![[first, code, next.into()].concat(), program];
        if by_another {
            processes.push([change, scene(["STLR W4,[X9]"])].concat());
            bad += " /\\ 0:X10=1";
        }
        let changer = if by_another { "other" } else { "own" };
        Written {
            name: format!("{flush}.{}.{changer}", self.name),
            promise,
            model: Model::VirtualMemory,
            manages: self.manages,
            memory: self.memory,
            changed: self.changed,
            processes,
            bad,
        }
    }
}
