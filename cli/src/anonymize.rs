//! `ceasefire anonymize`: a recording that strangers may have.

use std::fs::File;
use std::io::{BufWriter, Write as _};

use ceasefire_linux::recording::{anonymize, Recording, RecordingError};

use crate::args::AnonymizeArguments;
use crate::failure::{Done, Failure};
use crate::output::distinct::distinct;
use crate::output::replacement::Place;
use crate::stdout::print;

pub(crate) fn run(arguments: &AnonymizeArguments) -> Done {
    let AnonymizeArguments { recording: path, output } = arguments;
    let output = output.clone().unwrap_or_else(|| path.with_extension("anonymous.parquet"));
    distinct([("the recording", Some(path.as_path())), ("--output", Some(output.as_path()))])?;
    let unreadable = |error: RecordingError| Failure::Input(format!("{}: {error}", path.display()));
    let mut recording = Recording::open(path).map_err(unreadable)?;
    let place = Place::check(&output)?.stream()?;
    let unwritable = |error| Failure::writing(output.display(), &error);
    let file = File::create(place.path()).map_err(unwritable)?;
    let mut to = anonymize(&mut recording, BufWriter::new(file)).map_err(|error| match error {
        RecordingError::Io(error) => unwritable(error),
        error => unreadable(error),
    })?;
    to.flush().map_err(unwritable)?;
    print(&format!("written: {}\n", place.finish_beside_former()?))
}
