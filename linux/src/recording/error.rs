//! Recordings that cannot be written or read.

use std::fmt;
use std::io;

use parquet::errors::ParquetError;

use crate::recording::facts::Foreign;

/// A recording that cannot be written or read.
#[derive(Debug)]
pub enum RecordingError {
    /// The file could not be written or read.
    Io(io::Error),
    /// The file is no Parquet file.
    NotParquet,
    /// The file is damaged.
    Damaged(String),
    /// The file is compressed in a way that is not read. Another program wrote it anew.
    Compressed,
    /// The file is a Parquet file but no recording.
    NotARecording {
        /// What it lacks.
        lacks: String,
    },
    /// The file is of another program, and can be imported.
    Foreign(Foreign),
    /// The recording was made by a later version, whose meaning may differ.
    Later {
        /// Its version.
        version: u32,
        /// The latest version that is understood.
        known: u32,
    },
}

impl From<io::Error> for RecordingError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<ParquetError> for RecordingError {
    fn from(error: ParquetError) -> Self {
        match error {
            ParquetError::External(error) => match error.downcast::<io::Error>() {
                Ok(error) => Self::Io(*error),
                Err(error) => Self::Damaged(error.to_string()),
            },
            // The codecs that are compiled in are Snappy, gzip and LZ4.
            ParquetError::General(reason) if reason.starts_with("Disabled feature") => Self::Compressed,
            error => Self::Damaged(error.to_string()),
        }
    }
}

impl fmt::Display for RecordingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::NotParquet => f.write_str("it is no recording: not a Parquet file"),
            Self::Damaged(reason) => write!(f, "the recording is damaged: {reason}"),
            Self::Compressed => f.write_str(
                "the recording was written anew by another program, compressed in a way that is not read here: write it \
                 with Snappy or uncompressed",
            ),
            Self::NotARecording { lacks } => write!(f, "this Parquet file is no recording: it has no {lacks}"),
            Self::Foreign(kind) => {
                write!(f, "it is a {} file, not a recording: use 'ceasefire import FILE' first", kind.name())
            }
            Self::Later { version, known } => write!(
                f,
                "the recording has version {version} of the format, and this program knows up to {known}: use a later \
                 ceasefire"
            ),
        }
    }
}

impl std::error::Error for RecordingError {}
