//! A report of the plugin.

use std::collections::BTreeMap;
use std::path::Path;

use ceasefire_sanitizer::find::Find;
use ceasefire_sanitizer::reader::Reading;

/// Reads a report, which may be in the making. One that cannot be read says nothing.
pub(crate) fn read(path: &Path) -> Reading {
    Reading::of(path).unwrap_or_default()
}

/// How many different finds there are of each kind, in words.
pub(super) fn kinds(finds: &[Find]) -> String {
    let mut kinds = BTreeMap::new();
    for find in finds {
        *kinds.entry(find.kind.name()).or_insert(0) += 1;
    }
    kinds.iter().map(|(kind, count)| format!("{count} {kind}")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
pub(super) mod tests {
    use ceasefire_sanitizer::find::{Kind, Place};

    use super::*;

    /// A find of a kind.
    pub(crate) fn find(kind: Kind) -> Find {
        let place = Place { cpu: 0, time: 0, instruction: 0, callers: Vec::new() };
        Find::new(kind, place.clone(), 0, 0, place)
    }

    #[test]
    fn finds_are_counted_by_their_kinds() {
        assert_eq!(kinds(&[Kind::Reuse, Kind::LateUse, Kind::Reuse].map(find)), "1 late use, 2 reuse");
        assert_eq!(kinds(&read(Path::new("no/such/file")).finds), "");
    }
}
