//! The events of the running kernel, through the file system tracefs.
//!
//! An [`Instance`] is a set of buffers of its own, one for each CPU, so that no other user of tracing is disturbed. It
//! goes when it is dropped. If the program that made it was killed, the next one that makes an instance removes it.
//!
//! `format` reads the kernel's description of an event, and `page` the pages of its buffers. Nothing is assumed about
//! the layout of either.

mod error;
mod format;
mod instance;
mod page;

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

pub use error::Unavailable;
pub use format::{Field, Format, FormatError};
pub use instance::{Instance, Stream};
pub use page::{Layout, Missed, Page};

/// The places where tracefs is mounted (Documentation/trace/ftrace.rst).
const PLACES: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// The size of the buffer for a file. The longest format known has 14 kB.
const LONGEST: usize = 1 << 18;

/// The mounted tracefs.
#[derive(Debug, Clone)]
pub struct Tracefs {
    root: PathBuf,
}

impl Tracefs {
    /// Finds where tracefs is mounted.
    ///
    /// # Errors
    /// If it is not mounted, or if its files may not be read.
    pub fn find() -> Result<Self, Unavailable> {
        let mut refused = None;
        for place in PLACES {
            match fs::metadata(Path::new(place).join("instances")) {
                Ok(_) => return Self::at(place.into()),
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refused = Some(place),
                Err(_) => {}
            }
        }
        Err(refused.map_or(Unavailable::NotMounted, |place| Unavailable::NoRights(place.into())))
    }

    /// A tracefs that is mounted at `root`.
    ///
    /// # Errors
    /// If its files may not be read.
    pub fn at(root: PathBuf) -> Result<Self, Unavailable> {
        let tracefs = Self { root };
        tracefs.read("events/header_page")?;
        Ok(tracefs)
    }

    /// The layout of the pages of buffers.
    ///
    /// # Errors
    /// If the kernel's description cannot be read, or is not understood.
    pub fn layout(&self) -> Result<Layout, Unavailable> {
        Ok(Layout::parse(&self.read("events/header_page")?)?)
    }

    /// The format of an event; none if this kernel does not have it.
    ///
    /// # Errors
    /// If the kernel's description cannot be read, or is not understood.
    pub fn format(&self, system: &str, event: &str) -> Result<Option<Format>, Unavailable> {
        match self.read(&format!("events/{system}/{event}/format")) {
            Ok(text) => Ok(Some(Format::parse(system, &text)?)),
            Err(Unavailable::Failed(_, io::ErrorKind::NotFound)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes buffers of one's own.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn instance(&self) -> Result<Instance, Unavailable> {
        Instance::new(self.root.join("instances"))
    }

    fn read(&self, name: &str) -> Result<String, Unavailable> {
        let path = self.root.join(name);
        read(&path).map_err(|error| Unavailable::of(&path, &error))
    }
}

/// The text of a file of tracefs. Some of these give nothing after their first piece, so that has to be the whole.
fn read(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut text = vec![0; LONGEST];
    let mut end = 0;
    loop {
        match file.read(&mut text[end..])? {
            0 => break,
            more => end += more,
        }
    }
    text.truncate(end);
    String::from_utf8(text).map_err(|_| io::ErrorKind::InvalidData.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_of_the_running_kernel_are_understood_where_they_can_be_read() {
        let Ok(tracefs) = Tracefs::find() else { return };
        tracefs.layout().expect("the layout of pages");
        for (system, event) in [("sched", "sched_switch"), ("tlb", "tlb_flush"), ("no", "such_event")] {
            tracefs.format(system, event).expect("a format");
        }
    }
}
