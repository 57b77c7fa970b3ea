//! Rules about a kernel, of a file or a preset: what it does on purpose, and which of its functions free frames.

use std::fs;
use std::path::Path;

use ceasefire_linux::kernel::symbols::Symbols;
use serde::Deserialize;

use super::free::FreeRule;
use super::suppress::{without_part, Rule};
use super::symbols::fits;
use crate::args::Preset;
use crate::failure::{complain, Failure};

/// The functions that a rule may have followed: each is compared with each block of code that QEMU translates.
const FOLLOWED: usize = 64;

/// A file of rules.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Rules {
    #[serde(default)]
    pub(super) suppress: Vec<Rule>,
    #[serde(default)]
    pub(super) free: Vec<FreeRule>,
}

/// Reads the rules of the presets and files. Says which names of a file's rules no function has: they do nothing.
pub(super) fn read(
    presets: &[Preset],
    files: &[impl AsRef<Path>],
    symbols: &Symbols,
) -> Result<Rules, Failure> {
    let mut rules = Rules::default();
    let mut add = |own: Rules| {
        rules.suppress.extend(own.suppress);
        rules.free.extend(own.free);
    };
    for preset in presets {
        add(parse(preset.rules()).map_err(|error| Failure::Input(format!("the preset: {error}")))?);
    }
    for path in files.iter().map(AsRef::as_ref) {
        let wrong = |what: &dyn std::fmt::Display| Failure::Input(format!("{}: {what}", path.display()));
        let text = fs::read_to_string(path).map_err(|error| wrong(&error))?;
        let own = parse(&text).map_err(|error| wrong(&error))?;
        let has = |name: &str| symbols.names().any(|function| fits(name, without_part(function)));
        let is_absent = |name: &str| {
            complain(&format!("{}: --kernel has no function {name}", path.display()));
        };
        own.suppress.iter().flat_map(Rule::names).filter(|name| !has(name)).for_each(|name| is_absent(name));
        for free in &own.free {
            let name = free.function();
            match free.frees(symbols).count() {
                0 => is_absent(name),
                count if count > FOLLOWED => {
                    return Err(wrong(&format!(
                        "{name} names {count} functions, of which at most {FOLLOWED} may be"
                    )));
                }
                _ => {}
            }
        }
        add(own);
    }
    Ok(rules)
}

/// Reads rules. An error is one line.
pub(super) fn parse(text: &str) -> Result<Rules, String> {
    let rules: Rules = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| text[..span.start].matches('\n').count() + 1);
        format!("line {line}: {}", error.message())
    })?;
    let is_broad = |rule: &&Rule| rule.names().next().is_none();
    if let Some(rule) = rules.suppress.iter().find(is_broad) {
        return Err(format!("the rule \"{}\" names no function: changed, used or given must", rule.reason));
    }
    rules.free.iter().try_for_each(FreeRule::check)?;
    Ok(rules)
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum as _;

    use super::*;

    #[test]
    fn presets_are_rules() {
        for preset in Preset::value_variants() {
            let Rules { suppress, free } = parse(preset.rules()).expect("its rules");
            assert!(!suppress.is_empty() || !free.is_empty());
        }
    }
}
