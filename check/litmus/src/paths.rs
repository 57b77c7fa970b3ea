//! The flush paths of the engine and of the port, each in the scenes that need it.

use crate::line::{engine, fixed, port, scene, Line};
use crate::port::{Unread, GIC, MEMORY, PSCI, TLB};
use crate::scene::{Scene, SCENES};
use crate::written::{Model, Written};

/// The broadcasts of single translations: of a page with the tables on the way, of the last level, and both for every
/// tag.
const PAGE_BROADCASTS: [&str; 4] = ["VAE1IS", "VALE1IS", "VAAE1IS", "VAALE1IS"];

/// The invalidations on one CPU, with the function that makes them.
const LOCAL: [(&str, &str); 5] = [
    ("invalidate", "VAE1"),
    ("invalidate", "VALE1"),
    ("invalidate_asid", "ASIDE1"),
    ("invalidate_all", "VMALLE1"),
    ("invalidate_kernel", "VAAE1"),
];

/// All sequences, each in its scenes.
pub(crate) fn written() -> Result<Vec<Written>, Unread> {
    Ok([broadcasts()?, several()?, on_this_cpu()?, handlers()?, roots()?, others()?].concat())
}

/// The end of every broadcast.
fn wait() -> Result<Vec<Line>, Unread> {
    port(&TLB, "broadcast_wait", "")
}

/// The beginning of a broadcast of the page `x`.
fn start(tlbi: &str) -> Result<Vec<Line>, Unread> {
    Ok([port(&TLB, "broadcast_pages", "")?, port(&TLB, "start_numbered", tlbi)?].concat())
}

/// The same lines with other names, for a second run of the same code.
fn again(lines: Vec<Line>) -> Vec<Line> {
    let renamed = |line: Line| Line { place: line.place.map(|place| format!("again {place}")), ..line };
    lines.into_iter().map(renamed).collect()
}

/// The same lines with a TLBI of the page `z`.
fn of_another_page(lines: Vec<Line>) -> Vec<Line> {
    lines.into_iter().map(|line| Line { text: line.text.replace(",X5", ",X16"), ..line }).collect()
}

/// The broadcasts, each in every scene, with the entry changed by the CPU that flushes and by another.
fn broadcasts() -> Result<Vec<Written>, Unread> {
    let mut flushes = Vec::new();
    for tlbi in PAGE_BROADCASTS {
        flushes.push((format!("broadcast-{tlbi}"), [start(tlbi)?, wait()?].concat()));
    }
    for (function, tlbi) in [("broadcast", "ASIDE1IS"), ("broadcast_everything", "VMALLE1IS")] {
        flushes.push((format!("broadcast-{tlbi}"), [port(&TLB, function, tlbi)?, wait()?].concat()));
    }
    let mut written = Vec::new();
    for (flush, code) in flushes {
        for scene in &SCENES {
            for by_another in [false, true] {
                written.push(scene.with(&flush, code.clone(), by_another, "WaitIsForOwn"));
            }
        }
        written.push(by_itself(&flush, code, "WaitIsForOwn"));
    }
    Ok(written)
}

/// Broadcasts of several pages, repeated ones, and one that a task begins on one CPU and awaits on another.
fn several() -> Result<Vec<Written>, Unread> {
    let other = || scene(["TLBI VAE1IS,X16"]);
    let batched = || scene(["STR X15,[X14]", "DSB ISH", "TLBI VAE1IS,X16"]);
    let page = || start("VAE1IS");
    let flushes = [
        ("range-first", [page()?, other(), wait()?].concat()),
        ("batch-first", [page()?, batched(), wait()?].concat()),
        // The engine repeats a wait after a broadcast of another page.
        ("twice", [page()?, wait()?, again(of_another_page(page()?)), again(wait()?)].concat()),
    ];
    let scenes = ["reuse", "return"].map(Scene::named);
    let mut written = Vec::new();
    for (flush, code) in flushes {
        written.extend(scenes.iter().map(|scene| scene.with(flush, code.clone(), false, "WaitIsForOwn")));
    }
    // The other page comes first.
    for scene in scenes {
        let mut test = scene.with("batch-last", [page()?, wait()?].concat(), false, "WaitIsForOwn");
        test.processes[0].splice(0..0, batched());
        written.push(test);
    }
    let mut moved = Scene::named("reuse").with(
        "move",
        [page()?, port(&TLB, "set_root", "")?].concat(),
        false,
        "WaitIsForOwn",
    );
    let next = moved.processes[0].pop().expect("the scene's next instruction");
    moved.processes[0].extend(scene(["STLR W4,[X3]"]));
    moved.processes.push([scene(["LDAR W2,[X3]"]), wait()?, vec![next]].concat());
    moved.bad += " /\\ 2:X2=1";
    written.push(moved);
    Ok(written)
}

/// The CPU that flushes uses the page itself afterwards.
fn by_itself(flush: &str, code: Vec<Line>, promise: &'static str) -> Written {
    Written {
        name: format!("{flush}.self"),
        promise,
        model: Model::VirtualMemory,
        manages: None,
        memory: "int x=1;",
        changed: "(oa:PA(x),valid:0)",
        processes: vec![[scene(["STR X12,[X11]"]), code, scene(["LDR W0,[X1]"])].concat()],
        bad: "not (fault(P0,x))".to_owned(),
    }
}

/// A CPU that flushes its own entries, of a space that ran on no other.
fn on_this_cpu() -> Result<Vec<Written>, Unread> {
    let mut written = Vec::new();
    for (function, tlbi) in LOCAL {
        let code = port(&TLB, function, tlbi)?;
        let remapped = scene(["STR X13,[X11]", "LDR W0,[X1]"]);
        written.push(Written {
            name: format!("local-{tlbi}.remap"),
            promise: "AccessesLand",
            model: Model::VirtualMemory,
            manages: None,
            memory: "int x=1; int y=2;",
            changed: "(oa:PA(x),valid:0)",
            processes: vec![[scene(["STR X12,[X11]"]), code.clone(), remapped].concat()],
            bad: "0:X0=1".to_owned(),
        });
        written.push(by_itself(&format!("local-{tlbi}"), code, "AccessesLand"));
    }
    Ok(written)
}

/// How a request reaches the CPU that must flush.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Carried {
    /// By the interrupt alone.
    Interrupt,
    /// By the engine's accesses to the inbox alone, as to a CPU that looks by itself.
    Inbox,
    /// By both, as in the kernel.
    Both,
}

impl Carried {
    const ALL: [(Self, &str); 3] =
        [(Self::Interrupt, "interrupt"), (Self::Inbox, "inbox"), (Self::Both, "interrupt-and-inbox")];

    /// The sender's part.
    fn sends(self) -> Result<Vec<Line>, Unread> {
        let post = engine("Inbox::post", ["STLR W4,[X20]"]);
        Ok(match self {
            Self::Interrupt => port(&GIC, "send", "")?,
            Self::Inbox => post,
            Self::Both => [post, port(&GIC, "send", "")?].concat(),
        })
    }

    /// The target's part.
    fn takes(self) -> Result<Vec<Line>, Unread> {
        let empty = engine("Inbox::empty", ["LDAR W21,[X20]"]);
        Ok(match self {
            Self::Interrupt => port(&GIC, "begin", "")?,
            Self::Inbox => empty,
            Self::Both => [port(&GIC, "begin", "")?, empty].concat(),
        })
    }

    /// That the request has reached process 1.
    fn arrived(self) -> &'static str {
        match self {
            Self::Interrupt => "1:X2=1",
            Self::Inbox => "1:X21=1",
            Self::Both => "1:X2=1 /\\ 1:X21=1",
        }
    }
}

/// Interrupts whose handlers flush.
fn handlers() -> Result<Vec<Written>, Unread> {
    // An interrupt carries what its sender has stored, be it an entry or anything else.
    let carries = Written {
        name: "interrupt.carries".to_owned(),
        promise: "InterruptCarries",
        model: Model::VirtualMemory,
        manages: None,
        memory: "int y=0; int f=0;",
        changed: "(oa:PA(x))",
        processes: vec![
            [scene(["STR W8,[X6]"]), port(&GIC, "send", "")?].concat(),
            [port(&GIC, "begin", "")?, scene(["LDR W7,[X6]"])].concat(),
        ],
        bad: "1:X2=1 /\\ 1:X7=0".to_owned(),
    };
    // A CPU that has nothing to flush answers at once. What its program did before has landed when the sender reads the
    // answer and the frame is used again.
    let answers = Written {
        name: "answer.landed".to_owned(),
        promise: "Consistent",
        model: Model::VirtualMemory,
        manages: None,
        memory: "int x=1; int g=0; int h=0; [PTE(y)]=(oa:PA(x));",
        changed: "(oa:PA(x))",
        processes: vec![
            [
                fixed(Carried::Inbox.sends()?),
                engine("Request::is_answered", ["LDAR W10,[X9]"]),
                scene(["STR W8,[X6]"]),
            ]
            .concat(),
            [
                scene(["LDR W0,[X1]"]),
                fixed(Carried::Inbox.takes()?),
                engine("Request::answered_by_one", ["STLR W4,[X9]"]),
            ]
            .concat(),
        ],
        bad: "0:X10=1 /\\ 1:X0=2".to_owned(),
    };
    let mut written = vec![carries, answers];
    for (function, tlbi) in LOCAL {
        for (carried, how) in Carried::ALL {
            if carried != Carried::Interrupt && tlbi != "VAE1" {
                continue;
            }
            let code = port(&TLB, function, tlbi)?;
            let test = |scene_name: &str, processes: Vec<Vec<Line>>, bad: String| Written {
                name: format!("handler-{tlbi}.{how}.{scene_name}"),
                promise: "InterruptCarries",
                model: Model::VirtualMemory,
                manages: None,
                memory: "int x=1; int f=0; int g=0; int h=0; [PTE(y)]=(oa:PA(x));",
                changed: "(oa:PA(x),valid:0)",
                processes,
                bad: format!("{} /\\ {bad}", carried.arrived()),
            };
            let change = scene(["STR X12,[X11]"]);
            let sender = [change.clone(), carried.sends()?].concat();
            // The program goes on after the handler.
            let target = [carried.takes()?, code.clone(), scene(["LDR W0,[X1]"])].concat();
            written.push(test(
                "return",
                vec![sender.clone(), target.clone()],
                "not (fault(P1,x))".to_owned(),
            ));
            // Herd needs half a minute for the next scenes if both carry it.
            if carried == Carried::Both {
                continue;
            }
            // Another CPU has changed the entry.
            let told = [scene(["LDAR W10,[X9]"]), carried.sends()?].concat();
            let other = [change, scene(["STLR W4,[X9]"])].concat();
            let bad = "0:X10=1 /\\ not (fault(P1,x))".to_owned();
            written.push(test("return.other", vec![told, target, other], bad));
        }
    }
    Ok(written)
}

/// Loads of a root. The root is no part of the model: a store to the entry stands for the change from one space's
/// translation of `x` to another's.
fn roots() -> Result<Vec<Written>, Unread> {
    let root = || port(&TLB, "set_root", "");
    let recycled = [root()?, port(&TLB, "invalidate_asid", "ASIDE1")?, again(root()?)].concat();
    Ok(vec![
        Written {
            name: "root.new-table".to_owned(),
            promise: "RootBarrier",
            model: Model::VirtualMemory,
            manages: None,
            memory: "int x=1; int f=0; [PTE(x)]=(oa:PA(x),valid:0);",
            changed: "(oa:PA(x))",
            processes: vec![
                scene(["STR X12,[X11]", "STLR W4,[X3]"]),
                [scene(["LDAR W2,[X3]"]), root()?, scene(["LDR W0,[X1]"])].concat(),
            ],
            bad: "1:X2=1 /\\ fault(P1,x)".to_owned(),
        },
        Written {
            name: "root.recycled-asid".to_owned(),
            promise: "RootFlushes",
            model: Model::VirtualMemory,
            manages: None,
            memory: "int x=1; int y=2;",
            changed: "(oa:PA(y))",
            processes: vec![[scene(["STR X12,[X11]"]), recycled, scene(["LDR W0,[X1]"])].concat()],
            bad: "0:X0=1".to_owned(),
        },
    ])
}

/// New translations, more rights, CPUs that start, and the processor's promise for clean entries.
fn others() -> Result<Vec<Written>, Unread> {
    let start = [scene(["STR W8,[X6]"]), port(&PSCI, "start", "")?, scene(["STR W4,[X3]"])].concat();
    let publish = |name: &str, code: Vec<Line>| Written {
        name: name.to_owned(),
        promise: "WalksFollow",
        model: Model::VirtualMemory,
        manages: None,
        memory: "int x=1; [PTE(x)]=(oa:PA(x),valid:0);",
        changed: "(oa:PA(x))",
        processes: vec![[scene(["STR X12,[X11]"]), code, scene(["LDR W0,[X1]"])].concat()],
        bad: "fault(P0,x)".to_owned(),
    };
    Ok(vec![
        publish("publish.kernel", port(&TLB, "publish_kernel", "")?),
        publish("publish.map", port(&MEMORY, "map", "")?),
        // A program's code is stored, and another CPU executes it.
        Written {
            name: "publish.code".to_owned(),
            promise: "Consistent",
            model: Model::Fetches,
            manages: None,
            memory: "int f=0; 0:X0=instr:\"NOP\"; 0:X1=P1:L0; 1:X7=0;",
            changed: "",
            processes: vec![
                [scene(["STR W0,[X1]"]), port(&MEMORY, "publish_code", "")?, scene(["STLR W4,[X3]"])]
                    .concat(),
                scene(["LDAR W2,[X3]", "DSB ISH", "ISB", "L0: B L1", "MOV W7,#1", "L1: NOP"]),
            ],
            bad: "1:X2=1 /\\ 1:X7=0".to_owned(),
        },
        Written {
            name: "narrow.more-rights".to_owned(),
            promise: "WalksFollow",
            model: Model::VirtualMemory,
            manages: None,
            memory: "int x=1; int f=0; [PTE(x)]=(oa:PA(x),db:0);",
            changed: "(oa:PA(x),db:1)",
            processes: vec![
                scene(["STR X12,[X11]", "STLR W4,[X3]"]),
                [scene(["LDAR W2,[X3]"]), port(&TLB, "invalidate_narrow", "VAE1")?, scene(["STR W8,[X1]"])]
                    .concat(),
            ],
            bad: "1:X2=1 /\\ fault(P1,x)".to_owned(),
        },
        Written {
            name: "start-cpu".to_owned(),
            promise: "InterruptCarries",
            model: Model::VirtualMemory,
            manages: None,
            memory: "int y=0; int f=0;",
            changed: "(oa:PA(x))",
            processes: vec![start, scene(["LDR W2,[X3]", "DSB ISH", "ISB", "LDR W7,[X6]"])],
            bad: "1:X2=1 /\\ 1:X7=0".to_owned(),
        },
        // The entry was clean when it was taken away: no store has landed, and none lands.
        Written {
            name: "clean-store.no-flush".to_owned(),
            promise: "MarksAtomic",
            model: Model::VirtualMemory,
            manages: Some("P1"),
            memory: "int x=1; [PTE(x)]=(oa:PA(x),db:0,dbm:1);",
            changed: "(oa:PA(x),valid:0)",
            processes: vec![engine("Gather::clear", ["SWPAL X12,X19,[X11]"]), scene(["STR W8,[X1]"])],
            bad: "0:X19=(oa:PA(x),db:0,dbm:1) /\\ [x]=2".to_owned(),
        },
    ])
}
