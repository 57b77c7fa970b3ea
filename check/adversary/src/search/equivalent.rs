//! What the engine's sources say about their orderings.
//!
//! An ordering is the weakest that does, or a line beside the access says why a stronger one stays:
//!
//! ```text
//! // Equivalent to Relaxed: a full barrier follows.
//! ```
//!
//! It says that the weaker ordering allows nothing new, on processors whose stores are multi-copy atomic. The mark stands
//! on the line of the access or in the comment above it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ceasefire_atomics::Ordering;

/// A line that says that a weaker ordering would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    /// The line of the access, from 1.
    pub line: u32,
    /// The weakest ordering that would.
    pub to: Ordering,
    /// Why.
    pub reason: String,
}

/// An ordering that the sources name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Named {
    /// Its line, from 1.
    pub line: u32,
    /// The line on which the statement around it begins.
    pub from: u32,
}

/// A file of the engine.
#[derive(Debug, Clone)]
pub struct Source {
    /// Its path inside the engine's sources.
    pub path: String,
    /// Its marks.
    pub marks: Vec<Mark>,
    /// The orderings other than `Relaxed` that it names, outside tests.
    pub named: Vec<Named>,
}

/// The words with which a mark begins.
const MARK: &str = "// Equivalent to ";

/// All files of the engine.
///
/// # Errors
/// A file cannot be read, or a mark names no ordering or gives no reason.
pub fn sources() -> io::Result<Vec<Source>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../engine/src");
    let mut files = Vec::new();
    collect(&root, &mut files)?;
    files.sort();
    let read = |file: &PathBuf| {
        let text = fs::read_to_string(file)?;
        let path = file.strip_prefix(&root).unwrap_or(file).display().to_string();
        parse(&path, &text).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
    };
    files.iter().map(read).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

fn parse(path: &str, text: &str) -> Result<Source, String> {
    let mut source = Source { path: path.to_owned(), marks: Vec::new(), named: Vec::new() };
    let (mut waiting, mut begun) = (Vec::new(), 1);
    // Tests come last in a file, and are no part of the engine.
    for (line, text) in (1..).zip(text.lines().take_while(|line| *line != "#[cfg(test)]")) {
        let (code, comment) = text.split_at(text.find("//").unwrap_or(text.len()));
        if let Some(found) = mark(comment) {
            waiting.push(found.map_err(|error| format!("{path}:{line}: {error}"))?);
        }
        if code.trim().is_empty() {
            continue;
        }
        source.marks.extend(waiting.drain(..).map(|mark| Mark { line, ..mark }));
        if ["SeqCst", "AcqRel", "Acquire", "Release"]
            .iter()
            .any(|name| code.contains(&format!("Ordering::{name}")))
        {
            source.named.push(Named { line, from: begun });
        }
        if code.trim_end().ends_with([';', '{', '}']) {
            begun = line + 1;
        }
    }
    match waiting.first() {
        None => Ok(source),
        Some(Mark { reason, .. }) => Err(format!("{path}: a mark stands beside no code: {reason}")),
    }
}

/// The mark that a comment is, if it is one.
fn mark(comment: &str) -> Option<Result<Mark, &'static str>> {
    let rest = comment.strip_prefix(MARK)?;
    let (to, reason) = rest.split_once(": ").unwrap_or((rest, ""));
    let to = match to {
        "Relaxed" => Ordering::Relaxed,
        "Acquire" => Ordering::Acquire,
        "Release" => Ordering::Release,
        "AcqRel" => Ordering::AcqRel,
        _ => return Some(Err("a mark names an ordering to which an access can be weakened, and a colon")),
    };
    if reason.is_empty() {
        return Some(Err("a mark gives its reason after a colon"));
    }
    Some(Ok(Mark { line: 0, to, reason: reason.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_belongs_to_the_code_beside_it_or_below() {
        let text = "\
fn f() {
    // Equivalent to Relaxed: the lock
    // orders both ends.
    a.load(Ordering::SeqCst);
    b.store(1, Ordering::Release); // Equivalent to Relaxed: no CPU reads it.
    c.load(Ordering::Relaxed);
    match d.compare_exchange(
        1,
        Ordering::AcqRel,
    ) {}
}
#[cfg(test)]
mod tests { fn g() { e.load(Ordering::SeqCst); } }
";
        let source = parse("x.rs", text).expect("it is well formed");
        let marks: Vec<_> = source.marks.iter().map(|mark| (mark.line, &*mark.reason)).collect();
        assert_eq!(marks, [(4, "the lock"), (5, "no CPU reads it.")]);
        let named: Vec<_> = source.named.iter().map(|named| (named.line, named.from)).collect();
        assert_eq!(named, [(4, 2), (5, 5), (9, 7)]);
    }

    #[test]
    fn a_mark_without_a_reason_or_an_access_is_refused() {
        for text in [
            "// Equivalent to Relaxed\nx();\n",
            "// Equivalent to SeqCst: no.\nx();\n",
            "x();\n// Equivalent to Relaxed: no.\n",
        ] {
            parse("x.rs", text).expect_err(text);
        }
    }
}
