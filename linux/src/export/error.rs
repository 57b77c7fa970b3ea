//! Recordings that cannot be exported.

use std::fmt;
use std::io;

use crate::recording::RecordingError;

/// A recording that cannot be exported.
#[derive(Debug)]
pub enum ExportError {
    /// The recording cannot be read.
    Recording(RecordingError),
    /// The trace cannot be written.
    Write(io::Error),
}

impl From<RecordingError> for ExportError {
    fn from(error: RecordingError) -> Self {
        Self::Recording(error)
    }
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl fmt::Display for ExportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Recording(error) => error.fmt(f),
            Self::Write(error) => write!(f, "the trace cannot be written: {error}"),
        }
    }
}

impl std::error::Error for ExportError {}
