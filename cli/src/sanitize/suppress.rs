//! Finds that are not reported, since a kernel makes them on purpose: rules of a file, or of a preset.

use std::fs;
use std::path::Path;

use ceasefire_linux::kernel::symbols::Symbols;
use ceasefire_sanitizer::find::{Find, Kind, Place};
use serde::Deserialize;

use super::symbols::function;
use crate::args::Preset;
use crate::failure::{complain, Failure};

/// A file of rules.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    suppress: Vec<Rule>,
}

/// A rule: finds of a kind, at places in functions with these names. What is left out matches all.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    /// Why the kernel may do that.
    pub(crate) reason: String,
    kind: Option<Kind>,
    /// Functions of the change, or their callers. `*` stands for any letters.
    #[serde(default)]
    changed: Vec<String>,
    /// Functions of the use, or their callers.
    #[serde(default)]
    used: Vec<String>,
    /// Functions that have overwritten the frame, or their callers.
    #[serde(default)]
    overwritten: Vec<String>,
    /// Stores, or all but stores.
    store: Option<bool>,
}

/// Reads the rules of the presets and files. Says which names of a file's rules no function has: they leave nothing out.
pub(super) fn read(
    presets: &[Preset],
    files: &[impl AsRef<Path>],
    symbols: &Symbols,
) -> Result<Vec<Rule>, Failure> {
    let mut rules = Vec::new();
    for preset in presets {
        rules.extend(parse(preset.rules()).map_err(|error| Failure::Input(format!("the preset: {error}")))?);
    }
    for path in files.iter().map(AsRef::as_ref) {
        let wrong = |what: &dyn std::fmt::Display| Failure::Input(format!("{}: {what}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let own = parse(&text).map_err(|error| wrong(&error))?;
        for name in own.iter().flat_map(Rule::names) {
            if !symbols.names().any(|function| fits(name, without_part(function))) {
                complain(&format!("{}: --kernel has no function {name}", path.display()));
            }
        }
        rules.extend(own);
    }
    Ok(rules)
}

/// Reads rules. An error is one line.
fn parse(text: &str) -> Result<Vec<Rule>, String> {
    let file: File = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    let is_broad = |rule: &&Rule| rule.names().next().is_none();
    match file.suppress.iter().find(is_broad) {
        Some(rule) => {
            Err(format!("the rule \"{}\" names no function: changed, used or overwritten must", rule.reason))
        }
        None => Ok(file.suppress),
    }
}

impl Rule {
    /// The functions that it names.
    fn names(&self) -> impl Iterator<Item = &String> {
        self.changed.iter().chain(&self.used).chain(&self.overwritten)
    }

    /// Whether a find is one that it names.
    pub(super) fn matches(&self, find: &Find, symbols: &Symbols) -> bool {
        let is_at = |names: &[String], place: Option<&Place>| {
            names.is_empty()
                || place.is_some_and(|place| names.iter().any(|name| is_in(name, place, symbols)))
        };
        self.kind.is_none_or(|kind| kind == find.kind)
            && is_at(&self.changed, find.changed.as_ref().map(|changed| &changed.place))
            && is_at(&self.used, Some(&find.used))
            && is_at(&self.overwritten, find.given.as_ref())
            && self.store.is_none_or(|store| store == find.store)
    }
}

/// Whether a place is in a function with a name, or in one that it has called.
fn is_in(pattern: &str, place: &Place, symbols: &Symbols) -> bool {
    let addresses = std::iter::once(place.instruction).chain(place.callers.iter().map(|caller| caller - 1));
    let mut names = addresses.filter_map(|address| Some(without_part(function(symbols, address)?.0)));
    names.any(|name| fits(pattern, name))
}

/// The name of a function, of which a compiler may have made several, with a dot behind the name.
fn without_part(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

/// Whether a name fits a pattern in which `*` stands for any letters.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            (0..=name.len()).any(|at| name.is_char_boundary(at) && fits(rest, &name[at..]))
        }),
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name, expected) in [
            ("zap_pte_range", "zap_pte_range", true),
            ("zap_pte", "zap_pte_range", false),
            ("zap_*", "zap_pte_range", true),
            ("*_range", "zap_pte_range", true),
            ("z*p*e", "zap_pte_range", true),
            ("z*p*x", "zap_pte_range", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn a_rule_has_a_reason_and_a_function() {
        let rule = "[[suppress]]\nreason = \"why\"\nchanged = [\"zap_*\"]\n";
        assert_eq!(parse(rule).expect("a rule").len(), 1);
        for (text, part) in [
            ("[[suppress]]\nreason = \"why\"\n", "names no function"),
            ("[[suppress]]\nchanged = [\"a\"]\n", "reason"),
            ("[[suppress]]\nreason = \"why\"\nchange = [\"a\"]\n", "line 3: unknown field"),
            ("[[suppress]]\nreason = \"why\"\nkind = \"odd\"\nused = [\"a\"]\n", "line 3: unknown variant"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_rule_names_who_has_overwritten_the_frame_and_loads_or_stores() {
        let symbols =
            Symbols::of([(u64::MAX << 20, "reclaim"), ((u64::MAX << 20) + 0x100, "write")].into_iter());
        let place =
            |offset| Place { cpu: 0, time: 0, instruction: (u64::MAX << 20) + offset, callers: Vec::new() };
        let find = |given: Option<u64>, store| {
            let given = given.map(place);
            Find { store, given, ..Find::new(Kind::Reuse, place(0), 0, 0, place(0)) }
        };
        let rules = parse("[[suppress]]\nreason = \"why\"\nstore = false\noverwritten = [\"write\"]\n");
        let rule = &rules.expect("a rule")[0];
        for (given, store, expected) in [
            (Some(0x104), false, true),
            (Some(0x104), true, false),
            (Some(4), false, false),
            (None, false, false),
        ] {
            assert_eq!(rule.matches(&find(given, store), &symbols), expected, "{given:?} {store}");
        }
    }

    #[test]
    fn presets_are_rules() {
        for preset in Preset::value_variants() {
            assert!(!parse(preset.rules()).expect("its rules").is_empty());
        }
    }
}
