//! The features of the processor.

use ceasefire::DYNAMIC_ASIDS;

use serde::Serialize;

use super::mark::{Marks, Origin};
use super::quantity::{Parameter, Picoseconds, TIME};
use super::{MachineError, Problem};
use crate::document::Section;

/// The smallest number of ASIDs of an x86 kernel: each CPU's own slots, one for the kernel, and the last, which the
/// kernel leaves unused (Linux: `MAX_ASID_AVAILABLE`).
const LEAST_ASIDS: u32 = DYNAMIC_ASIDS as u32 + 2;
/// The greatest number of ASIDs: 16 bits.
const MAX_ASIDS: u32 = 65_536;
/// The greatest number of pages of one broadcast: 16 bits (INVLPGB: ECX).
const MAX_PAGES: u32 = 65_536;

/// The features of the processor beyond the minimum.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Processor {
    /// Whether TLB entries carry ASIDs, which lets them survive a switch of spaces.
    pub asids: bool,
    /// The number of ASIDs that its entries can distinguish: 4096 on x86, of which page-table isolation leaves 2048.
    pub asid_space: u32,
    /// The number of ASIDs with which the kernel always broadcasts its invalidations to all CPUs, as on Arm. Such an
    /// ASID means the same on each CPU. `None`: flushes use interrupts, unless a mechanism turns broadcasts on.
    pub broadcast_asids: Option<u32>,
    /// The number of neighbouring pages that one broadcast can invalidate. More pages take several broadcasts. At
    /// least 1.
    pub broadcast_pages: u32,
    /// The time that the interconnect spends on one broadcast before it takes the next, from any CPU.
    pub broadcast_interval: Picoseconds,
    /// A wait for broadcasts must be followed by one more broadcast and wait
    /// ([`Errata::repeated`](ceasefire::Errata::repeated)).
    #[serde(skip_serializing_if = "is_off")]
    pub broadcast_repeated: bool,
    /// After a wait for broadcasts, every CPU must wait itself
    /// ([`Errata::everyone`](ceasefire::Errata::everyone)).
    #[serde(skip_serializing_if = "is_off")]
    pub broadcast_everyone: bool,
    /// How often some CPU fills a translation that no access asked for, as a part of the moments at which CPUs can notice
    /// each other: 0, the default, to 1. A machine that does not speculate serializes as one that cannot.
    #[serde(skip_serializing_if = "never")]
    pub speculate: f64,
}

/// Whether a rate is that of a machine that does not speculate.
// Serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn never(rate: &f64) -> bool {
    *rate == 0.0
}

/// Whether a processor has not a fault, so it serializes as before.
// Serde passes a reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
fn is_off(fault: &bool) -> bool {
    !fault
}

impl Default for Processor {
    /// ASIDs and no broadcasts: an x86 of the last decade.
    fn default() -> Self {
        Self {
            asids: true,
            asid_space: 4096,
            broadcast_asids: None,
            broadcast_pages: 1,
            broadcast_interval: 0,
            broadcast_repeated: false,
            broadcast_everyone: false,
            speculate: 0.0,
        }
    }
}

impl Processor {
    const SPECULATE: &'static str = "speculate";

    /// Sets the rate at which CPUs speculate, and its line in `sources`.
    pub(super) fn set_speculate(&mut self, rate: f64, sources: &mut Vec<Parameter>) -> Result<(), Problem> {
        self.speculate = Self::checked_rate(rate)?;
        let key = format!("processor.{}", Self::SPECULATE);
        sources.retain(|parameter| parameter.key != key);
        let origin = Origin { source: "chosen".to_owned(), marks: Marks::default(), range: None };
        sources.push(Parameter::new(key, rate, "", &origin));
        Ok(())
    }

    /// A rate of speculation, if it is one.
    fn checked_rate(rate: f64) -> Result<f64, Problem> {
        if (0.0..=1.0).contains(&rate) {
            Ok(rate)
        } else {
            Err(Problem::invalid(rate, "0 to 1"))
        }
    }

    /// Reads `[processor]` and adds its numbers to `sources`; `asids` counts as 1 or 0. A value that is replaced adds
    /// a line to `warnings`.
    pub(super) fn read(
        mut section: Section<'_>,
        sources: &mut Vec<Parameter>,
        warnings: &mut Vec<String>,
    ) -> Result<Self, MachineError> {
        let origin = Origin::take(&mut section)?;
        let mut processor = Self::default();
        let mut state = |key: &str, value: u32, unit: &str| {
            sources.push(Parameter::new(key, f64::from(value), unit, &origin));
        };
        if let Some(entry) = section.take_if_there("asids") {
            processor.asids = entry.flag()?;
            state(entry.place().key(), processor.asids.into(), "");
        }
        if let Some(entry) = section.take_if_there("asid_space") {
            processor.asid_space = entry.count(LEAST_ASIDS, MAX_ASIDS)?;
            if !processor.asids {
                let problem = Problem::invalid(processor.asid_space, "left out where `asids` is false");
                return Err(entry.place().error(problem));
            }
            state(entry.place().key(), processor.asid_space, "ASIDs");
        }
        if let Some(entry) = section.take_if_there("broadcast_asids") {
            let count = entry.count(1, MAX_ASIDS)?;
            if !processor.asids {
                let problem = Problem::invalid(count, "left out where `asids` is false");
                return Err(entry.place().error(problem));
            }
            processor.broadcast_asids = Some(count);
            state(entry.place().key(), count, "ASIDs");
        }
        if let Some(entry) = section.take_if_there("broadcast_pages") {
            let count = entry.count(0, MAX_PAGES)?;
            if count == 0 {
                // A kernel reads 0 before it has asked the processor (Linux commit cb6075bc62dc).
                let problem = Problem::invalid(count, "at least 1, and is taken for 1");
                warnings.push(entry.place().error(problem).to_string());
            }
            processor.broadcast_pages = count.max(1);
            state(entry.place().key(), processor.broadcast_pages, "pages");
        }
        let faults = [
            ("broadcast_repeated", &mut processor.broadcast_repeated),
            ("broadcast_everyone", &mut processor.broadcast_everyone),
        ];
        for (key, fault) in faults {
            if let Some(entry) = section.take_if_there(key) {
                *fault = entry.flag()?;
                state(entry.place().key(), (*fault).into(), "");
            }
        }
        if let Some(entry) = section.take_if_there("broadcast_interval") {
            processor.broadcast_interval = TIME.read(entry, sources)?;
        }
        if let Some(entry) = section.take_if_there(Self::SPECULATE) {
            let rate = entry.number()?;
            processor.speculate = Self::checked_rate(rate).map_err(|problem| entry.place().error(problem))?;
            sources.push(Parameter::new(entry.place().key(), rate, "", &origin));
        }
        section.finish()?;
        Ok(processor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{parse, Entry};

    type Read = (Processor, Vec<Parameter>, Vec<String>);

    fn read(text: &str) -> Result<Read, String> {
        let (mut sources, mut warnings) = (Vec::new(), Vec::new());
        let text = format!("[processor]\nsource = 's'\n{text}");
        let section = parse("f", &text).and_then(|mut root| root.take("processor")).and_then(Entry::section);
        let processor = section.and_then(|section| Processor::read(section, &mut sources, &mut warnings));
        processor.map(|processor| (processor, sources, warnings)).map_err(|error| error.to_string())
    }

    #[test]
    fn the_default_has_asids_and_no_broadcasts() {
        assert_eq!(read(""), Ok((Processor::default(), Vec::new(), Vec::new())));
        let processor = Processor::default();
        assert_eq!((processor.asids, processor.asid_space, processor.broadcast_asids), (true, 4096, None));
        assert_eq!((processor.broadcast_pages, processor.broadcast_interval), (1, 0));
    }

    #[test]
    fn every_key_is_read() {
        let (processor, sources, _) = read("broadcast_asids = 65536").expect("valid");
        assert_eq!(processor, Processor { broadcast_asids: Some(65_536), ..Processor::default() });
        assert_eq!((sources[0].key.as_str(), sources[0].value as u32), ("processor.broadcast_asids", 65_536));
        let (processor, sources, _) = read("asids = false").expect("valid");
        assert_eq!(processor, Processor { asids: false, ..Processor::default() });
        assert_eq!((sources[0].key.as_str(), sources[0].value as u32), ("processor.asids", 0));
        let text = "asid_space = 2048\nbroadcast_pages = 8\n\
                    broadcast_interval = { value = 90, unit = 'ns', source = 't' }";
        let (processor, sources, warnings) = read(text).expect("valid");
        assert_eq!((processor.asid_space, processor.broadcast_pages), (2048, 8));
        assert_eq!(processor.broadcast_interval, 90_000);
        let keys: Vec<&str> = sources.iter().map(|parameter| parameter.key.as_str()).collect();
        assert_eq!(
            keys,
            ["processor.asid_space", "processor.broadcast_pages", "processor.broadcast_interval"]
        );
        assert!(warnings.is_empty());
        let (processor, sources, _) = read("speculate = 0.25").expect("valid");
        assert_eq!(processor, Processor { speculate: 0.25, ..Processor::default() });
        assert_eq!((sources[0].key.as_str(), sources[0].value), ("processor.speculate", 0.25));
    }

    #[test]
    fn a_broadcast_of_0_pages_becomes_one_page_with_a_warning() {
        let (processor, sources, warnings) = read("broadcast_pages = 0").expect("valid");
        assert_eq!((processor.broadcast_pages, sources[0].value as u32), (1, 1));
        assert_eq!(warnings, ["f:3: processor.broadcast_pages: 0: must be at least 1, and is taken for 1"]);
    }

    #[test]
    fn impossible_processors_are_refused() {
        for (text, expected) in [
            ("asids = 1", "f:3: processor.asids: expected true or false, found a whole number"),
            ("asid_space = 0", "f:3: processor.asid_space: 0: must be 8 to 65536"),
            ("asid_space = 7", "f:3: processor.asid_space: 7: must be 8 to 65536"),
            (
                "asids = false\nasid_space = 9",
                "f:4: processor.asid_space: 9: must be left out where `asids` is false",
            ),
            (
                "broadcast_repeated = 1",
                "f:3: processor.broadcast_repeated: expected true or false, found a whole number",
            ),
            ("broadcast_asids = 0", "f:3: processor.broadcast_asids: 0: must be 1 to 65536"),
            ("broadcast_asids = 65537", "f:3: processor.broadcast_asids: 65537: must be 1 to 65536"),
            ("broadcast_pages = 65537", "f:3: processor.broadcast_pages: 65537: must be 0 to 65536"),
            (
                "asids = false\nbroadcast_asids = 9",
                "f:4: processor.broadcast_asids: 9: must be left out where `asids` is false",
            ),
            ("speculate = 2", "f:3: processor.speculate: 2: must be 0 to 1"),
            ("speculate = -0.1", "f:3: processor.speculate: -0.1: must be 0 to 1"),
            ("speculate = true", "f:3: processor.speculate: expected a number, found true or false"),
            ("x = 1", "f:3: processor.x: unknown key"),
        ] {
            assert_eq!(read(text).expect_err("must be refused"), expected);
        }
    }
}
