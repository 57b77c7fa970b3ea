//! A sample for tests.

use ceasefire_linux::events::{Names, Work};
use ceasefire_linux::live::{Interval, Window};
use ceasefire_linux::recording::{Facts, Loss};
use ceasefire_linux::shootdowns::{Cause, Request, Sender, Shootdown, Tally, Victim};
use std::time::Duration;

use crate::top::sample::Sample;

/// Two seconds on a machine with so many CPUs, of which the last is isolated.
pub(super) fn sample(cpus: u32) -> Sample {
    sample_of(cpus, &[Window { watched_ns: 2_000_000_000, answered: 5_000, ..Window::default() }])
}

/// The same, watched in windows for a tenth of the time.
pub(super) fn sample_in_windows(cpus: u32) -> Sample {
    let window = |part: u64| Window {
        watched_ns: 50_000_000,
        whole_ns: 500_000_000,
        answered: 100 + part,
        row: 100 + part,
        whole_row: 1_000 + 10 * part,
        ..Window::default()
    };
    sample_of(cpus, &[window(0), window(30), window(60), window(90)])
}

/// A sample of these windows, among which the shootdowns are divided.
fn sample_of(cpus: u32, windows: &[Window]) -> Sample {
    let mut names = Names::default();
    let [java, postgres, kswapd, redis] =
        ["java", "postgres", "kswapd0", "redis"].map(|program| names.add(program));
    let mut interval = Interval {
        began_ns: 1_000_000_000,
        ended_ns: 3_000_000_000,
        tlb_row: Some(5_001),
        used: Duration::from_millis(25),
        tracing: Duration::from_millis(14),
        lost: Loss { events: 3, ..Loss::default() },
        ..Interval::default()
    };
    let mut tallies = vec![Tally::default(); windows.len()];
    for (program, process, cause, pages, flushes, targets) in [
        (java, 4321, Cause::Munmap, Some(Some(33)), 900, 2),
        (java, 4321, Cause::Madvise, Some(Some(1)), 200, 2),
        (postgres, 77, Cause::Mprotect, Some(Some(2)), 500, 1),
        (kswapd, 42, Cause::Reclaim, Some(None), 10, cpus - 1),
    ] {
        for number in 0..flushes {
            let sender = (number / 7 + process) % cpus;
            let request = |place: u32| {
                let victim = Victim {
                    began_ns: 1_003_000 + u64::from(place.min(900)),
                    ended_ns: 1_004_000,
                    thread: 900,
                    process: 900,
                    program: redis,
                };
                Request {
                    target: (sender + place) % cpus,
                    sent_ns: 1_000_500,
                    interrupts: place != 2,
                    victim: Some(victim),
                }
            };
            let part = (number * number / 50) as usize % windows.len();
            tallies[part].add(&Shootdown {
                sender: Sender { cpu: sender, thread: process, process, program },
                began_ns: 1_000_000,
                ended_ns: 1_006_000,
                work: Work::Flush,
                cause,
                pages,
                requests: (1..=targets.min(cpus - 1)).map(request).collect(),
            });
        }
    }
    let with_totals =
        |(window, tally): (&Window, &Tally)| Window { totals: tally.totals(), ..window.clone() };
    interval.take(&windows.iter().zip(&tallies).map(with_totals).collect::<Vec<_>>());
    let facts = Facts {
        ceasefire: "0.1.0".to_owned(),
        kernel: "Linux".to_owned(),
        cpus: (0..cpus).map(|cpu| (cpu, 0)).collect(),
        isolated: vec![cpus - 1],
        ..Facts::default()
    };
    Sample::of(&interval, &names, &facts)
}
