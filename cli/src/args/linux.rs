//! The arguments of the commands for a Linux machine.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::value::{calls, duration, some};

/// The file of a recording that is given no name.
const RECORDING: &str = "recording.parquet";

#[derive(Debug, Args)]
pub(crate) struct RecordArguments {
    /// The file to write [default: recording.parquet]; a former one is kept as FILE.old
    #[arg(short, long, value_name = "FILE", default_value = RECORDING, hide_default_value = true)]
    pub(crate) output: PathBuf,
    /// Record requests alone, not their causes: on 2 CPUs a program that only flushes then takes 1.15 times as long, in
    /// a full recording 1.41 times; on 16 CPUs 1.4 times
    #[arg(long)]
    pub(crate) light: bool,
    /// Keep the kernel functions that led to each request
    #[arg(long)]
    pub(crate) stacks: bool,
    /// Write a recording for strangers, as `ceasefire anonymize` does
    #[arg(long, conflicts_with = "json")]
    pub(crate) anonymous: bool,
    /// Write a summary as JSON; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE", conflicts_with = "light")]
    pub(crate) html: Option<PathBuf>,
    /// Write the recording for ui.perfetto.dev; FILE ends in .pftrace or .perfetto-trace
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Record so long, such as 10s, 500ms or 2min
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, conflicts_with = "program")]
    pub(crate) duration: Option<Duration>,
    /// Record until this program has ended
    #[arg(value_name = "CMD", last = true)]
    pub(crate) program: Vec<OsString>,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArguments {
    /// The file of perf record or trace-cmd
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The file to write [default: recording.parquet]; a former one is kept as FILE.old
    #[arg(short, long, value_name = "FILE", default_value = RECORDING, hide_default_value = true)]
    pub(crate) output: PathBuf,
    /// A copy of /proc/kallsyms of the recorded machine, made as root since its last start [default: what the file has,
    /// or this machine's own if it is the same]
    #[arg(long, value_name = "FILE")]
    pub(crate) kallsyms: Option<PathBuf>,
    /// Write a summary as JSON; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the recording for ui.perfetto.dev; FILE ends in .pftrace or .perfetto-trace
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AnonymizeArguments {
    /// The recording
    #[arg(value_name = "FILE")]
    pub(crate) recording: PathBuf,
    /// The file to write [default: NAME.anonymous.parquet beside NAME.parquet; a former one is kept as FILE.old]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The recording
    #[arg(value_name = "FILE")]
    pub(crate) recording: PathBuf,
    /// The mechanisms, separated by commas [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) mechanism: Vec<String>,
    /// Flush so many calls of munmap or madvise of a process together
    #[arg(long, value_name = "N", value_parser = calls)]
    pub(crate) batch: Option<u64>,
    /// Make one call of the calls of madvise that a thread makes back to back, as `process_madvise` does since Linux
    /// 6.16
    #[arg(long)]
    pub(crate) process_madvise: bool,
    /// Give pages back so much later, such as 500ms or 10s, and keep those that are used again before
    #[arg(long, value_name = "TIME", value_parser = decay, allow_hyphen_values = true)]
    pub(crate) decay: Option<Decay>,
    /// The parts of the requests to print
    #[arg(long, value_enum, default_value_t = By::Cause)]
    pub(crate) by: By,
    /// Write everything as JSON; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write an HTML page with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the recording for ui.perfetto.dev; FILE ends in .pftrace or .perfetto-trace
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct TopArguments {
    /// The time between two screens, such as 500ms, 2s or 1min
    #[arg(long, value_name = "TIME", value_parser = duration, allow_hyphen_values = true, default_value = "1s")]
    pub(crate) interval: Duration,
    /// End after so many intervals
    #[arg(long, value_name = "N", value_parser = some)]
    pub(crate) count: Option<u16>,
    /// Print the processes and the causes of one interval as text, and end
    #[arg(long, conflicts_with = "count")]
    pub(crate) once: bool,
    /// Instead of a screen, write one JSON object an interval, each in a line; with `-`, to standard output
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Watch all the time, whatever it costs, not in windows
    #[arg(long)]
    pub(crate) full: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DiffArguments {
    /// The first recording
    #[arg(value_name = "FILE")]
    pub(crate) one: PathBuf,
    /// The second recording
    #[arg(value_name = "FILE")]
    pub(crate) other: PathBuf,
    /// Write everything as JSON; '-' is standard output
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write an HTML page with a plot
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
}

/// The values of `--by`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum By {
    /// By the process that sends them
    Process,
    /// By the cause of the flush
    Cause,
    /// By the CPU that sends them
    Sender,
    /// By the CPU that receives them
    Victim,
}

/// A time, and its text on the command line.
#[derive(Debug, Clone)]
pub(crate) struct Decay {
    pub(crate) text: String,
    pub(crate) time: Duration,
}

fn decay(text: &str) -> Result<Decay, String> {
    Ok(Decay { text: text.to_owned(), time: duration(text)? })
}

#[derive(Debug, Args)]
pub(crate) struct CalibrateArguments {
    /// The machine file to write [default: the one that `--machine host` reads, ceasefire/host.toml in
    /// `$XDG_DATA_HOME` or ~/.local/share; with --only, none]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// The parts to measure, separated by commas: latency, switch, fault, flush, shootdown, tlb [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Show no progress
    #[arg(long, short)]
    pub(crate) quiet: bool,
}
