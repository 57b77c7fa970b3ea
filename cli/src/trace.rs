//! The trace of a recording: the file of `--trace`.

use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use ceasefire_linux::export::{export, ExportError};
use ceasefire_linux::recording::Recording;
use ceasefire_machine::TraceFormat;

use crate::failure::{Done, Failure};
use crate::output::replacement::{Place, Stream};
use crate::output::text;

/// The file of a trace.
pub(crate) struct Trace {
    shown: String,
    stream: Stream,
}

impl Trace {
    /// Checks that the file that a path names can be written, and that its name stands for Perfetto's format: recordings
    /// have no other one. Called before the work, so a wrong path fails at once.
    pub(crate) fn check(path: &Path) -> Result<Self, Failure> {
        text::is_file("--trace", Some(path))?;
        let shown = path.display().to_string();
        if TraceFormat::of(path) != TraceFormat::Perfetto {
            return Err(Failure::Input(format!(
                "{shown}: --trace of a recording writes Perfetto's format alone: the name must end in .pftrace or \
                 .perfetto-trace"
            )));
        }
        Ok(Self { stream: Place::check(path)?.stream()?, shown })
    }

    /// Writes the trace of a recording.
    pub(crate) fn write(self, recording: &Path) -> Done {
        let Self { shown, stream } = self;
        let failed = |error| match error {
            ExportError::Write(error) => Failure::writing(&shown, &error),
            ExportError::Recording(error) => Failure::Input(format!("{}: {error}", recording.display())),
        };
        let mut recording = Recording::open(recording).map_err(|error| failed(error.into()))?;
        let file = File::create(stream.path()).map_err(|error| failed(error.into()))?;
        export(&mut recording, BufWriter::new(file)).map_err(failed)?;
        stream.finish()
    }
}

/// Refuses a recording that is no file, for an option that reads it again.
pub(crate) fn is_read_again(option: &str, recording: &Path) -> Done {
    if recording.exists() && !recording.is_file() {
        let shown = recording.display();
        return Err(Failure::Input(format!(
            "{shown}: {option} needs a recording in a file that can be read again"
        )));
    }
    Ok(())
}
