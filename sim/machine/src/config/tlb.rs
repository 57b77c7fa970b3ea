//! The geometry of a CPU's TLBs.

use serde::Serialize;

use super::mark::Origin;
use super::quantity::Parameter;
use super::{MachineError, Problem};
use crate::document::{Entry, Section};

/// The greatest number of entries of a TLB level or of the walk cache.
pub const MAX_ENTRIES: u32 = 65_536;

/// The TLBs of one CPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TlbGeometry {
    /// The first level, which every access asks.
    pub l1: TlbLevel,
    /// The first level for instructions; `None` if they share that of loads and stores.
    pub instruction: Option<TlbLevel>,
    /// The second level, asked when the first misses.
    pub l2: TlbLevel,
    /// The number of entries of the walk cache; 0 for a walker without one.
    pub walk_cache: u32,
}

/// One level of TLB: `entries / ways` sets, a power of two, of `ways` entries each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct TlbLevel {
    /// The number of entries.
    pub entries: u32,
    /// The number of entries in a set; `entries` for a fully associative level.
    pub ways: u32,
}

impl TlbLevel {
    /// A level of `entries` in sets of `ways`.
    ///
    /// # Errors
    /// No entries or more than [`MAX_ENTRIES`], no ways or more ways than entries, or a number of sets that is not a
    /// power of two.
    pub fn new(entries: u32, ways: u32) -> Result<Self, Problem> {
        if entries == 0 || entries > MAX_ENTRIES {
            return Err(Problem::invalid(
                format!("{entries} entries"),
                format!("1 to {MAX_ENTRIES} entries"),
            ));
        }
        if ways == 0 || ways > entries {
            return Err(Problem::invalid(format!("{ways} ways"), format!("1 to {entries} ways")));
        }
        if !entries.is_multiple_of(ways) || !(entries / ways).is_power_of_two() {
            let value = format!("{entries} entries in sets of {ways}");
            return Err(Problem::invalid(value, "a power of two of sets"));
        }
        Ok(Self { entries, ways })
    }

    /// The number of sets: a power of two.
    pub fn sets(self) -> u32 {
        self.entries / self.ways
    }
}

impl TlbGeometry {
    /// Reads `[tlb]` and adds its numbers to `sources`.
    pub(super) fn read(mut section: Section<'_>, sources: &mut Vec<Parameter>) -> Result<Self, MachineError> {
        let l1 = read_level(section.take("l1")?, sources)?;
        let instruction =
            section.take_if_there("instruction").map(|entry| read_level(entry, sources)).transpose()?;
        let l2 = read_level(section.take("l2")?, sources)?;
        let walk_cache = read_walk_cache(section.take("walk_cache")?, sources)?;
        section.finish()?;
        Ok(Self { l1, instruction, l2, walk_cache })
    }
}

fn read_level(entry: Entry<'_>, sources: &mut Vec<Parameter>) -> Result<TlbLevel, MachineError> {
    let mut section = entry.section()?;
    let place = section.place().clone();
    let entries = section.take("entries")?.count(0, u32::MAX)?;
    let ways = section.take("ways")?.count(0, u32::MAX)?;
    let origin = Origin::take(&mut section)?;
    section.finish()?;
    let level = TlbLevel::new(entries, ways).map_err(|problem| place.error(problem))?;
    for (key, value) in [("entries", entries), ("ways", ways)] {
        sources.push(parameter(place.key(), key, value, &origin));
    }
    Ok(level)
}

fn read_walk_cache(entry: Entry<'_>, sources: &mut Vec<Parameter>) -> Result<u32, MachineError> {
    let mut section = entry.section()?;
    let entries = section.take("entries")?.count(0, MAX_ENTRIES)?;
    let bound = |entry: &Entry<'_>| entry.count(0, MAX_ENTRIES).map(f64::from);
    let origin = Origin::take_with_range(&mut section, entries.into(), bound)?;
    sources.push(parameter(section.place().key(), "entries", entries, &origin));
    section.finish()?;
    Ok(entries)
}

fn parameter(section: &str, key: &str, value: u32, origin: &Origin) -> Parameter {
    Parameter::new(format!("{section}.{key}"), f64::from(value), key, origin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::parse;

    const LEVEL: &str = "{ entries = 64, ways = 4, source = 's' }";
    const WALK: &str = "{ entries = 32, source = 's' }";

    fn read(l1: &str, l2: &str, walk_cache: &str) -> Result<(TlbGeometry, Vec<Parameter>), String> {
        let text = format!("[tlb]\nl1 = {l1}\nl2 = {l2}\nwalk_cache = {walk_cache}\n");
        let mut sources = Vec::new();
        let section = parse("f", &text).and_then(|mut root| root.take("tlb")).and_then(Entry::section);
        let tlb = section.and_then(|section| TlbGeometry::read(section, &mut sources));
        tlb.map(|tlb| (tlb, sources)).map_err(|error| error.to_string())
    }

    #[test]
    fn both_levels_and_the_walk_cache_are_read() {
        let (tlb, sources) = read(LEVEL, "{ entries = 1536, ways = 12, source = 's' }", WALK).expect("valid");
        assert_eq!(tlb.l1, TlbLevel { entries: 64, ways: 4 });
        assert_eq!((tlb.l2.sets(), tlb.walk_cache), (128, 32));
        let keys: Vec<_> = sources.iter().map(|parameter| parameter.key.as_str()).collect();
        assert_eq!(
            keys,
            ["tlb.l1.entries", "tlb.l1.ways", "tlb.l2.entries", "tlb.l2.ways", "tlb.walk_cache.entries"]
        );
    }

    #[test]
    fn the_optional_level_for_instructions_is_read() {
        let level = |text: &str| read(&format!("{LEVEL}{text}"), LEVEL, WALK);
        assert_eq!(level("").expect("valid").0.instruction, None);
        let (tlb, sources) =
            level("\ninstruction = { entries = 256, ways = 8, source = 's' }").expect("valid");
        assert_eq!(tlb.instruction, Some(TlbLevel { entries: 256, ways: 8 }));
        assert!(sources.iter().any(|parameter| parameter.key == "tlb.instruction.ways"));
        assert_eq!(
            level("\ninstruction = 3").expect_err("must be refused"),
            "f:3: tlb.instruction: expected a table, found a whole number"
        );
    }

    #[test]
    fn full_associativity_is_allowed() {
        assert_eq!(TlbLevel::new(48, 48).map(TlbLevel::sets), Ok(1));
    }

    #[test]
    fn bad_levels_are_refused() {
        for (level, expected) in [
            ("{ entries = 0, ways = 4, source = 's' }", "f:2: tlb.l1: 0 entries: must be 1 to 65536 entries"),
            (
                "{ entries = 65537, ways = 4, source = 's' }",
                "f:2: tlb.l1: 65537 entries: must be 1 to 65536 entries",
            ),
            ("{ entries = 4, ways = 0, source = 's' }", "f:2: tlb.l1: 0 ways: must be 1 to 4 ways"),
            ("{ entries = 4, ways = 8, source = 's' }", "f:2: tlb.l1: 8 ways: must be 1 to 4 ways"),
            (
                "{ entries = 48, ways = 4, source = 's' }",
                "f:2: tlb.l1: 48 entries in sets of 4: must be a power of two of sets",
            ),
            (
                "{ entries = 64, ways = 5, source = 's' }",
                "f:2: tlb.l1: 64 entries in sets of 5: must be a power of two of sets",
            ),
            ("{ entries = 64, ways = 4 }", "f:2: tlb.l1.source: missing"),
            ("{ entries = 64, source = 's' }", "f:2: tlb.l1.ways: missing"),
            ("{ entries = 64, ways = 4, source = 's', x = 1 }", "f:2: tlb.l1.x: unknown key"),
        ] {
            assert_eq!(read(level, LEVEL, WALK).expect_err("must be refused"), expected);
        }
    }

    #[test]
    fn bad_walk_caches_are_refused() {
        let refused = |walk_cache| read(LEVEL, LEVEL, walk_cache).expect_err("must be refused");
        assert_eq!(refused("32"), "f:4: tlb.walk_cache: expected a table, found a whole number");
        assert_eq!(
            refused("{ entries = -1, source = 's' }"),
            "f:4: tlb.walk_cache.entries: -1: must be 0 to 65536"
        );
        assert_eq!(refused("{ entries = 32 }"), "f:4: tlb.walk_cache.source: missing");
    }
}
