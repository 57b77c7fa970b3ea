//! The file of a trace, and the circumstances of the run that it names.

use std::fmt;
use std::io::Write;
use std::path::Path;

use crate::config::Machine;

/// The format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TraceFormat {
    /// A line for each flush and each interrupt.
    Text,
    /// The format of [Perfetto](https://ui.perfetto.dev), which shows the trace.
    Perfetto,
}

impl TraceFormat {
    /// The format that a file's name stands for: Perfetto's if it ends in `.pftrace` or `.perfetto-trace`, otherwise
    /// text.
    pub fn of(path: &Path) -> Self {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("pftrace" | "perfetto-trace") => Self::Perfetto,
            _ => Self::Text,
        }
    }
}

/// The output for a trace.
pub struct TraceOutput {
    /// The file. The trace is written in small pieces, so it should be buffered.
    pub out: Box<dyn Write>,
    /// Its format.
    pub format: TraceFormat,
    /// The run's circumstances, each a name and a value, such as the seed. The trace names them, and after them the
    /// machine and all its parameters.
    pub about: Vec<(String, String)>,
}

impl TraceOutput {
    /// An output that names the machine alone.
    pub fn new(out: impl Write + 'static, format: TraceFormat) -> Self {
        Self { out: Box::new(out), format, about: Vec::new() }
    }

    /// All circumstances of a run on `machine`.
    pub(super) fn circumstances(&self, machine: &Machine) -> Vec<(String, String)> {
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut about = vec![pair("ceasefire", env!("CARGO_PKG_VERSION"))];
        about.extend_from_slice(&self.about);
        about.push(pair("machine", &machine.name));
        about.push(pair("machine.description", &machine.description));
        if !machine.without.is_empty() {
            let names: Vec<&str> = machine.without.iter().map(|effect| effect.name()).collect();
            about.push(pair("machine.without", &names.join(", ")));
        }
        let parameters = machine.sources.iter();
        about.extend(
            parameters.map(|parameter| (format!("machine.{}", parameter.key), parameter.described())),
        );
        about
    }
}

impl fmt::Debug for TraceOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TraceOutput")
            .field("format", &self.format)
            .field("about", &self.about)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_gives_its_format() {
        let format = |path: &str| TraceFormat::of(Path::new(path));
        assert_eq!(["a.pftrace", "b/c.perfetto-trace"].map(format), [TraceFormat::Perfetto; 2]);
        assert_eq!(["a.txt", "pftrace", "a.pftrace.txt", ""].map(format), [TraceFormat::Text; 4]);
    }
}
