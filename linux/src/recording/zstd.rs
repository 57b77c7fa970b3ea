//! Columns that another program compressed with zstd. The `parquet` crate would read them with a library in C; here they
//! are unpacked as the parts of imported files are.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::{get_column_reader, ColumnReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::reader::RowGroupReader;
use parquet::file::serialized_reader::SerializedPageReader;
use ruzstd::decoding::StreamingDecoder;

/// The most bytes that a page may have.
const LARGEST: u64 = 1 << 28;

/// Begins to read a column of a group.
pub(super) fn column(file: &Arc<File>, group: &dyn RowGroupReader, place: usize) -> Result<ColumnReader> {
    let chunk = group.metadata().column(place);
    if !matches!(chunk.compression(), Compression::ZSTD(_)) {
        return group.get_column_reader(place);
    }
    // Read as if it were not compressed, its pages are as they are in the file.
    let plain = chunk.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
    let rows = usize::try_from(group.metadata().num_rows())?;
    let pages = SerializedPageReader::new(Arc::clone(file), &plain, rows, None)?;
    Ok(get_column_reader(chunk.column_descr_ptr(), Box::new(Pages(pages))))
}

struct Pages(SerializedPageReader<File>);

impl Iterator for Pages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for Pages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        self.0.get_next_page()?.map(unpacked).transpose()
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.0.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0.skip_next_page()
    }
}

/// A page, unpacked. In pages of the second version the levels come first, as they are.
fn unpacked(mut page: Page) -> Result<Page> {
    let (buffer, levels) = match &mut page {
        Page::DataPage { buf, .. } | Page::DictionaryPage { buf, .. } => (buf, 0),
        Page::DataPageV2 { is_compressed: false, .. } => return Ok(page),
        Page::DataPageV2 { buf, def_levels_byte_len, rep_levels_byte_len, .. } => {
            (buf, u64::from(*def_levels_byte_len) + u64::from(*rep_levels_byte_len))
        }
    };
    let damaged = || ParquetError::General("a page compressed with zstd".into());
    let (levels, packed) = buffer.split_at_checked(levels as usize).ok_or_else(damaged)?;
    let mut bytes = levels.to_vec();
    // A page without values has nothing to unpack.
    if !packed.is_empty() {
        let decoder = StreamingDecoder::new(packed).map_err(|_| damaged())?;
        decoder.take(LARGEST).read_to_end(&mut bytes).map_err(|_| damaged())?;
    }
    *buffer = bytes.into();
    Ok(page)
}
