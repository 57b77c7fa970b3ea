//! The instructions of the kernel's port to 64-bit Arm, read from its sources: a test cannot differ from the code.

use std::fmt;

/// A source file of the port.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Source {
    /// Its path in the repository.
    pub(crate) path: &'static str,
    text: &'static str,
}

macro_rules! source {
    ($path:literal) => {
        Source { path: $path, text: include_str!(concat!("../../../", $path)) }
    };
}

pub(crate) const GIC: Source = source!("kernel/src/arch/aarch64/gic.rs");
pub(crate) const MEMORY: Source = source!("kernel/src/arch/aarch64/memory.rs");
pub(crate) const PSCI: Source = source!("kernel/src/arch/aarch64/psci.rs");
pub(crate) const TLB: Source = source!("kernel/src/arch/aarch64/tlb.rs");

/// All files of the port that have barriers.
#[cfg(test)]
pub(crate) const SOURCES: [Source; 9] = [
    source!("kernel/src/arch/aarch64/clock.rs"),
    GIC,
    source!("kernel/src/arch/aarch64/interrupts.rs"),
    MEMORY,
    PSCI,
    TLB,
    source!("kernel/src/entry/aarch64/boot.s"),
    source!("kernel/src/entry/aarch64/trap.rs"),
    source!("kernel/src/entry/aarch64/trap.s"),
];

/// A function that the tests use and the port does not have, or an instruction that they do not know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unread {
    /// The path of the file.
    pub path: &'static str,
    /// The function.
    pub function: &'static str,
    /// The instruction; none if the function is missing.
    pub instruction: Option<&'static str>,
}

impl fmt::Display for Unread {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, function, instruction } = self;
        match instruction {
            None => write!(out, "{path} has no function `{function}`, of which a litmus test is made"),
            Some(instruction) => {
                write!(out, "{path}: no litmus test can have `{instruction}` of `{function}`")
            }
        }
    }
}

impl std::error::Error for Unread {}

impl Source {
    /// The instructions of a function, in the order of the text. Those of other functions that it calls are not among
    /// them.
    pub(crate) fn instructions(&self, function: &'static str) -> Result<Vec<&'static str>, Unread> {
        let missing = Unread { path: self.path, function, instruction: None };
        let starts = |name: &str| {
            self.text.find(&format!("\nfn {name}")).or_else(|| self.text.find(&format!(" fn {name}")))
        };
        let start =
            ['(', '<'].into_iter().find_map(|after| starts(&format!("{function}{after}"))).ok_or(missing)?;
        let body = &self.text[start..];
        let body = &body[..body.find("\n}\n").unwrap_or(body.len())];
        Ok(body.split("asm!(").skip(1).flat_map(literals).collect())
    }

    /// The barriers: the number of the line from 1, the line, and the function.
    #[cfg(test)]
    pub(crate) fn barriers(&self) -> Vec<(usize, &'static str, &'static str)> {
        barriers(self.text)
    }
}

/// The barriers of a text: the number of the line from 1, the line, and the function.
#[cfg(test)]
pub(crate) fn barriers(text: &str) -> Vec<(usize, &str, &str)> {
    let mut function = "";
    let mut found = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let code = line.split("//").next().unwrap_or_default();
        if let Some((_, name)) = code.split_once("fn ") {
            function = name.split(['(', '<']).next().unwrap_or_default();
        }
        let instruction = |word: &str| ["dsb", "dmb", "isb"].contains(&word.trim());
        let is_one =
            code.split('"').skip(1).step_by(2).any(|literal| instruction(&literal[..literal.len().min(3)]))
                || instruction(&code.trim()[..code.trim().len().min(3)]);
        if is_one {
            found.push((at + 1, line, function));
        }
    }
    found
}

/// The string literals at the beginning of the arguments of a macro.
fn literals(arguments: &'static str) -> Vec<&'static str> {
    let mut found = Vec::new();
    let mut rest = arguments.trim_start();
    while let Some((literal, after)) = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
        found.push(literal);
        rest = after.trim_start_matches(|next: char| next == ',' || next.is_whitespace());
    }
    found
}
