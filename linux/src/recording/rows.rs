//! Rows of a recording, which are read column by column.

use std::fs::File;
use std::sync::Arc;

use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::file::reader::RowGroupReader;
use parquet::file::statistics::Statistics;

use crate::events::{Event, Name, Names};
use crate::recording::columns::{kind, Number, Optional, Text, COLUMNS, NUMBERS, REQUIRED, TEXTS};
use crate::recording::error::RecordingError;
use crate::recording::read::MOST_CPUS;
use crate::recording::words::Meanings;
use crate::recording::{zstd, Row};

/// The time since a machine's start, in nanoseconds, from which no recording is believed: 18 years.
pub(crate) const LATEST_NS: u64 = 1 << 59;

/// A row's optional columns that have a value, one bit each.
type Present = u32;

const _: () = assert!(NUMBERS + TEXTS <= Present::BITS as usize);

/// A column, and its values in the rows that were read.
struct Column<T: DataType, V> {
    /// None if no row of the group has a value.
    reader: Option<ColumnReaderImpl<T>>,
    values: Vec<V>,
}

type Numbers = Column<Int64Type, i64>;
type Texts = Column<ByteArrayType, Name>;

impl<T: DataType, V: Copy> Column<T, V> {
    /// Begins to read a column of a group. `place` is that in the file, if the file has the column.
    fn open(
        file: &Arc<File>,
        group: &dyn RowGroupReader,
        place: Option<usize>,
        column: &super::Column,
    ) -> Result<Self, RecordingError> {
        let has_values = |place: &usize| {
            let chunk = group.metadata().column(*place);
            let nulls = chunk.statistics().and_then(Statistics::null_count_opt);
            column.is_required || nulls != Some(chunk.num_values().cast_unsigned())
        };
        let open = |place| {
            let changes = || RecordingError::Damaged(format!("column '{}' changes its type", column.name));
            T::get_column_reader(zstd::column(file, group, place)?).ok_or_else(changes)
        };
        Ok(Self { reader: place.filter(has_values).map(open).transpose()?, values: Vec::new() })
    }

    fn get(&self, at: usize) -> Option<V> {
        self.values.get(at).copied()
    }
}

impl Numbers {
    /// Reads up to `most` rows. Returns how many, if the group has values.
    fn read(&mut self, most: usize, levels: Option<&mut Vec<i16>>) -> Result<Option<usize>, RecordingError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        self.values.clear();
        Ok(Some(reader.read_records(most, levels, None, &mut self.values)?.0))
    }
}

impl Texts {
    /// Reads up to `most` rows. Returns how many, if the group has values.
    fn read(
        &mut self,
        most: usize,
        levels: Option<&mut Vec<i16>>,
        texts: &mut Vec<ByteArray>,
        names: &mut Names,
    ) -> Result<Option<usize>, RecordingError> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        texts.clear();
        let (read, ..) = reader.read_records(most, levels, None, texts)?;
        self.values.clear();
        add_all(texts, names, &mut self.values);
        Ok(Some(read))
    }
}

/// The columns of a group of rows, of which some rows were read.
pub(super) struct Rows {
    /// The time, the CPU, the thread and the process.
    times: Numbers,
    cpus: Numbers,
    threads: Numbers,
    processes: Numbers,
    programs: Texts,
    events: Texts,
    numbers: Vec<Numbers>,
    texts: Vec<Texts>,
    /// Of each row, the optional columns that have a value.
    present: Vec<Present>,
    /// Of each optional column, the number of values in the rows that were asked for.
    taken: [usize; NUMBERS + TEXTS],
    /// Room for what a column reads.
    levels: Vec<i16>,
    bytes: Vec<ByteArray>,
}

impl Rows {
    /// Begins to read a group. `places` are those of [`COLUMNS`] in the file.
    pub(super) fn open(
        file: &Arc<File>,
        group: &dyn RowGroupReader,
        places: &[Option<usize>],
    ) -> Result<Self, RecordingError> {
        let numbers = |column: usize| Numbers::open(file, group, places[column], &COLUMNS[column]);
        let texts = |column: usize| Texts::open(file, group, places[column], &COLUMNS[column]);
        Ok(Self {
            times: numbers(0)?,
            cpus: numbers(1)?,
            threads: numbers(2)?,
            processes: numbers(3)?,
            programs: texts(4)?,
            events: texts(5)?,
            numbers: (REQUIRED..REQUIRED + NUMBERS).map(numbers).collect::<Result<_, _>>()?,
            texts: (REQUIRED + NUMBERS..COLUMNS.len()).map(texts).collect::<Result<_, _>>()?,
            present: Vec::new(),
            taken: [0; NUMBERS + TEXTS],
            levels: Vec::new(),
            bytes: Vec::new(),
        })
    }

    /// Reads up to `most` rows of every column, and returns how many.
    pub(super) fn read(&mut self, most: usize, names: &mut Names) -> Result<usize, RecordingError> {
        let levels = &mut self.levels;
        // Other programs write every column as optional.
        let full = |levels: &mut Vec<i16>| {
            let lacks = RecordingError::Damaged("a row without a value that each row has".into());
            levels.drain(..).all(|level| level > 0).then_some(()).ok_or(lacks)
        };
        let count = self.times.read(most, Some(levels))?.unwrap_or(0);
        full(levels)?;
        let check = |read: Option<usize>| match read {
            Some(read) if read != count || read == 0 => {
                Err(RecordingError::Damaged("columns of different lengths".into()))
            }
            read => Ok(read.is_some()),
        };
        for column in [&mut self.cpus, &mut self.threads, &mut self.processes] {
            check(column.read(most, Some(levels))?)?;
            full(levels)?;
        }
        for column in [&mut self.programs, &mut self.events] {
            check(column.read(most, Some(levels), &mut self.bytes, names)?)?;
            full(levels)?;
        }
        self.taken.fill(0);
        self.present.clear();
        self.present.resize(count, 0);
        let mut add = |levels: &mut Vec<i16>, bit: usize| {
            for (present, level) in self.present.iter_mut().zip(levels.drain(..)) {
                *present |= Present::from(level > 0) << bit;
            }
        };
        for (bit, column) in self.numbers.iter_mut().enumerate() {
            check(column.read(most, Some(&mut self.levels))?)?;
            add(&mut self.levels, bit);
        }
        for (bit, column) in self.texts.iter_mut().enumerate() {
            check(column.read(most, Some(&mut self.levels), &mut self.bytes, names)?)?;
            add(&mut self.levels, NUMBERS + bit);
        }
        Ok(count)
    }

    /// The row at a place among those that were read; none if it makes no sense. Places are asked for in order.
    pub(super) fn row(&mut self, at: usize, meanings: &Meanings) -> Option<Row> {
        let present = *self.present.get(at)?;
        let row = self.required(at, &Cells { rows: self, present }, meanings);
        let mut left = present;
        while left != 0 {
            self.taken[left.trailing_zeros() as usize] += 1;
            left &= left - 1;
        }
        row
    }

    fn required(&self, at: usize, cells: &Cells, meanings: &Meanings) -> Option<Row> {
        let small = |column: &Numbers| u32::try_from(column.get(at)?).ok();
        let kind = kind(meanings.get(self.events.get(at)?)?.event?, cells, meanings)?;
        let cpu = small(&self.cpus).filter(|cpu| *cpu < MOST_CPUS)?;
        let time_ns = u64::try_from(self.times.get(at)?).ok().filter(|time| *time < LATEST_NS)?;
        let event = Event { time_ns, cpu, thread: small(&self.threads)?, kind };
        Some(Row { event, process: small(&self.processes)?, program: self.programs.get(at)? })
    }
}

/// The optional columns of the row that is asked for.
struct Cells<'a> {
    rows: &'a Rows,
    present: Present,
}

impl Optional for Cells<'_> {
    #[inline]
    fn number(&self, column: Number) -> Option<i64> {
        let column = column as usize;
        let has = self.present >> column & 1 != 0;
        has.then(|| self.rows.numbers[column].get(self.rows.taken[column])).flatten()
    }

    #[inline]
    fn text(&self, column: Text) -> Option<Name> {
        let column = column as usize;
        let has = self.present >> (NUMBERS + column) & 1 != 0;
        has.then(|| self.rows.texts[column].get(self.rows.taken[NUMBERS + column])).flatten()
    }
}

/// Adds texts to the names, and their numbers to `numbers`.
///
/// Equal texts of a dictionary are the same bytes in memory, which the texts keep: so few are looked up.
fn add_all(texts: &[ByteArray], names: &mut Names, numbers: &mut Vec<Name>) {
    const KNOWN: usize = 64;
    let mut known: [Option<(*const u8, usize, Name)>; KNOWN] = [None; KNOWN];
    numbers.extend(texts.iter().map(|text| {
        let bytes = text.data();
        let (at, length) = (bytes.as_ptr(), bytes.len());
        let slot = &mut known[(at.addr() >> 2) % KNOWN];
        match *slot {
            Some((known_at, known_length, name)) if (known_at, known_length) == (at, length) => name,
            _ => {
                let name = names.add(&String::from_utf8_lossy(bytes));
                *slot = Some((at, length, name));
                name
            }
        }
    }));
}
