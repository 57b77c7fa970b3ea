//! A report of the plugin.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde_json::Value;

/// What a report says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    /// The number of different finds of each kind.
    pub(super) kinds: BTreeMap<String, usize>,
    /// The addresses that were used.
    pub(super) addresses: BTreeSet<u64>,
    /// The accesses that were compared. `None`: the emulator was ended before it could say.
    pub(super) looks: Option<u64>,
}

impl Report {
    /// Reads a report, which may be in the making.
    pub(super) fn read(path: &Path) -> Self {
        Self::of(&fs::read_to_string(path).unwrap_or_default())
    }

    fn of(text: &str) -> Self {
        let mut report = Self::default();
        for line in text.lines() {
            let Ok(line) = serde_json::from_str::<Value>(line) else { break };
            if let Some(kind) = line["find"]["kind"].as_str() {
                *report.kinds.entry(kind.to_owned()).or_default() += 1;
                let address = line["find"]["address"].as_str().and_then(|text| text.strip_prefix("0x"));
                report.addresses.extend(address.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
            }
            report.looks = report.looks.or(line["end"]["looks"].as_u64());
        }
        report
    }

    /// Leaves out a kind.
    pub(super) fn without(mut self, kind: &str) -> Self {
        self.kinds.remove(kind);
        self
    }

    /// The number of different finds.
    pub(super) fn finds(&self) -> usize {
        self.kinds.values().sum()
    }

    /// The kinds in words.
    pub(super) fn words(&self) -> String {
        let words = self.kinds.iter().map(|(kind, count)| format!("{count} {kind}"));
        words.collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_far_as_it_is_whole() {
        let find = |kind: &str| format!("{{\"find\":{{\"kind\":\"{kind}\",\"address\":\"0x1000\"}}}}\n");
        let text = ["{\"begin\":{\"cpus\":4}}\n", &find("reuse"), &find("late-use"), &find("reuse")].concat();
        let half = Report::of(&(text.clone() + "{\"find\":{\"ki"));
        assert_eq!((half.finds(), half.words(), half.looks), (3, "1 late-use, 2 reuse".to_owned(), None));
        assert_eq!(half.addresses, BTreeSet::from([4096]));
        let whole = Report::of(&(text + "{\"end\":{\"finds\":9,\"looks\":7}}\n")).without("late-use");
        assert_eq!((whole.finds(), whole.looks), (2, Some(7)));
        assert_eq!(Report::read(Path::new("no/such/file")), Report::default());
    }
}
