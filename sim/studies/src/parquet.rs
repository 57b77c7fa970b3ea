//! Tables as Parquet files, with one group of rows.

use std::borrow::Cow;
use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{ChunkReader, FileReader as _, SerializedFileReader};
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use ceasefire_experiments::{Cells, Column};

use crate::join::joined;

/// A table as a Parquet file. `facts` are the names and values of the file's own metadata.
///
/// # Errors
/// The columns are not equally long.
pub fn to_parquet(columns: &[Column], facts: &[(&str, String)]) -> Result<Vec<u8>> {
    let fields = columns.iter().map(|column| field(&column.cells, &column.name)).collect::<Result<_>>()?;
    let schema = Type::group_type_builder("results").with_fields(fields).build()?;
    let facts = facts.iter().map(|(key, value)| KeyValue::new((*key).to_owned(), value.clone())).collect();
    let properties = WriterProperties::builder().set_key_value_metadata(Some(facts)).build();
    let mut writer = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties))?;
    let mut group = writer.next_row_group()?;
    for column in columns {
        let Some(mut writer) = group.next_column()? else {
            return Err(ParquetError::General("fewer columns than fields".into()));
        };
        write(&column.cells, &mut writer)?;
        writer.close()?;
    }
    group.close()?;
    writer.into_inner()
}

/// The field of a column in the schema.
fn field(cells: &Cells, name: &str) -> Result<Arc<Type>> {
    let (physical, logical, repetition) = match cells {
        Cells::Text(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String), Repetition::REQUIRED),
        Cells::TextOrNone(_) => (PhysicalType::BYTE_ARRAY, Some(LogicalType::String), Repetition::OPTIONAL),
        Cells::Whole(_) => {
            let unsigned = LogicalType::integer(64, false);
            (PhysicalType::INT64, Some(unsigned), Repetition::REQUIRED)
        }
        Cells::Number(_) => (PhysicalType::DOUBLE, None, Repetition::REQUIRED),
        Cells::NumberOrNone(_) => (PhysicalType::DOUBLE, None, Repetition::OPTIONAL),
        Cells::Flag(_) => (PhysicalType::BOOLEAN, None, Repetition::REQUIRED),
    };
    let field = Type::primitive_type_builder(name, physical);
    field.with_logical_type(logical).with_repetition(repetition).build().map(Arc::new)
}

/// Writes a column.
fn write(cells: &Cells, writer: &mut SerializedColumnWriter<'_>) -> Result<usize> {
    // The definition levels of an optional column: 1 where there is a value.
    fn levels<T>(cells: &[Option<T>]) -> Vec<i16> {
        cells.iter().map(|cell| i16::from(cell.is_some())).collect()
    }
    let text = |text: &String| ByteArray::from(text.as_str());
    match cells {
        Cells::Text(cells) => {
            let cells: Vec<ByteArray> = cells.iter().map(text).collect();
            writer.typed::<ByteArrayType>().write_batch(&cells, None, None)
        }
        Cells::TextOrNone(cells) => {
            let known: Vec<ByteArray> = cells.iter().flatten().map(text).collect();
            writer.typed::<ByteArrayType>().write_batch(&known, Some(&levels(cells)), None)
        }
        Cells::Whole(cells) => {
            // The type says that the bits are those of an unsigned number.
            let cells: Vec<i64> = cells.iter().map(|cell| cell.cast_signed()).collect();
            writer.typed::<Int64Type>().write_batch(&cells, None, None)
        }
        Cells::Number(cells) => writer.typed::<DoubleType>().write_batch(cells, None, None),
        Cells::NumberOrNone(cells) => {
            let known: Vec<f64> = cells.iter().flatten().copied().collect();
            writer.typed::<DoubleType>().write_batch(&known, Some(&levels(cells)), None)
        }
        Cells::Flag(cells) => writer.typed::<BoolType>().write_batch(cells, None, None),
    }
}

/// The table of a Parquet file that [`to_parquet`] wrote, with the columns that are `wanted`. No other column is read.
///
/// # Errors
/// It is no such file, or cannot be read.
pub(crate) fn from_parquet(
    file: impl ChunkReader + 'static,
    wanted: impl Fn(&str) -> bool,
) -> Result<Vec<Column>> {
    let reader = SerializedFileReader::new(file)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let mut columns = Vec::new();
    for group in 0..reader.num_row_groups() {
        let group = reader.get_row_group(group)?;
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let mut read = Vec::new();
        for (place, described) in schema.columns().iter().enumerate().filter(|(_, one)| wanted(one.name())) {
            let cells = cells(described.max_def_level() > 0, group.get_column_reader(place)?, rows)?;
            read.push(Column { name: Cow::Owned(described.name().to_owned()), cells });
        }
        columns.push(read);
    }
    Ok(joined(columns))
}

/// The end of a Parquet file.
#[derive(Debug)]
pub(crate) struct Footer {
    /// The names and values of the file's own metadata.
    pub(crate) facts: Vec<(String, String)>,
    /// The number of rows.
    pub(crate) rows: usize,
}

/// Reads the end of a file.
///
/// # Errors
/// It is no Parquet file, or cannot be read.
pub(crate) fn footer(file: impl ChunkReader + 'static) -> Result<Footer> {
    let reader = SerializedFileReader::new(file)?;
    let metadata = reader.metadata().file_metadata();
    let fact = |fact: &KeyValue| Some((fact.key.clone(), fact.value.clone()?));
    Ok(Footer {
        facts: metadata.key_value_metadata().into_iter().flatten().filter_map(fact).collect(),
        rows: usize::try_from(metadata.num_rows()).unwrap_or(0),
    })
}

/// Reads a column.
fn cells(is_optional: bool, reader: ColumnReader, rows: usize) -> Result<Cells> {
    fn all<T: DataType>(mut reader: ColumnReaderImpl<T>, rows: usize) -> Result<Vec<T::T>> {
        let mut values = Vec::with_capacity(rows);
        reader.read_records(rows, None, None, &mut values)?;
        Ok(values)
    }
    // The values of an optional column, of which there are only those that are not missing.
    fn some<T: DataType>(mut reader: ColumnReaderImpl<T>, rows: usize) -> Result<Vec<Option<T::T>>> {
        let (mut levels, mut values) = (Vec::new(), Vec::new());
        reader.read_records(rows, Some(&mut levels), None, &mut values)?;
        let mut values = values.into_iter();
        Ok(levels.into_iter().map(|level| if level > 0 { values.next() } else { None }).collect())
    }
    let text = |bytes: ByteArray| bytes.as_utf8().map(str::to_owned);
    Ok(match (reader, is_optional) {
        (ColumnReader::ByteArrayColumnReader(reader), false) => {
            Cells::Text(all(reader, rows)?.into_iter().map(text).collect::<Result<_>>()?)
        }
        (ColumnReader::ByteArrayColumnReader(reader), true) => {
            let cells = some(reader, rows)?.into_iter().map(|cell| cell.map(text).transpose());
            Cells::TextOrNone(cells.collect::<Result<_>>()?)
        }
        (ColumnReader::Int64ColumnReader(reader), false) => {
            Cells::Whole(all(reader, rows)?.into_iter().map(i64::cast_unsigned).collect())
        }
        (ColumnReader::DoubleColumnReader(reader), false) => Cells::Number(all(reader, rows)?),
        (ColumnReader::DoubleColumnReader(reader), true) => Cells::NumberOrNone(some(reader, rows)?),
        (ColumnReader::BoolColumnReader(reader), false) => Cells::Flag(all(reader, rows)?),
        _ => return Err(ParquetError::General("a column of a type that no table has".into())),
    })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use parquet::record::Field;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let columns = [
            Column { name: "a".into(), cells: Cells::Text(vec!["x".into(), "y".into()]) },
            Column { name: "b".into(), cells: Cells::NumberOrNone(vec![None, Some(0.5)]) },
            Column { name: "c".into(), cells: Cells::Whole(vec![u64::MAX, 0]) },
            Column { name: "d".into(), cells: Cells::TextOrNone(vec![Some("z".into()), None]) },
            Column { name: "e".into(), cells: Cells::Flag(vec![true, false]) },
        ];
        let bytes = to_parquet(&columns, &[("seed", "1".into())]).expect("a file");
        let bytes = Bytes::from(bytes);
        assert_eq!(from_parquet(bytes.clone(), |_| true).expect("a table"), columns);
        let some = from_parquet(bytes.clone(), |name| name == "d").expect("a table");
        assert_eq!(some, columns[3..4]);
        let Footer { facts, rows } = footer(bytes.clone()).expect("a footer");
        assert_eq!((facts.contains(&("seed".into(), "1".into())), rows), (true, 2));
        let reader = SerializedFileReader::new(bytes).expect("a file");
        let rows: Vec<Vec<Field>> = reader
            .get_row_iter(None)
            .expect("rows")
            .map(|row| row.expect("a row").get_column_iter().map(|(_, field)| field.clone()).collect())
            .collect();
        let text = |text: &str| Field::Str(text.into());
        assert_eq!(
            rows,
            [
                vec![text("x"), Field::Null, Field::ULong(u64::MAX), text("z"), Field::Bool(true)],
                vec![text("y"), Field::Double(0.5), Field::ULong(0), Field::Null, Field::Bool(false)],
            ]
        );
    }
}
