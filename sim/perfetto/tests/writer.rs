//! A written trace, as an independent reader finds it.

mod reader;

use ceasefire_perfetto::{Argument, Slice, Track, Writer};
use reader::Trace;

/// The tracks of these tests.
const HEAD: u64 = 1;
const SLICES: u64 = 2;
const COUNTER: u64 = 3;

fn track(id: u64) -> Track {
    Track {
        id,
        name: format!("track {id}"),
        parent: (id != HEAD).then_some(HEAD),
        rank: 0,
        is_counter: id == COUNTER,
    }
}

fn slice(name: &str) -> Slice {
    Slice { name: name.to_owned(), ..Slice::default() }
}

#[test]
fn a_reader_finds_every_part_of_a_trace() {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes);
    let mut write = || {
        for id in [HEAD, SLICES, COUNTER, SLICES] {
            writer.describe(track(id))?;
        }
        let arguments = vec![Argument::number("pages", u64::MAX), Argument::signed("result", -12)];
        writer.begin(10, SLICES, Slice { arguments, flows: vec![7, 8], ..slice("outer") })?;
        writer.begin(11, SLICES, Slice { ending_flows: vec![7], ..slice("inner") })?;
        writer.instant(12, SLICES, Slice { category: Some("instants".to_owned()), ..slice("now") })?;
        writer.count(12, COUNTER, 5)?;
        writer.end(13, SLICES, Vec::new())?;
        writer.end(20, SLICES, vec![Argument::text("cause", "munmap")])?;
        writer.flush()
    };
    write().expect("memory");
    let trace = Trace::of(&bytes);
    assert_eq!(trace.tracks[&HEAD], ("track 1".to_owned(), None));
    assert_eq!(trace.tracks[&SLICES], ("track 2".to_owned(), Some(HEAD)));
    assert_eq!(trace.counters[&COUNTER], [(12, 5)]);
    let found: Vec<_> = trace
        .slices
        .iter()
        .map(|slice| (slice.name.as_str(), slice.depth, slice.is_instant, slice.begins, slice.ends))
        .collect();
    assert_eq!(
        found,
        [
            ("outer", 0, false, 10, Some(20)),
            ("inner", 1, false, 11, Some(13)),
            ("now", 2, true, 12, Some(12))
        ]
    );
    assert_eq!(
        (trace.slices[0].flows_out.as_slice(), trace.slices[1].flows_in.as_slice()),
        (&[7, 8][..], &[7][..])
    );
    let arguments: Vec<_> =
        trace.slices[0].arguments.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(arguments, [("cause", "munmap"), ("pages", "18446744073709551615"), ("result", "-12")]);
}
