//! The table of figures as a Parquet file, with one group of rows.

use std::sync::Arc;

use parquet::basic::{LogicalType, Repetition, Type as PhysicalType};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;

use ceasefire_experiments::{Cells, Column};

/// The file's bytes. `facts` are the names and values of the file's own metadata.
pub(super) fn bytes(columns: &[Column], facts: &[(&str, String)]) -> Result<Vec<u8>> {
    let fields = columns.iter().map(|column| field(&column.cells, column.name)).collect::<Result<_>>()?;
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

#[cfg(test)]
mod tests {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;

    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let columns = [
            Column { name: "a", cells: Cells::Text(vec!["x".into(), "y".into()]) },
            Column { name: "b", cells: Cells::NumberOrNone(vec![None, Some(0.5)]) },
            Column { name: "c", cells: Cells::Whole(vec![u64::MAX, 0]) },
            Column { name: "d", cells: Cells::TextOrNone(vec![Some("z".into()), None]) },
            Column { name: "e", cells: Cells::Flag(vec![true, false]) },
        ];
        let bytes = bytes(&columns, &[("seed", "1".into())]).expect("a file");
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).expect("a file");
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
        let facts = reader.metadata().file_metadata().key_value_metadata().expect("facts");
        assert!(facts.iter().any(|fact| fact.key == "seed" && fact.value.as_deref() == Some("1")));
    }
}
