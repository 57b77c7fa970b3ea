//! The processor time that recording takes.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::time::{Duration, Instant};

use rustix::thread::ClockId;

use crate::tracefs::Instance;

/// The number of records that are written to measure what one costs.
const SAMPLE: u32 = 4000;

/// The processor time that this program has used.
pub(crate) fn used() -> Duration {
    let time = rustix::time::clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32)
}

/// The time that the kernel takes to write one record, in nanoseconds: that of a write to the buffer less that of one to
/// `/dev/null`. The buffer keeps the records.
pub(crate) fn record_ns(instance: &Instance) -> f64 {
    let marker = OpenOptions::new().write(true).open(instance.path("trace_marker_raw"));
    let (Ok(marker), Ok(nothing)) = (marker, OpenOptions::new().write(true).open("/dev/null")) else {
        return 0.0;
    };
    let fastest = |mut file: File| {
        let times = (0..8).map(|_| {
            let begin = Instant::now();
            for _ in 0..SAMPLE / 8 {
                // A record of the size of an interrupt's. If it is refused, the cost is that of a refusal.
                let _ = file.write(&[0; 24]);
            }
            begin.elapsed().as_nanos() as f64 / f64::from(SAMPLE / 8)
        });
        times.fold(f64::INFINITY, f64::min)
    };
    (fastest(marker) - fastest(nothing)).max(0.0)
}
