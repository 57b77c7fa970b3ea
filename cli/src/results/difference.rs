//! The words for two recordings: the names of the figures in which they may differ, and remarks on what is compared.

use ceasefire_linux::difference::{Figure, Profile};
use ceasefire_linux::events::Spelled as _;

use crate::locks::idle;

/// A figure's name, and the unit of its rate with the factor for it.
pub(crate) fn difference_name(figure: &Figure) -> (String, f64) {
    match figure {
        Figure::Flushes => ("flushes/s".into(), 1.0),
        Figure::Asked => ("flushes that asked others/s".into(), 1.0),
        Figure::Answered => ("flushes for others/s".into(), 1.0),
        Figure::Requests => ("requests/s".into(), 1.0),
        Figure::Interrupts => ("interrupts/s".into(), 1.0),
        Figure::SenderNs => ("senders wait, ms/s".into(), 1e-6),
        Figure::VictimNs => ("handlers run, ms/s".into(), 1e-6),
        Figure::Waits => ("lock waits/s".into(), 1.0),
        Figure::WaitNs => ("lock waits, ms/s".into(), 1e-6),
        Figure::OfCause(cause) => (format!("  {}", cause.name()), 1.0),
        Figure::OfProgram(program) if program.is_empty() => ("  (unknown)".into(), 1.0),
        Figure::OfProgram(program) => (format!("  {program}"), 1.0),
        Figure::OfLock(kind, cause) => (format!("  {} ({}), ms/s", kind.word(), cause.name()), 1e-6),
    }
}

/// What is not compared and why, and what the recordings lack.
pub(crate) fn difference_remarks(one: &Profile, other: &Profile) -> Vec<String> {
    let mut remarks = Vec::new();
    // A remark names the recordings that do not tell what the others do.
    let mut lack = |tells: fn(&Profile) -> bool, alone: bool, why: &str| {
        let which = match [one, other].map(tells) {
            [false, true] => "the first recording",
            [true, false] => "the second recording",
            [false, false] if alone => "each recording",
            _ => return,
        };
        remarks.push(format!("{which} {why}"));
    };
    lack(
        Profile::tells_requests,
        true,
        "is of a kernel without events csd:* (before Linux 6.4), which counts flushes, not requests: interrupts, the \
         times of senders and handlers, causes and programs are not compared",
    );
    if one.tells_requests() && other.tells_requests() {
        lack(
            Profile::tells_flushes,
            false,
            "has no event tlb:tlb_flush, which begins a flush: flushes and the time of senders are not compared",
        );
        lack(Profile::tells_causes, false, "does not tell what led to requests: causes are not compared");
    }
    lack(
        |profile| profile.facts.tells_waits(),
        false,
        "has no events lock:*: waits for locks are not compared",
    );
    for (which, profile) in [("first", one), ("second", other)] {
        if let Some(idle) = idle(profile.idle).filter(|_| Figure::Waits.is_compared(one, other)) {
            remarks.push(format!("the {which} recording: {idle}"));
        }
        if let Some(kind) = profile.facts.imported {
            remarks.push(format!(
                "the {which} recording is imported from a {} file: not compared with /proc/interrupts",
                kind.name()
            ));
        }
        if !profile.lost.is_none() {
            remarks.push(format!(
                "the {which} recording lacks {} events and {} rows",
                profile.lost.events, profile.lost.unreadable
            ));
        }
    }
    remarks
}
