//! A report, judged by rules: what is left, and what they leave out.

use ceasefire_sanitizer::find::{Find, Summary};
use ceasefire_sanitizer::reader::Reading;

use super::suppress::Rule;

/// A report without what rules leave out.
#[derive(Debug)]
pub(crate) struct Judged {
    /// The finds, and how often each was made, if that is known.
    pub(crate) finds: Vec<(Find, Option<u64>)>,
    /// The rules that left something out: how many finds, and how many uses.
    pub(crate) suppressed: Vec<(Rule, usize, Option<u64>)>,
    pub(crate) end: Option<Summary>,
    /// Why the guest may not have called the functions that free frames.
    pub(crate) unseen: Vec<String>,
}

impl Judged {
    /// Leaves out the finds for which there is a rule.
    pub(super) fn of<'a>(
        reading: Reading,
        rule_for: impl Fn(&Find) -> Option<&'a Rule>,
        unseen: Vec<String>,
    ) -> Self {
        let Reading { finds: all, end, .. } = reading;
        let uses = |number: usize| end.as_ref().and_then(|end| end.uses.get(number).copied());
        let mut suppressed: Vec<(Rule, usize, Option<u64>)> = Vec::new();
        let mut finds = Vec::new();
        for (number, find) in all.into_iter().enumerate() {
            let more = uses(number);
            let Some(rule) = rule_for(&find) else {
                finds.push((find, more));
                continue;
            };
            match suppressed.iter_mut().find(|(known, ..)| known == rule) {
                Some((_, finds, uses)) => (*finds, *uses) = (*finds + 1, uses.zip(more).map(|(a, b)| a + b)),
                None => suppressed.push((rule.clone(), 1, more)),
            }
        }
        Self { finds, suppressed, end, unseen }
    }

    /// How often the finds were made, if that is known.
    pub(super) fn uses(&self) -> Option<u64> {
        self.finds.iter().map(|(_, uses)| *uses).sum()
    }
}
