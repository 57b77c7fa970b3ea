//! Reads recordings.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use parquet::data_type::{ByteArrayType, DataType, Int64Type};
use parquet::file::reader::{FileReader as _, SerializedFileReader};

use crate::events::Names;
use crate::guarded::guarded;
use crate::recording::columns::COLUMNS;
use crate::recording::error::RecordingError;
use crate::recording::facts::{Facts, Foreign, Loss, VERSION};
use crate::recording::rows::{Rows, LATEST_NS};
use crate::recording::words::Meanings;
use crate::recording::write::FACTS;
use crate::recording::Row;

/// The CPUs of the largest machine that is believed. Tables are made for each.
pub(crate) const MOST_CPUS: u32 = 1 << 16;

/// The first bytes of a Parquet file.
const PARQUET: &[u8] = b"PAR1";

/// The number of rows that are read at once.
const BATCH: usize = 1 << 14;

/// A recording that is read from its beginning to its end.
pub struct Recording {
    pages: Arc<File>,
    file: SerializedFileReader<File>,
    facts: Facts,
    /// The place of each of [`COLUMNS`] in the file; none if it is absent.
    places: Vec<Option<usize>>,
    lost: Loss,
}

impl std::fmt::Debug for Recording {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Recording").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Recording {
    /// Opens a recording.
    ///
    /// # Errors
    /// If the file cannot be read or is no recording.
    pub fn open(path: &Path) -> Result<Self, RecordingError> {
        let file = File::open(path)?;
        let mut beginning = Vec::new();
        (&file).take(Foreign::BEGINNING).read_to_end(&mut beginning)?;
        if let Some(kind) = Foreign::of(&beginning) {
            return Err(RecordingError::Foreign(kind));
        }
        if !beginning.starts_with(PARQUET) {
            return Err(RecordingError::NotParquet);
        }
        let pages = Arc::new(file.try_clone()?);
        let file = damaged(|| Ok(SerializedFileReader::new(file)?))?;
        let metadata = file.metadata().file_metadata();
        let facts = metadata.key_value_metadata().into_iter().flatten().find(|pair| pair.key == FACTS);
        let facts = facts.and_then(|pair| pair.value.as_deref());
        let facts =
            facts.ok_or_else(|| RecordingError::NotARecording { lacks: "facts of a recording".into() })?;
        let facts: Facts =
            serde_json::from_str(facts).map_err(|error| RecordingError::Damaged(error.to_string()))?;
        if facts.version > VERSION {
            return Err(RecordingError::Later { version: facts.version, known: VERSION });
        }
        let cpu = facts.cpus.iter().map(|(cpu, _)| *cpu).chain(facts.isolated.iter().copied()).max();
        if let Some(cpu) = cpu.filter(|cpu| *cpu >= MOST_CPUS) {
            let reason = format!(
                "it is of a machine with CPU {cpu}, and must be of one with at most {MOST_CPUS} CPUs"
            );
            return Err(RecordingError::Damaged(reason));
        }
        if let Some(time) = [facts.began_ns, facts.ended_ns].into_iter().find(|time| *time >= LATEST_NS) {
            let reason =
                format!("it is of {time} ns after the machine's start, and must be of less than {LATEST_NS}");
            return Err(RecordingError::Damaged(reason));
        }
        let schema = metadata.schema_descr();
        let mut places = Vec::new();
        for column in COLUMNS {
            let fits = |place: &usize| {
                let found = schema.column(*place);
                let (level, physical) = (found.max_def_level(), found.physical_type());
                let is_optional = level == 1 && found.max_rep_level() == 0;
                let expected = if column.is_text {
                    ByteArrayType::get_physical_type()
                } else {
                    Int64Type::get_physical_type()
                };
                found.path().string() == column.name
                    && physical == expected
                    && (is_optional || column.is_required && level == 0)
            };
            let place = (0..schema.num_columns()).find(fits);
            if place.is_none() && column.is_required {
                return Err(RecordingError::NotARecording { lacks: format!("column '{}'", column.name) });
            }
            places.push(place);
        }
        Ok(Self { pages, file, facts, places, lost: Loss::default() })
    }

    /// The facts about the recording.
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The number of events.
    pub fn len(&self) -> u64 {
        let rows = self.file.metadata().row_groups().iter().map(|group| group.num_rows().cast_unsigned());
        rows.fold(0, u64::saturating_add)
    }

    /// Whether it has no event.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was lost while it was made, and the rows that could not be read so far.
    pub fn lost(&self) -> Loss {
        Loss { unreadable: self.facts.lost.unreadable + self.lost.unreadable, ..self.facts.lost.clone() }
    }

    /// Calls `visit` with each row, in order. Times never go back: in a damaged file, a row with an earlier time than the
    /// one before it gets that one's.
    ///
    /// # Errors
    /// If the file is damaged, or `visit` fails. The rows before were visited.
    pub fn each<E: From<RecordingError>>(
        &mut self,
        names: &mut Names,
        mut visit: impl FnMut(Row, &mut Names) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut last_ns = 0;
        let mut meanings = Meanings::default();
        for group in 0..self.file.num_row_groups() {
            let (count, mut rows) = damaged(|| {
                let group = self.file.get_row_group(group)?;
                let rows = group.metadata().num_rows().cast_unsigned() as usize;
                Ok((rows, Rows::open(&self.pages, &*group, &self.places)?))
            })?;
            let mut left = count;
            while left > 0 {
                let count = damaged(|| rows.read(left.min(BATCH), names))?;
                meanings.learn(names);
                left -= count;
                for at in 0..count {
                    match rows.row(at, &meanings) {
                        Some(mut row) => {
                            last_ns = row.event.time_ns.max(last_ns);
                            row.event.time_ns = last_ns;
                            visit(row, names)?;
                        }
                        None => self.lost.unreadable += 1,
                    }
                }
            }
        }
        Ok(())
    }
}

/// Reads a part of a file. A library that panics says that the file is damaged.
fn damaged<R>(read: impl FnOnce() -> Result<R, RecordingError>) -> Result<R, RecordingError> {
    guarded(read).unwrap_or_else(|reason| Err(RecordingError::Damaged(reason)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use proptest::prelude::*;

    use super::*;
    use crate::events::{Event, FlushReason, Kind, LockKind, MigrationReason, SystemCall, Work};
    use crate::recording::Writer;

    fn kinds() -> impl Strategy<Value = Kind> {
        let mut names = Names::default();
        let name = names.add("some_function");
        let works = prop::sample::select(vec![Work::Flush, Work::FlushAll, Work::Other]);
        prop_oneof![
            (any::<u32>(), works.clone(), 0..1_u64 << 50).prop_map(move |(target, work, call)| Kind::Sent {
                target,
                work,
                call,
                site: name
            }),
            (works, any::<u64>()).prop_map(|(work, call)| Kind::HandlerBegan { work, call }),
            any::<Option<u64>>().prop_map(|pages| Kind::Flush { reason: FlushReason::RemoteSend, pages }),
            any::<u32>().prop_map(|next| Kind::Switch { next }),
            (any::<u64>(), any::<u64>()).prop_map(|(address, code)| Kind::Fault { address, code }),
            any::<i64>().prop_map(|result| Kind::CallEnded { call: SystemCall::Munmap, result }),
            (any::<u64>(), any::<u64>()).prop_map(|(moved, failed)| Kind::MigrationEnded {
                reason: MigrationReason::Demotion,
                moved,
                failed
            }),
            Just(Kind::ReclaimBegan),
            any::<bool>().prop_map(|done| Kind::Collapsed { done }),
            any::<u64>().prop_map(|lock| Kind::WaitBegan { lock, kind: LockKind::SleepWrite }),
            (any::<u64>(), any::<i64>()).prop_map(|(lock, result)| Kind::WaitEnded { lock, result }),
            (any::<u32>(), any::<bool>()).prop_map(move |(thread, same_process)| Kind::ThreadBegan {
                thread,
                same_process,
                name
            }),
            Just(Kind::Stack { functions: name }),
            any::<u64>().prop_map(|events| Kind::Lost { events }),
        ]
    }

    fn write(rows: &[Row], names: &mut Names) -> Vec<u8> {
        let mut writer = Writer::new(Vec::new()).expect("memory");
        for row in rows {
            writer.add(row, names).expect("memory");
        }
        writer.finish(&Facts { kernel: "Linux".into(), ..Facts::default() }, names).expect("memory")
    }

    fn open(bytes: &[u8]) -> Result<Recording, RecordingError> {
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(bytes).expect("room");
        Recording::open(file.path())
    }

    fn rows(recording: &mut Recording, names: &mut Names) -> Result<Vec<Row>, RecordingError> {
        let mut rows = Vec::new();
        recording.each::<RecordingError>(names, |row, _| {
            rows.push(row);
            Ok(())
        })?;
        Ok(rows)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_recording_gives_the_rows_that_were_written(
            events in prop::collection::vec((0..MOST_CPUS, any::<u32>(), any::<u32>(), kinds()), 0..200)
        ) {
            let mut names = Names::default();
            let program = names.add("some_function");
            let rows_of = |(at, (cpu, thread, process, kind)): (usize, &(u32, u32, u32, Kind))| Row {
                event: Event { time_ns: at as u64, cpu: *cpu, thread: *thread, kind: *kind },
                process: *process,
                program,
            };
            let written: Vec<Row> = events.iter().enumerate().map(rows_of).collect();
            let mut recording = open(&write(&written, &mut names)).expect("a recording");
            prop_assert_eq!(rows(&mut recording, &mut names).expect("whole"), written);
            prop_assert!(recording.lost().is_none());
        }

        #[test]
        fn a_damaged_recording_is_read_or_refused(at in 0_usize..3000, byte: u8, cut in 0_usize..3000) {
            let mut names = Names::default();
            let program = names.add("some_function");
            let kind = Kind::Sent { target: 1, work: Work::Flush, call: 2, site: program };
            let row = |time_ns| Row { event: Event { time_ns, cpu: 0, thread: 1, kind }, process: 1, program };
            let mut bytes = write(&(0..50).map(row).collect::<Vec<_>>(), &mut names);
            let at = at % bytes.len();
            bytes[at] ^= byte;
            for bytes in [&bytes[..], &bytes[..bytes.len() - cut % bytes.len()]] {
                // It need not notice: it must not panic, nor give more than there is.
                if let Ok(mut recording) = open(bytes) {
                    if let Ok(rows) = rows(&mut recording, &mut names) {
                        prop_assert!(rows.len() as u64 <= recording.len());
                    }
                }
            }
        }
    }

    #[test]
    fn machines_that_cannot_be_are_not_believed() {
        let mut names = Names::default();
        let program = names.add("program");
        let kind = Kind::ReclaimBegan;
        let row = |cpu| Row { event: Event { time_ns: 1, cpu, thread: 1, kind }, process: 1, program };
        let mut recording = open(&write(&[row(1), row(u32::MAX), row(2)], &mut names)).expect("a recording");
        assert_eq!(rows(&mut recording, &mut names).expect("whole"), [row(1), row(2)]);
        assert_eq!(recording.lost().unreadable, 1);
        let writer = Writer::new(Vec::new()).expect("memory");
        let facts = Facts { cpus: vec![(0, 0), (u32::MAX, 0)], ..Facts::default() };
        let error = open(&writer.finish(&facts, &names).expect("memory")).expect_err("too many CPUs");
        assert!(error.to_string().contains("CPU 4294967295"), "{error}");
        let late = Row { event: Event { time_ns: LATEST_NS, ..row(1).event }, ..row(1) };
        let mut recording = open(&write(&[row(1), late], &mut names)).expect("a recording");
        assert_eq!(rows(&mut recording, &mut names).expect("whole"), [row(1)]);
        let writer = Writer::new(Vec::new()).expect("memory");
        let facts = Facts { ended_ns: LATEST_NS, ..Facts::default() };
        let error = open(&writer.finish(&facts, &names).expect("memory")).expect_err("too late");
        assert!(error.to_string().contains("576460752303423488 ns"), "{error}");
    }

    #[test]
    fn other_files_are_refused_in_one_line() {
        for (bytes, part) in [
            (&b""[..], "it is no recording: not a Parquet file"),
            (b"PAR", "it is no recording: not a Parquet file"),
            (b"PAR1", "the recording is damaged"),
            (b"PAR1PAR1", "the recording is damaged"),
            (&[0; 5000], "it is no recording: not a Parquet file"),
        ] {
            let error = open(bytes).expect_err("no recording").to_string();
            assert!(error.starts_with(part) && !error.contains('\n'), "{error}");
        }
    }
}
