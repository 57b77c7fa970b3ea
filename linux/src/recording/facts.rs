//! What a recording says about the machine and about itself.

use serde::{Deserialize, Serialize};

use crate::events::{FlushReason, Kind, Work};

/// The version of the format.
pub(super) const VERSION: u32 = 1;

/// The beginning of a file of trace-cmd, and of the part of a perf.data file that describes events.
pub(crate) const TRACE_DAT: &[u8; 10] = b"\x17\x08\x44tracing";

/// Facts about a recording as a whole.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// The version of the recording's format.
    pub version: u32,
    /// The version of the program that wrote it.
    pub ceasefire: String,
    /// The arguments with which it was made.
    pub command: Vec<String>,
    /// The kind of file from which it was imported; none if this program recorded it. Such a file has less to say: no
    /// [row](Self::tlb_row), no [overhead](Self::overhead), and whatever else is 0 or empty.
    pub imported: Option<Foreign>,
    /// The kernel: name, release, build.
    pub kernel: String,
    /// The architecture, as `uname -m` says it.
    pub architecture: String,
    /// The processor's name.
    pub processor: String,
    /// For each CPU that was online, its number and its node.
    pub cpus: Vec<(u32, u32)>,
    /// The CPUs that the scheduler leaves alone (`isolcpus`, `nohz_full`).
    pub isolated: Vec<u32>,
    /// The memory, in bytes.
    pub memory_bytes: u64,
    /// Whether it has only the events of requests.
    pub light: bool,
    /// The kernel's events that were recorded.
    pub events: Vec<String>,
    /// The beginning on the kernel's monotonic clock, in nanoseconds.
    pub began_ns: u64,
    /// The end.
    pub ended_ns: u64,
    /// The beginning in seconds since 1970.
    pub began_unix_s: f64,
    /// How requests were counted.
    pub counted: Count,
    /// The requests that were answered between the first and the last reading of the TLB row; all, if it was not read.
    #[serde(alias = "interrupts")]
    pub answered: u64,
    /// The requests without events of their handler. Their senders went on, so they were answered.
    pub unseen: u64,
    /// The answered requests without an event where they were sent.
    pub unsent: u64,
    /// The change of the TLB row of `/proc/interrupts` between the same readings, if the kernel has one and it was read.
    pub tlb_row: Option<u64>,
    /// The requests that were answered while the row was read, and may be counted in one and not in the other.
    pub tlb_row_unsure: u64,
    /// Flushes that asked other CPUs (`tlb:tlb_flush`, "remote IPI send"), if they were recorded.
    pub asked: Option<u64>,
    /// Pages of areas that were not looked at when it began: processes may have more mapped than it says.
    pub skipped_pages: u64,
    /// What was lost.
    pub lost: Loss,
    /// The part of the machine's processor time that recording took, if it was measured.
    pub overhead: Option<f64>,
}

/// The kinds of files that other programs record and that can be imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Foreign {
    /// Of `perf record`.
    #[serde(rename = "perf.data")]
    PerfData,
    /// Of `trace-cmd record`.
    #[serde(rename = "trace.dat")]
    TraceDat,
}

impl Foreign {
    /// The bytes at the beginning of a file that tell its kind.
    pub(crate) const BEGINNING: u64 = 16;

    /// The kind of a file that begins with these bytes, in either byte order.
    pub fn of(beginning: &[u8]) -> Option<Self> {
        if beginning.starts_with(b"PERFILE2") || beginning.starts_with(b"2ELIFREP") {
            Some(Self::PerfData)
        } else {
            beginning.starts_with(TRACE_DAT).then_some(Self::TraceDat)
        }
    }

    /// The name that such files have by default.
    pub fn name(self) -> &'static str {
        match self {
            Self::PerfData => "perf.data",
            Self::TraceDat => "trace.dat",
        }
    }
}

/// How requests were counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Count {
    /// Where they are sent to a CPU and where their handlers run (`csd:*`).
    #[default]
    Sent,
    /// Where a CPU flushes because of another (`tlb:tlb_flush`, "remote shootdown"). Requests to CPUs that had nothing
    /// to flush are not among them, and which of them interrupt is not known.
    Flushed,
}

/// What a recording lacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Loss {
    /// Events that the kernel could not keep, at least.
    pub events: u64,
    /// Whether it did not say how many at some time.
    pub uncounted: bool,
    /// Records that could not be read.
    pub unreadable: u64,
}

impl Count {
    /// Whether an event is a request that has been answered.
    pub fn counts(self, kind: &Kind) -> bool {
        match self {
            Self::Sent => matches!(kind, Kind::HandlerEnded { work: Work::Flush, .. }),
            Self::Flushed => matches!(kind, Kind::Flush { reason: FlushReason::RemoteShootdown, .. }),
        }
    }
}

impl Facts {
    /// The kernel's release, such as `6.12.1` of `Linux 6.12.1 #1 SMP`.
    pub fn release(&self) -> &str {
        self.kernel.split_whitespace().nth(1).unwrap_or_default()
    }

    /// The kernel's name with its release, such as `Linux 6.12.1`.
    pub fn kernel_name(&self) -> String {
        self.kernel.split_whitespace().take(2).collect::<Vec<_>>().join(" ")
    }

    /// Whether an event of the kernel was recorded, such as `tlb:tlb_flush`.
    pub fn has_event(&self, name: &str) -> bool {
        self.events.iter().any(|event| event == name)
    }

    /// Whether waits for locks were recorded: kernels before Linux 5.19 do not tell them.
    pub fn tells_waits(&self) -> bool {
        self.has_event("lock:contention_begin") && self.has_event("lock:contention_end")
    }

    /// Whether the calls, faults, migrations and reclaims that lead to flushes were recorded.
    pub fn tells_causes(&self) -> bool {
        let systems = ["syscalls:", "exceptions:", "migrate:", "vmscan:"];
        self.events.iter().any(|event| systems.iter().any(|system| event.starts_with(system)))
    }

    /// The time of the recording, in nanoseconds.
    pub fn duration_ns(&self) -> u64 {
        self.ended_ns.saturating_sub(self.began_ns)
    }

    /// The time of the recording, in seconds. It is not 0, so that rates can be taken.
    pub fn seconds(&self) -> f64 {
        self.duration_ns().max(1) as f64 / 1e9
    }

    /// The numbers of CPUs up to the largest.
    pub fn cpu_numbers(&self) -> usize {
        self.cpus.iter().map(|(cpu, _)| *cpu as usize + 1).max().unwrap_or(0)
    }

    /// The part of the recording in which a time lies, if so many equal parts divide it.
    pub fn part(&self, time_ns: u64, parts: usize) -> usize {
        let since = time_ns.saturating_sub(self.began_ns);
        let time = self.duration_ns().max(1);
        ((u128::from(since) * parts as u128 / u128::from(time)) as usize).min(parts - 1)
    }
}

impl Loss {
    /// Whether nothing is missing.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
