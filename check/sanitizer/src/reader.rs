//! A report as it is read: whole, or as far as it was written.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read};
use std::path::Path;

use crate::find::{Find, Line, Summary};

/// What a report says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// The plugin has begun.
    pub is_begun: bool,
    /// The finds that were written, in their order.
    pub finds: Vec<Find>,
    /// What was seen. `None`: the emulator goes on, or was ended before it could say.
    pub end: Option<Summary>,
}

impl Reading {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        Self::along(File::open(path)?, |_| (), |_| ())
    }

    /// Reads to the end, and passes on each line at once, and each find. What follows a line that cannot be read does not
    /// count: the emulator was ended then, or is about to write it, or the disk was full.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn along(
        from: impl Read,
        mut line: impl FnMut(&[u8]),
        mut found: impl FnMut(&Find),
    ) -> io::Result<Self> {
        let mut from = BufReader::new(from);
        let (mut reading, mut text, mut is_cut) = (Self::default(), Vec::new(), false);
        loop {
            text.clear();
            if from.read_until(b'\n', &mut text)? == 0 {
                return Ok(reading);
            }
            line(&text);
            match serde_json::from_slice(&text) {
                _ if is_cut => {}
                Ok(Line::Begin { .. }) => reading.is_begun = true,
                Ok(Line::Find(find)) => {
                    found(&find);
                    reading.finds.push(*find);
                }
                Ok(Line::End(summary)) => reading.end = Some(summary),
                Err(_) => is_cut = true,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::find::{Kind, Place, Report};

    fn find(kind: Kind) -> Find {
        let place = Place { cpu: 0, time: 1, instruction: 2, callers: Vec::new() };
        Find::new(kind, place.clone(), 4096, 3, place)
    }

    #[test]
    fn what_a_rule_may_tell_apart_is_written_apart() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report");
        let mut report = Report::create(&path).expect("a file");
        let load = find(Kind::Reuse);
        let store = Find { store: true, ..load.clone() };
        let given = |instruction| {
            let place = Place { instruction, ..load.used.clone() };
            Find { given: Some(place), ..load.clone() }
        };
        let elsewhere = Find { address: 8192, ..load.clone() };
        for find in [load.clone(), store.clone(), given(7), given(8), elsewhere] {
            report.found(find);
        }
        let written = Reading::of(&path).expect("it is there").finds;
        assert_eq!(written, [load.clone(), store, given(7), given(8)]);
    }

    #[test]
    fn a_report_is_read_as_far_as_it_is_whole() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("report");
        assert!(Reading::of(&path).is_err());
        let mut report = Report::create(&path).expect("a file");
        assert_eq!(Reading::of(&path).expect("it is there"), Reading::default());
        report.write(&Line::Begin { target: "x86_64".to_owned(), cpus: 1 });
        report.found(find(Kind::Reuse));
        report.found(find(Kind::LateUse));
        let begun =
            Reading { is_begun: true, finds: [Kind::Reuse, Kind::LateUse].map(find).into(), end: None };
        assert_eq!(Reading::of(&path).expect("it is there"), begun);
        report.end(Summary { looks: 7, ..Summary::default() });
        let whole = Reading::of(&path).expect("it is there");
        assert_eq!((whole.finds.len(), whole.end.map(|end| end.looks)), (2, Some(7)));
        let text = fs::read_to_string(&path).expect("it is there");
        for cut in [text[..text.len() - 9].to_owned(), text.replacen("{\"end", "odd\n{\"end", 1)] {
            fs::write(&path, cut).expect("a file");
            assert_eq!(Reading::of(&path).expect("it is there"), begun);
        }
    }
}
