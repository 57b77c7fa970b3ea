//! Finds that are not reported, since a kernel makes them on purpose.

use ceasefire_linux::kernel::symbols::Symbols;
use ceasefire_sanitizer::find::{Find, Kind, Place};
use serde::Deserialize;

use super::symbols::{fits, function};

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
    /// Functions that have given the frame away, by freeing or overwriting it, or their callers.
    #[serde(default)]
    given: Vec<String>,
    /// Stores, or all but stores.
    store: Option<bool>,
}

impl Rule {
    /// The functions that it names.
    pub(super) fn names(&self) -> impl Iterator<Item = &String> {
        self.changed.iter().chain(&self.used).chain(&self.given)
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
            && is_at(&self.given, find.given.as_ref())
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
pub(super) fn without_part(name: &str) -> &str {
    name.split('.').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::super::rules::parse;
    use super::*;

    #[test]
    fn a_rule_has_a_reason_and_a_function() {
        let rule = "[[suppress]]\nreason = \"why\"\nchanged = [\"zap_*\"]\n";
        assert_eq!(parse(rule).expect("a rule").suppress.len(), 1);
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
    fn a_rule_names_who_has_given_the_frame_away_and_loads_or_stores() {
        let symbols =
            Symbols::of([(u64::MAX << 20, "reclaim"), ((u64::MAX << 20) + 0x100, "write")].into_iter());
        let place =
            |offset| Place { cpu: 0, time: 0, instruction: (u64::MAX << 20) + offset, callers: Vec::new() };
        let find = |given: Option<u64>, store| {
            let given = given.map(place);
            Find { store, given, ..Find::new(Kind::Reuse, place(0), 0, 0, place(0)) }
        };
        let rules = parse("[[suppress]]\nreason = \"why\"\nstore = false\ngiven = [\"write\"]\n");
        let rule = &rules.expect("a rule").suppress[0];
        for (given, store, expected) in [
            (Some(0x104), false, true),
            (Some(0x104), true, false),
            (Some(4), false, false),
            (None, false, false),
        ] {
            assert_eq!(rule.matches(&find(given, store), &symbols), expected, "{given:?} {store}");
        }
    }
}
