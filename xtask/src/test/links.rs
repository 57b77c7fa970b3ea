//! Every relative link in a Markdown file must lead to a file, and to a heading if it names one. Every excerpt must be a
//! whole file or a marked part of one. The book's table of contents must name every chapter.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;
use crate::workspace::Workspace;

/// Lists every broken link, every excerpt of nothing, and every chapter that the table of contents lacks.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    let is_markdown = |file: &PathBuf| file.extension() == Some(OsStr::new("md"));
    let files: Vec<PathBuf> = workspace.files()?.into_iter().filter(is_markdown).collect();
    let mut problems = Vec::new();
    for file in &files {
        let text = read(&workspace.root.join(file))?;
        for (line, target) in links(&text) {
            if !resolves(&workspace.root.join(file), &target)? {
                problems.push(format!("\n{}:{line}: broken link: {target}", file.display()));
            }
        }
        for (line, target, part) in excerpts(&text) {
            let source = workspace.root.join(file).with_file_name("").join(&target);
            if !fs::read_to_string(source).is_ok_and(|source| has_part(&source, &part)) {
                problems.push(format!("\n{}:{line}: {target} has no part `{part}`", file.display()));
            }
        }
    }
    problems.extend(lost_chapters(workspace, &files)?);
    if problems.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("Markdown:{}", problems.concat())))
}

/// The files beside the table of contents that it does not name.
fn lost_chapters(workspace: &Workspace, files: &[PathBuf]) -> Result<Vec<String>, Failure> {
    let book = Path::new("docs/src");
    let contents = book.join("SUMMARY.md");
    let named: Vec<PathBuf> = links(&read(&workspace.root.join(&contents))?)
        .into_iter()
        .map(|(_, target)| book.join(target))
        .collect();
    let lost =
        files.iter().filter(|file| file.starts_with(book) && **file != contents && !named.contains(file));
    Ok(lost.map(|file| format!("\n{}: not named in {}", file.display(), contents.display())).collect())
}

fn read(file: &Path) -> Result<String, Failure> {
    fs::read_to_string(file).map_err(|error| Failure::new(format!("{}: {error}", file.display())))
}

/// Whether `target`, a link in `file`, leads to something. Links to other sites are not checked.
fn resolves(file: &Path, target: &str) -> Result<bool, Failure> {
    if target.contains("://") || target.starts_with("mailto:") {
        return Ok(true);
    }
    let (path, heading) =
        target.split_once('#').map_or((target, None), |(path, heading)| (path, Some(heading)));
    let path =
        if path.is_empty() { file.to_owned() } else { file.parent().unwrap_or(Path::new("")).join(path) };
    match heading {
        None => Ok(path.exists()),
        Some(heading) => Ok(path.is_file() && headings(&read(&path)?).iter().any(|known| known == heading)),
    }
}

/// The text outside code blocks, with the number of each line.
fn prose(markdown: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    markdown.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        code ^= fence;
        (!code && !fence).then_some((index + 1, line))
    })
}

/// The targets of all links, `[text](target)` or `[name]: target`, with their lines.
fn links(markdown: &str) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (number, line) in prose(markdown) {
        // Every other piece is code.
        let line: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let definition =
            line.strip_prefix('[').and_then(|rest| rest.split_once("]: ")).map(|(_, target)| target);
        let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        let targets = inline.chain(definition).filter_map(|target| target.split_whitespace().next());
        links.extend(targets.map(|target| (number, target.to_owned())));
    }
    links
}

/// The file and the part of it that each `{{#include file:part}}` names, with its line.
fn excerpts(markdown: &str) -> Vec<(usize, String, String)> {
    let mut excerpts = Vec::new();
    for (index, line) in markdown.lines().enumerate() {
        let target = line.trim().strip_prefix("{{#include ").and_then(|rest| rest.strip_suffix("}}"));
        if let Some((file, part)) = target.map(|target| target.split_once(':').unwrap_or((target, ""))) {
            excerpts.push((index + 1, file.to_owned(), part.to_owned()));
        }
    }
    excerpts
}

/// Whether `source` marks the beginning and the end of `part`, or no part is named: the whole file. Numbers of lines are
/// no part: they shift unnoticed.
fn has_part(source: &str, part: &str) -> bool {
    let marks = |mark: &str| source.lines().any(|line| line.trim() == format!("// {mark}: {part}"));
    part.is_empty() || (marks("ANCHOR") && marks("ANCHOR_END"))
}

/// The anchors of a page's headings.
fn headings(markdown: &str) -> Vec<String> {
    let headings = prose(markdown).filter(|(_, line)| line.starts_with('#'));
    headings.map(|(_, line)| anchor(line.trim_start_matches('#').trim())).collect()
}

/// The anchor of a heading: lower case, a dash for a space, without other characters that are neither letter nor digit.
fn anchor(heading: &str) -> String {
    let letters = heading.chars().filter_map(|letter| match letter {
        ' ' => Some('-'),
        '-' | '_' => Some(letter),
        _ => letter.is_alphanumeric().then_some(letter),
    });
    letters.flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let text =
            "[a](one.md) and ![b](two.png \"title\")\n```\n[c](no.md)\n```\n`[d](no.md)` [e](three.md#x)\n\
                    [f]: four.md\n";
        let targets: Vec<_> = links(text);
        let expected = [(1, "one.md"), (1, "two.png"), (5, "three.md#x"), (6, "four.md")];
        assert_eq!(targets, expected.map(|(line, target)| (line, target.to_owned())));
    }

    #[test]
    fn excerpts_name_marked_parts() {
        let text = "```rust\n{{#include ../port.rs:start}}\n```\n{{#include whole.rs}}\n";
        let expected = [(2, "../port.rs", "start"), (4, "whole.rs", "")];
        let owned = expected.map(|(line, file, part)| (line, file.to_owned(), part.to_owned()));
        assert_eq!(excerpts(text), owned);
        let source = "    // ANCHOR: start\nfn start() {}\n    // ANCHOR_END: start\n// ANCHOR: open\n";
        assert!(has_part(source, "start") && has_part(source, ""));
        assert!(!has_part(source, "open") && !has_part(source, "star"));
    }

    #[test]
    fn headings_are_named_as_readers_link_to_them() {
        let page = "# The `Batch`: what it owes\n```\n# not a heading\n```\n## R1-R9, in brief\n";
        assert_eq!(headings(page), ["the-batch-what-it-owes", "r1-r9-in-brief"]);
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        for (target, expected) in [
            ("src/test/links.rs", true),
            ("src", true),
            ("src/test/lynx.rs", false),
            ("https://example.com/x.md", true),
            ("missing.md#heading", false),
            ("src/test/links.rs#no-such-heading", false),
        ] {
            assert_eq!(resolves(&here, target).unwrap(), expected, "{target}");
        }
    }

    #[test]
    fn every_link_of_the_repository_leads_somewhere() {
        check(&Workspace::load().unwrap()).unwrap();
    }
}
