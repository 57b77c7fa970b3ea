//! A sequence of the kernel as it is written, in a scene, and its text for herd.

use std::fmt::Write as _;

use crate::line::Line;

/// The values that registers have at first, in every process that uses them. All others are results.
///
/// `x` is the page that is flushed, `y` an alias of its frame or another frame, `z` another page; `f`, `g` and `h` are
/// flags.
const AT_FIRST: [(&str, &str); 14] = [
    ("1", "x"),
    ("3", "f"),
    ("4", "1"),
    ("5", "x"),
    ("6", "y"),
    ("8", "2"),
    ("9", "g"),
    ("11", "PTE(x)"),
    ("12", CHANGED),
    ("13", "(oa:PA(y))"),
    ("14", "PTE(z)"),
    ("15", "(oa:PA(z),valid:0)"),
    ("16", "z"),
    ("20", "h"),
];

/// Stands for [`Written::changed`].
const CHANGED: &str = "changed";

/// The registers with an address that TLBI takes as the number of its page.
const OPERANDS: [&str; 2] = ["5", "16"];

/// The part of Arm's model that a sequence needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Model {
    /// Translations.
    VirtualMemory,
    /// Instructions that are stored. The model has not both.
    Fetches,
}

/// A sequence as the kernel has it, and what no execution of it may show.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) name: String,
    /// The promise of the platform that the sequence keeps, by its name in the adversary.
    pub(crate) promise: &'static str,
    pub(crate) model: Model,
    /// The processes whose hardware manages the dirty state.
    pub(crate) manages: Option<&'static str>,
    /// The memory at first.
    pub(crate) memory: &'static str,
    /// The value that the first change gives the entry of `x`.
    pub(crate) changed: &'static str,
    pub(crate) processes: Vec<Vec<Line>>,
    /// The outcome that must not be, as a condition of herd.
    pub(crate) bad: String,
}

impl Written {
    /// Whether a process has this instruction.
    pub(crate) fn has(&self, text: &str) -> bool {
        self.processes.iter().flatten().any(|line| line.text == text)
    }

    /// The instructions that are weakened in turn: process, number and place.
    pub(crate) fn places(&self) -> impl Iterator<Item = (usize, usize, &str)> {
        self.processes.iter().enumerate().flat_map(|(process, lines)| {
            let places = lines.iter().enumerate();
            places.filter_map(move |(at, line)| Some((process, at, line.place.as_deref()?)))
        })
    }

    /// The same with some instructions weaker or removed.
    pub(crate) fn with(&self, changes: &[(usize, usize, Option<String>)]) -> Self {
        let mut weaker = self.clone();
        // From the last on, so that a removal moves none that is still to change.
        let mut changes: Vec<_> = changes.iter().collect();
        changes.sort_by_key(|(process, at, _)| std::cmp::Reverse((*process, *at)));
        for (process, at, form) in changes {
            match form {
                Some(text) => weaker.processes[*process][*at].text.clone_from(text),
                None => drop(weaker.processes[*process].remove(*at)),
            }
        }
        weaker
    }

    /// The test's text, under a name.
    pub(crate) fn text(&self, name: &str) -> String {
        let mut text = format!("AArch64 {name}\n");
        if let Some(processes) = self.manages {
            let _ = writeln!(text, "TTHM={processes}:HD");
        }
        let _ = writeln!(text, "{{\n {}", self.memory);
        let columns: Vec<Vec<String>> = self.processes.iter().map(|lines| column(lines)).collect();
        for (number, column) in columns.iter().enumerate() {
            // An address that the memory already names is another.
            let is_set = |register: &str| self.memory.contains(&format!("{number}:X{register}="));
            let values = AT_FIRST
                .iter()
                .filter(|(register, _)| !is_set(register) && column.iter().any(|line| uses(line, register)));
            let values = values.map(|(register, value)| {
                format!("{number}:X{register}={};", if *value == CHANGED { self.changed } else { value })
            });
            let _ = writeln!(text, " {}", values.collect::<Vec<_>>().join(" "));
        }
        text += "}\n";
        let names: Vec<String> = (0..columns.len()).map(|number| format!("P{number}")).collect();
        let _ = writeln!(text, " {} ;", names.join(" | "));
        for at in 0..columns.iter().map(Vec::len).max().unwrap_or(0) {
            let cells = columns.iter().map(|column| column.get(at).map_or("", String::as_str));
            let _ = writeln!(text, " {} ;", cells.collect::<Vec<_>>().join(" | "));
        }
        let _ = writeln!(text, "exists ({})", self.bad);
        text
    }
}

/// The instructions of a process, after those that make the operands of its TLBIs.
fn column(lines: &[Line]) -> Vec<String> {
    let used = OPERANDS.iter().filter(|register| lines.iter().any(|line| uses(&line.text, register)));
    let numbers = used.map(|register| format!("LSR X{register},X{register},#12"));
    numbers.chain(lines.iter().map(|line| line.text.clone())).collect()
}

/// Whether an instruction names a register, as 32 or as 64 bits.
fn uses(line: &str, register: &str) -> bool {
    line.split(|letter: char| !letter.is_alphanumeric())
        .any(|word| word.strip_prefix(['X', 'W']).is_some_and(|number| number == register))
}
