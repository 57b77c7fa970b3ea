//! Edits of a few lines of another project's source, which fail clearly where it differs from what they expect.
//!
//! An edit names a line by its text. A longer part is named by its first line, its length and its SHA-256, so nothing of
//! the other project stands in this one.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};
use toml::{Table, Value};

use crate::failure::{At as _, Failure};

/// A change of one place in a file.
#[derive(Debug)]
pub(super) struct Edit {
    /// The file's path inside the other project.
    pub(super) file: String,
    /// The line without indentation, which occurs once in the file.
    line: String,
    /// Whether the place begins below the line, and how many lines the text replaces there. Their SHA-256, if they are
    /// several.
    below: bool,
    replaced: usize,
    sum: Option<String>,
    text: String,
}

/// Reads a list of edits.
pub(super) fn read(text: &str) -> Result<Vec<Edit>, Failure> {
    let table: Table = text.parse().at("edits.toml")?;
    let edits = table.get("edit").and_then(Value::as_array);
    let edits = edits.ok_or_else(|| Failure::new("edits.toml: has no [[edit]]"))?;
    let edit = |(at, edit)| read_one(edit).at(format!("edits.toml: edit {}", at + 1));
    edits.iter().enumerate().map(edit).collect()
}

fn read_one(edit: &Value) -> Result<Edit, &'static str> {
    let text = |key: &str| edit.get(key).and_then(Value::as_str).map(str::to_owned);
    let lines =
        edit.get("lines").map_or(Some(1), |lines| lines.as_integer().and_then(|lines| lines.try_into().ok()));
    let lines: usize = lines.filter(|lines| *lines > 0).ok_or("`lines` must be at least 1")?;
    let sum = text("sha256");
    let (below, replaced, new) = match (text("above"), text("below"), text("instead")) {
        (Some(above), None, None) => (false, 0, above),
        (None, Some(below), None) => (true, 0, below),
        (None, None, Some(_)) if (lines > 1) != sum.is_some() => {
            return Err("several `lines` need their `sha256`, one line needs none");
        }
        (None, None, Some(instead)) => (false, lines, instead),
        _ => return Err("needs one of `above`, `below` and `instead`"),
    };
    let (file, line) = (text("file").ok_or("has no `file`")?, text("line").ok_or("has no `line`")?);
    Ok(Edit { file, line, below, replaced, sum, text: new })
}

impl Edit {
    /// The source with the edit made.
    pub(super) fn apply(&self, source: &str) -> Result<String, Failure> {
        self.applied(source).at(format!("{} differs from what the edit expects", self.file))
    }

    fn applied(&self, source: &str) -> Result<String, String> {
        let Self { line, replaced, .. } = self;
        let lines: Vec<&str> = source.lines().collect();
        let found: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].trim() == line).collect();
        let &[at] = found.as_slice() else {
            return Err(format!("the line `{line}` occurs {} times, not once", found.len()));
        };
        let start = at + usize::from(self.below);
        let end = start + replaced;
        let part = lines.get(start..end);
        let part = part.ok_or_else(|| format!("it ends before the {replaced} lines from `{line}` on"))?;
        let is = hash(part);
        if self.sum.as_ref().is_some_and(|sum| *sum != is) {
            return Err(format!("the {replaced} lines from `{line}` on have SHA-256 {is}"));
        }
        let new = self.text.trim_end_matches('\n');
        Ok([&lines[..start], &[new], &lines[end..], &[""]].concat().join("\n"))
    }
}

/// The SHA-256 of lines, each with its end.
fn hash(lines: &[&str]) -> String {
    let mut sum = Sha256::new();
    for line in lines {
        sum.update(line.as_bytes());
        sum.update(b"\n");
    }
    let mut digits = String::new();
    for byte in sum.finalize() {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn a() {\n    one();\n    two();\n}\nfn b() {\n}\n";

    fn applied(edit: &str) -> Result<String, String> {
        let edits =
            read(&format!("[[edit]]\nfile = \"f\"\n{edit}")).map_err(|failure| failure.to_string())?;
        edits[0].apply(SOURCE).map_err(|failure| failure.to_string())
    }

    #[test]
    fn a_text_is_put_beside_a_line_or_in_its_place() {
        for (place, expected) in [
            ("above", "fn a() {\n    new();\n    one();\n    two();\n}\nfn b() {\n}\n"),
            ("below", "fn a() {\n    one();\n    new();\n    two();\n}\nfn b() {\n}\n"),
            ("instead", "fn a() {\n    new();\n    two();\n}\nfn b() {\n}\n"),
        ] {
            let edit = format!("line = \"one();\"\n{place} = \"    new();\"");
            assert_eq!(applied(&edit).as_deref(), Ok(expected));
        }
    }

    #[test]
    fn several_lines_are_replaced_if_they_are_the_expected_ones() {
        let sum = hash(&["    one();", "    two();"]);
        let edit =
            |sum| applied(&format!("line = \"one();\"\nlines = 2\nsha256 = \"{sum}\"\ninstead = \"\""));
        assert_eq!(edit(&sum).as_deref(), Ok("fn a() {\n\n}\nfn b() {\n}\n"));
        let differs = "f differs from what the edit expects: the 2 lines from `one();` on have SHA-256";
        assert_eq!(edit(&"0".to_owned()), Err(format!("{differs} {sum}")));
    }

    #[test]
    fn another_source_and_a_wrong_edit_are_refused() {
        let differs = "f differs from what the edit expects: ";
        #[rustfmt::skip]
        let wrong = [
            ("line = \"three();\"\nabove = \"\"", differs, "the line `three();` occurs 0 times, not once"),
            ("line = \"}\"\nabove = \"\"", differs, "the line `}` occurs 2 times, not once"),
            ("line = \"fn b() {\"\nlines = 3\nsha256 = \"0\"\ninstead = \"\"", differs, "it ends before the 3 lines"),
            ("line = \"}\"", "edits.toml: edit 1: ", "needs one of `above`, `below` and `instead`"),
            ("line = \"}\"\nabove = \"\"\nbelow = \"\"", "edits.toml: edit 1: ", "needs one of"),
            ("above = \"\"", "edits.toml: edit 1: ", "has no `line`"),
            ("line = \"}\"\nlines = 2\ninstead = \"\"", "edits.toml: edit 1: ", "several `lines` need their `sha256`"),
            ("line = \"}\"\nlines = 0\ninstead = \"\"", "edits.toml: edit 1: ", "`lines` must be at least 1"),
        ];
        for (edit, begin, end) in wrong {
            let failure = applied(edit).expect_err(edit);
            assert!(failure.starts_with(begin) && failure.contains(end), "{failure}");
        }
    }
}
