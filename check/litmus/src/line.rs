//! The lines of a test's processes.

use crate::port::{Source, Unread};

/// An instruction of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Line {
    pub(crate) text: String,
    /// The place in the code of an instruction that is weakened in turn; none for an instruction of the scene.
    pub(crate) place: Option<String>,
}

/// Instructions of the scene: a program, or the kernel's own accesses to memory.
pub(crate) fn scene<const N: usize>(instructions: [&str; N]) -> Vec<Line> {
    instructions.map(|text| Line { text: text.to_owned(), place: None }).into()
}

/// Atomic accesses of the engine, of which each ordering is weakened in turn.
pub(crate) fn engine<const N: usize>(function: &str, instructions: [&str; N]) -> Vec<Line> {
    instructions.map(|text| Line { text: text.to_owned(), place: Some(place(function, text, 0)) }).into()
}

/// The same lines, which are not weakened.
pub(crate) fn fixed(lines: Vec<Line>) -> Vec<Line> {
    lines.into_iter().map(|line| Line { place: None, ..line }).collect()
}

/// The instructions of a function of the port, with the TLBI of that name in place of those that its caller chooses
/// from. An interrupt that is sent is a store to `f`, one that is taken a load from there. The root that a CPU loads is
/// left out, since the model has none.
pub(crate) fn port(source: &Source, function: &'static str, tlbi: &str) -> Result<Vec<Line>, Unread> {
    let mut lines: Vec<Line> = Vec::new();
    for instruction in source.instructions(function)? {
        let unread = Unread { path: source.path, function, instruction: Some(instruction) };
        let (text, is_weakened) = match instruction.split_whitespace().next() {
            Some("dsb" | "dmb" | "isb") => (instruction.to_uppercase(), true),
            // The names of the broadcasts of a page are numbers there, those of ranges are unknown to the model.
            Some("sys") if instruction.contains("c8, c3") => (format!("TLBI {tlbi},X5"), true),
            Some("sys") if instruction.contains("c8, c2") => continue,
            Some("tlbi") => {
                let name = instruction["tlbi".len()..].split(',').next().unwrap_or_default().trim();
                if !name.eq_ignore_ascii_case(tlbi) {
                    continue;
                }
                (format!("TLBI {tlbi}{}", if instruction.contains("{}") { ",X5" } else { "" }), true)
            }
            Some("dc") => ("DC CVAU,X1".to_owned(), true),
            Some("ic") if instruction.contains("ivau") => ("IC IVAU,X1".to_owned(), true),
            Some("ic") => continue,
            Some("msr") if instruction.contains("icc_sgi1r_el1") => ("STR W4,[X3]".to_owned(), false),
            Some("mrs") if instruction.contains("icc_iar1_el1") => ("LDR W2,[X3]".to_owned(), false),
            Some("msr" | "mrs") if ["ttbr0_el1", "ctr_el0"].iter().any(|name| instruction.contains(name)) => {
                continue
            }
            _ => return Err(unread),
        };
        let earlier = lines.iter().filter(|line| line.text == text).count();
        let place = is_weakened.then(|| place(function, &text, earlier));
        lines.push(Line { text, place });
    }
    Ok(lines)
}

/// The name of an instruction: the function, the instruction without its operands, and a number if it is not the first.
fn place(function: &str, text: &str, earlier: usize) -> String {
    let operation = text.split([',', '[']).next().unwrap_or_default();
    let operation = match operation.split_once(' ') {
        // Loads and stores are named without their registers.
        Some((name, _)) if !["DSB", "DMB", "TLBI", "DC", "IC"].contains(&name) => name,
        _ => operation,
    };
    let number = if earlier == 0 { String::new() } else { format!(" {}", earlier + 1) };
    format!("{function}: {operation}{number}")
}

/// The weaker forms of an instruction; none stands for its removal.
pub(crate) fn weaker(text: &str) -> Vec<Option<String>> {
    let (name, operands) = text.split_once(' ').unwrap_or((text, ""));
    let barriers: &[&str] = match (name, operands) {
        ("DSB", "ISH") => &["DSB ISHST", "DSB ISHLD", "DMB ISH", "DSB NSH"],
        ("DSB", "NSH") => &["DSB NSHST", "DSB NSHLD", "DMB NSH"],
        ("DSB", "SY") => &["DSB ST", "DSB LD", "DMB SY"],
        ("DSB", "ISHST") => &["DMB ISHST"],
        _ => &[],
    };
    let replaced = |name: &str| vec![Some(format!("{name} {operands}"))];
    match name {
        "DSB" | "ISB" => {
            std::iter::once(None).chain(barriers.iter().map(|barrier| Some((*barrier).to_owned()))).collect()
        }
        "TLBI" => {
            let (operation, register) = operands.split_once(',').map_or((operands, ""), |(a, b)| (a, b));
            let local = operation.strip_suffix("IS").map(|local| {
                if register.is_empty() {
                    format!("TLBI {local}")
                } else {
                    format!("TLBI {local},{register}")
                }
            });
            std::iter::once(None).chain(local.map(Some)).collect()
        }
        "DC" | "IC" | "STR" => vec![None],
        // An exchange that only reads.
        "SWPAL" => {
            let read = operands.split_once(',').map(|(_, read)| format!("LDR {read}"));
            vec![read]
        }
        "STLR" => replaced("STR"),
        "LDAR" => replaced("LDR"),
        _ => Vec::new(),
    }
}
