//! What the processor can do beyond the minimum.

use super::document::Section;
use super::error::{MachineError, Problem};
use super::quantity::Parameter;

/// The most ASIDs: as many as 16 bits tell apart.
const MAX_ASIDS: u32 = 65_536;

/// What the processor can do beyond the minimum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Processor {
    /// TLB entries carry ASIDs, so that they survive a switch of spaces.
    pub asids: bool,
    /// The processor broadcasts invalidations to all CPUs by itself, under ASIDs that mean the same on each, and has so
    /// many of them. `None`: other CPUs are asked by interrupts.
    pub broadcast_asids: Option<u32>,
}

impl Default for Processor {
    /// ASIDs, and no broadcast: an x86 of the last decade.
    fn default() -> Self {
        Self { asids: true, broadcast_asids: None }
    }
}

impl Processor {
    /// Reads `[processor]` and adds what it says to `sources`; `asids` counts as 1 or 0.
    pub(super) fn read(mut section: Section<'_>, sources: &mut Vec<Parameter>) -> Result<Self, MachineError> {
        let source = section.source()?;
        let mut processor = Self::default();
        let mut state = |key: &str, value: u32, unit: &str| {
            sources.push(Parameter {
                key: key.to_owned(),
                value: f64::from(value),
                unit: unit.to_owned(),
                source: source.clone(),
            });
        };
        if let Some(entry) = section.take_if_there("asids") {
            processor.asids = entry.flag()?;
            state(entry.place().key(), processor.asids.into(), "");
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
        section.finish()?;
        Ok(processor)
    }
}

#[cfg(test)]
mod tests {
    use super::super::document::{parse, Entry};
    use super::*;

    fn read(text: &str) -> Result<(Processor, Vec<Parameter>), String> {
        let mut sources = Vec::new();
        let text = format!("[processor]\nsource = 's'\n{text}");
        let section = parse("f", &text).and_then(|mut root| root.take("processor")).and_then(Entry::section);
        let processor = section.and_then(|section| Processor::read(section, &mut sources));
        processor.map(|processor| (processor, sources)).map_err(|error| error.to_string())
    }

    #[test]
    fn has_asids_and_no_broadcast_unless_told_otherwise() {
        assert_eq!(read(""), Ok((Processor::default(), Vec::new())));
        assert_eq!(Processor::default(), Processor { asids: true, broadcast_asids: None });
    }

    #[test]
    fn reads_what_is_told() {
        let (processor, sources) = read("broadcast_asids = 65536").expect("valid");
        assert_eq!(processor, Processor { asids: true, broadcast_asids: Some(65_536) });
        assert_eq!((sources[0].key.as_str(), sources[0].value as u32), ("processor.broadcast_asids", 65_536));
        let (processor, sources) = read("asids = false").expect("valid");
        assert_eq!(processor, Processor { asids: false, broadcast_asids: None });
        assert_eq!((sources[0].key.as_str(), sources[0].value as u32), ("processor.asids", 0));
    }

    #[test]
    fn refuses_what_no_processor_does() {
        for (text, expected) in [
            ("asids = 1", "f:3: processor.asids: expected true or false, found a whole number"),
            ("broadcast_asids = 0", "f:3: processor.broadcast_asids: 0: must be 1 to 65536"),
            ("broadcast_asids = 65537", "f:3: processor.broadcast_asids: 65537: must be 1 to 65536"),
            (
                "asids = false\nbroadcast_asids = 9",
                "f:4: processor.broadcast_asids: 9: must be left out where `asids` is false",
            ),
            ("x = 1", "f:3: processor.x: unknown key"),
        ] {
            assert_eq!(read(text).expect_err("must be refused"), expected);
        }
    }
}
