//! Writes recordings.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, Encoding, LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::{ColumnPath, Type};

use crate::events::{Name, Names, Spelled};
use crate::recording::anonymous::Anonymous;
use crate::recording::columns::{Cells, COLUMNS, NUMBERS, REQUIRED, TEXTS};
use crate::recording::error::RecordingError;
use crate::recording::facts::{Facts, VERSION};
use crate::recording::Row;

/// The number of rows that are written at once. They take some 100 MB until then.
const GROUP: usize = 1 << 19;

/// The key of the facts among the file's metadata.
pub(super) const FACTS: &str = "ceasefire.facts";

/// Writes a recording, event by event.
#[derive(Debug)]
pub struct Writer<W: Write + Send> {
    file: SerializedFileWriter<W>,
    rows: Rows,
    /// What replaces names and addresses, if they are to be.
    anonymous: Option<Anonymous>,
}

/// Rows that are not written yet, column by column.
#[derive(Debug, Default)]
struct Rows {
    times: Vec<i64>,
    small: [Vec<i64>; 3],
    texts: [Vec<Name>; 2],
    /// The values of each optional column, and 1 or 0 for each row.
    numbers: [(Vec<i64>, Vec<i16>); NUMBERS],
    optional_texts: [(Vec<Name>, Vec<i16>); TEXTS],
}

/// The schema of a recording.
fn schema() -> Result<Type, ParquetError> {
    let fields = COLUMNS.iter().map(|column| {
        let (physical, logical) = if column.is_text {
            (PhysicalType::BYTE_ARRAY, Some(LogicalType::String))
        } else {
            (PhysicalType::INT64, None)
        };
        let repetition = if column.is_required { Repetition::REQUIRED } else { Repetition::OPTIONAL };
        let field = Type::primitive_type_builder(column.name, physical);
        field.with_logical_type(logical).with_repetition(repetition).build().map(Arc::new)
    });
    Type::group_type_builder("recording").with_fields(fields.collect::<Result<_, _>>()?).build()
}

impl<W: Write + Send> Writer<W> {
    /// Begins a recording.
    ///
    /// # Errors
    /// If nothing can be written.
    pub fn new(to: W) -> Result<Self, RecordingError> {
        let time = ColumnPath::from("time_ns");
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .set_column_dictionary_enabled(time.clone(), false)
            .set_column_encoding(time, Encoding::DELTA_BINARY_PACKED)
            .build();
        let file = SerializedFileWriter::new(to, Arc::new(schema()?), Arc::new(properties))?;
        Ok(Self { file, rows: Rows::default(), anonymous: None })
    }

    /// Begins a recording that does not tell which programs ran: the names, the addresses and the facts that would are
    /// replaced.
    ///
    /// # Errors
    /// If nothing can be written.
    pub fn anonymous(to: W) -> Result<Self, RecordingError> {
        Ok(Self { anonymous: Some(Anonymous::default()), ..Self::new(to)? })
    }

    /// Adds an event. Events come in the order of time.
    ///
    /// # Errors
    /// If rows cannot be written.
    pub fn add(&mut self, row: &Row, names: &mut Names) -> Result<(), RecordingError> {
        let row = self.anonymous.as_mut().map_or(*row, |anonymous| anonymous.row(row, names));
        let (word, cells) = Cells::of(row.event.kind, names);
        let kind = names.add(word.word());
        let rows = &mut self.rows;
        rows.times.push(row.event.time_ns.cast_signed());
        for (column, value) in rows.small.iter_mut().zip([row.event.cpu, row.event.thread, row.process]) {
            column.push(value.into());
        }
        for (column, name) in rows.texts.iter_mut().zip([row.program, kind]) {
            column.push(name);
        }
        for ((values, levels), cell) in rows.numbers.iter_mut().zip(cells.numbers) {
            values.extend(cell);
            levels.push(cell.is_some().into());
        }
        for ((values, levels), cell) in rows.optional_texts.iter_mut().zip(cells.texts) {
            values.extend(cell);
            levels.push(cell.is_some().into());
        }
        if rows.times.len() >= GROUP {
            self.write(names)?;
        }
        Ok(())
    }

    fn write(&mut self, names: &Names) -> Result<(), RecordingError> {
        let rows = std::mem::take(&mut self.rows);
        let mut group = self.file.next_row_group()?;
        for at in 0..COLUMNS.len() {
            let Some(mut column) = group.next_column()? else {
                return Err(RecordingError::Damaged("fewer columns than fields".into()));
            };
            let text = |values: &[Name]| -> Vec<ByteArray> {
                values.iter().map(|name| ByteArray::from(names.get(*name))).collect()
            };
            match at {
                0 => column.typed::<Int64Type>().write_batch(&rows.times, None, None)?,
                1..4 => column.typed::<Int64Type>().write_batch(&rows.small[at - 1], None, None)?,
                4..REQUIRED => {
                    column.typed::<ByteArrayType>().write_batch(&text(&rows.texts[at - 4]), None, None)?
                }
                _ if at < REQUIRED + NUMBERS => {
                    let (values, levels) = &rows.numbers[at - REQUIRED];
                    column.typed::<Int64Type>().write_batch(values, Some(levels), None)?
                }
                _ => {
                    let (values, levels) = &rows.optional_texts[at - REQUIRED - NUMBERS];
                    column.typed::<ByteArrayType>().write_batch(&text(values), Some(levels), None)?
                }
            };
            column.close()?;
        }
        group.close()?;
        Ok(())
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn finish(mut self, facts: &Facts, names: &Names) -> Result<W, RecordingError> {
        if !self.rows.times.is_empty() {
            self.write(names)?;
        }
        let facts = if self.anonymous.is_some() { Anonymous::facts(facts) } else { facts.clone() };
        let facts = Facts { version: VERSION, ..facts };
        let text =
            serde_json::to_string(&facts).map_err(|error| RecordingError::Damaged(error.to_string()))?;
        self.file.append_key_value_metadata(KeyValue::new(FACTS.to_owned(), text));
        Ok(self.file.into_inner()?)
    }
}
