//! Pairs of neighbouring statements of the engine that both make an atomic access.
//!
//! Each pair must be in the order in which it is written: exchanged, a scenario must miss it. Or the comment above the
//! second statement says why the order does not matter:
//!
//! ```text
//! // Either order: a flush that reads this early interrupts needlessly.
//! ```
//!
//! The pairs are found in the text. In a copy of the sources each pair has both orders, and the checker chooses one. A
//! CPU that comes to an exchanged pair often stands still between the two statements.

use std::fmt::Write;

/// How a comment begins that says why the order does not matter.
const MARK: &str = "// Either order: ";

/// Two neighbouring statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// Its number, from 1.
    pub number: u32,
    /// The line of the second statement, from 1.
    pub line: u32,
    /// Why the order does not matter, if the comment says so.
    pub either: Option<String>,
}

/// The words of a statement that makes an atomic access: an ordering, or a call of a function that makes one.
const ACCESSES: &[&str] = &[
    "Ordering::",
    ".set_loaded(",
    ".set_lazy(",
    ".set_tag(",
    ".generation.raise()",
    ".generation()",
    ".asid()",
    "tag.read()",
    "tag.claim()",
    "tag.adopt(",
    "tag.leave(",
    "tag.retire()",
    "tag.end(",
    ".raise_to(",
    ".extend(",
    "begin_gather()",
    "end_gather()",
    "begin_downgrade()",
    "end_downgrade()",
    "used_on.",
    ".leave_kernel()",
    "inbox.",
    "kernel.join(",
    "kernel.leave(",
    "from.insert(",
    "from.drain(",
    "catch_up_kernel(",
    "answer_all(",
    "is_closed()",
    "answered_by_one()",
    "cpus.clear(",
    "cpus().insert(",
    "cpus().remove(",
    "request.begin(",
    "ledger.",
    "asids.free(",
];

/// Rewrites the text of a file, so that each pair has both orders, and returns the pairs. Their numbers start at `first`.
pub fn rewrite(text: &str, first: u32) -> (String, Vec<Pair>) {
    let lines: Vec<&str> = text.lines().collect();
    let end = lines.iter().position(|line| *line == "#[cfg(test)]").unwrap_or(lines.len());
    let (mut rewritten, mut pairs) = (String::new(), Vec::new());
    let mut at = 0;
    while at < lines.len() {
        let run = if at < end { run_at(&lines[..end], at) } else { Vec::new() };
        if run.len() < 2 {
            rewritten += lines[at];
            rewritten.push('\n');
            at += 1;
            continue;
        }
        let number = first + pairs.len() as u32;
        pairs.extend(run.windows(2).zip(number..).filter(|(two, _)| two[1].follows).map(|(two, number)| {
            Pair { number, line: two[1].from as u32 + 1, either: two[1].either.clone() }
        }));
        rewritten += &both_orders(&run, number);
        at = run[run.len() - 1].end;
    }
    (rewritten, pairs)
}

/// A statement that makes an atomic access.
struct Statement {
    /// Its first line, and the line after its last.
    from: usize,
    end: usize,
    /// What it binds: the words between `let` and `=`.
    binds: Option<String>,
    text: String,
    either: Option<String>,
    /// It can stand before the statement before it.
    follows: bool,
}

/// The neighbouring statements from a line on, as long as each can be exchanged with the next.
fn run_at(lines: &[&str], start: usize) -> Vec<Statement> {
    let mut run: Vec<Statement> = Vec::new();
    let mut at = start;
    while let Some(mut next) = statement(lines, at) {
        if let Some(last) = run.last() {
            next.follows = last.binds.as_deref().is_none_or(|bound| !uses(&next.text, bound))
                && !(is_relaxed(&last.text) && is_relaxed(&next.text));
            if !next.follows {
                break;
            }
        }
        at = next.end;
        run.push(next);
    }
    run
}

/// Whether all accesses of a statement are relaxed. The language promises no order of two such accesses.
fn is_relaxed(text: &str) -> bool {
    let others =
        ACCESSES.iter().filter(|access| **access != "Ordering::").any(|access| text.contains(access));
    !others && text.matches("Ordering::").count() == text.matches("Ordering::Relaxed").count()
}

fn uses(text: &str, bound: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    bound
        .split(|c| !word(c))
        .filter(|name| !name.is_empty())
        .any(|name| text.split(|c| !word(c)).any(|other| other == name))
}

/// The statement that begins at a line, after its comments.
fn statement(lines: &[&str], at: usize) -> Option<Statement> {
    let from = at + lines[at..].iter().position(|line| !line.trim_start().starts_with("//"))?;
    let first = lines.get(from)?;
    let indent = first.len() - first.trim_start().len();
    // Only in a body, and from the beginning of a statement.
    let before = lines[..at].iter().rev().find(|line| !line.trim_start().starts_with("//"))?.trim_end();
    if indent < 8 || !before.ends_with([';', '{', '}']) || first.trim_start().starts_with(['}', '.', '#']) {
        return None;
    }
    let depth = |line: usize| lines[line].len() - lines[line].trim_start().len();
    let ends = |line: usize| depth(line) == indent && lines[line].trim_end().ends_with([';', '}']);
    let left = |line: usize| depth(line) < indent && !lines[line].is_empty();
    let last = (from..lines.len()).find(|&line| ends(line) || left(line)).filter(|&line| ends(line))?;
    let text = lines[from..=last].join("\n");
    let code = text.trim();
    let plain = code.ends_with(';') || code.starts_with("if ") && !code.contains("return ");
    let leaves = ["return", "break", "continue", "?;"].iter().any(|word| code.contains(word));
    if !plain || leaves || !ACCESSES.iter().any(|access| code.contains(access)) || code.contains("tally.") {
        return None;
    }
    let either = lines[at..from].iter().find_map(|line| line.trim_start().strip_prefix(MARK));
    let either = either.map(str::to_owned);
    let binds =
        code.strip_prefix("let ").and_then(|rest| rest.split_once(" =")).map(|(binds, _)| binds.to_owned());
    Some(Statement { from, end: last + 1, binds, text, either, follows: true })
}

/// The statements in their order, or with one pair exchanged.
fn both_orders(run: &[Statement], first: u32) -> String {
    let mut code = String::new();
    for binds in run.iter().filter_map(|statement| statement.binds.as_deref()) {
        let _ = writeln!(code, "let {binds};");
    }
    let body = |order: &[usize], second: Option<usize>| {
        let each = order.iter().enumerate().map(|(place, &at)| {
            let between = if second == Some(place) { "crate::primitive::between();\n" } else { "" };
            match &run[at].binds {
                Some(binds) => {
                    between.to_owned()
                        + &run[at].text.replacen(
                            &format!("let {binds} ="),
                            &format!("{} =", binds.trim_start_matches("mut ")),
                            1,
                        )
                }
                None => between.to_owned() + &run[at].text,
            }
        });
        each.collect::<Vec<_>>().join("\n")
    };
    let plain: Vec<usize> = (0..run.len()).collect();
    for (at, number) in (1..run.len()).zip(first..) {
        let mut order = plain.clone();
        order.swap(at - 1, at);
        let exchanged = body(&order, Some(at));
        let _ = writeln!(code, "if crate::primitive::is_exchanged({number}) {{\n{exchanged}\n}} else");
    }
    let _ = writeln!(code, "{{\n{}\n}}", body(&plain, None));
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
impl A {
    fn f(&self) {
        self.a.store(1, Ordering::Relaxed);
        // Either order: no CPU reads both.
        self.b.store(2, Ordering::Release);
        other();
        let c = self.c.load(Ordering::Acquire);
        let d = self.d.load(Ordering::Acquire);
        self.e.store(c, Ordering::Release);
    }
}
";

    #[test]
    fn neighbours_that_do_not_depend_on_each_other_are_pairs() {
        let (rewritten, pairs) = rewrite(TEXT, 5);
        let found: Vec<_> =
            pairs.iter().map(|pair| (pair.number, pair.line, pair.either.as_deref())).collect();
        assert_eq!(found, [(5, 5, Some("no CPU reads both.")), (6, 8, None), (7, 9, None)]);
        assert!(rewritten.contains("let c;\nlet d;\nif crate::primitive::is_exchanged(6) {"), "{rewritten}");
        assert!(rewritten.contains("        other();\n"), "{rewritten}");
    }
}
