//! The summary of a recording, printed when it was made.

use std::cmp::Reverse;
use std::fmt::Write as _;

use ceasefire_linux::record::Recorded;
use ceasefire_linux::recording::{Count, Facts};
use serde_json::json;

use crate::locks;
use crate::number::{compact, counted};
use crate::replay::advice::told_by_one_side;

/// The causes, the processes and the waits for locks that the summary shows.
const SHOWN: usize = 5;

/// The summary as JSON.
pub(crate) fn json_of<W>(recorded: &Recorded<W>, file: &str) -> serde_json::Value {
    let Recorded { facts, locks, names, .. } = recorded;
    json!({
        "ceasefire": facts.ceasefire,
        "file": file,
        "imported": facts.imported,
        "kernel": facts.kernel,
        "cpus": facts.cpus.len(),
        "duration_s": seconds(facts),
        "light": facts.light,
        "counted": facts.counted,
        "requests": requests(recorded),
        "interrupts": (facts.counted == Count::Sent).then_some(recorded.totals.all.interrupts),
        "answered": facts.answered,
        "unseen": facts.unseen,
        "unsent": facts.unsent,
        "tlb_row": facts.tlb_row,
        "tlb_row_unsure": facts.tlb_row_unsure,
        "asked": facts.asked,
        "lost": facts.lost.events,
        "lost_uncounted": facts.lost.uncounted,
        "unreadable": facts.lost.unreadable,
        "overhead": facts.overhead,
        "locks": locks::json_of(locks, names, facts),
        "idle_waits": locks::idle_json(locks, facts),
    })
}

fn seconds(facts: &Facts) -> f64 {
    facts.duration_ns() as f64 / 1e9
}

/// The summary in words. Writing to a string does not fail.
pub(crate) fn words<W>(recorded: &Recorded<W>, file: &str) -> String {
    let Recorded { facts, totals, names, .. } = recorded;
    let mut text = String::new();
    let time = seconds(facts);
    let requests = requests(recorded);
    let rate = if time > 0.0 { requests as f64 / time } else { 0.0 };
    let _ = writeln!(text, "requests to flush: {requests} in {time:.2} s, {}/s", compact(rate));
    if facts.counted == Count::Sent {
        let interrupts = totals.all.interrupts;
        let others = requests.saturating_sub(interrupts);
        let merged =
            if others > 0 { format!("; {others} met a request that waited already") } else { String::new() };
        let _ = writeln!(text, "interrupts for them: {interrupts}{merged}");
    } else {
        text.push_str(if facts.imported.is_some() {
            "  The file has no events csd:csd_queue_cpu and csd:csd_function_exit: record them too (Linux 6.4 and later).\n"
        } else {
            "  This kernel has no events csd:* (before Linux 6.4).\n"
        });
        text.push_str(
            "  Counted are flushes that another CPU asked for; requests to CPUs with nothing to flush are not among them.\n",
        );
    }
    match (facts.tlb_row, facts.tlb_row_unsure) {
        (None, _) if facts.imported.is_some() => {}
        (None, _) => text.push_str("/proc/interrupts has no row TLB on this machine\n"),
        (Some(row), unsure) => {
            let _ = write!(
                text,
                "answered between two readings: {}; TLB row of /proc/interrupts: {row}",
                facts.answered
            );
            let unsure =
                if unsure > 0 { format!(" (up to {unsure} while it was read)") } else { String::new() };
            let _ = writeln!(text, "{unsure}");
        }
    }
    if let Some(one_sided) = told_by_one_side(facts.unseen, facts.unsent).filter(|_| facts.lost.is_none()) {
        let _ = writeln!(text, "{one_sided}");
    }
    if let Some(asked) = facts.asked {
        let _ = writeln!(text, "flushes that asked other CPUs (tlb:tlb_flush): {asked}");
    }
    if let Some(kind) = facts.imported {
        let _ = writeln!(
            text,
            "not in a {} file: the TLB row of /proc/interrupts over the same time, and the overhead",
            kind.name()
        );
    }
    if !facts.lost.is_none() {
        let more = if facts.lost.uncounted { ", and more that nothing counted" } else { "" };
        let _ = writeln!(
            text,
            "lost: {} events that the kernel could not keep, {} unreadable records{more}",
            facts.lost.events, facts.lost.unreadable
        );
    }
    if let Some(overhead) = facts.overhead {
        let _ = writeln!(text, "overhead: {:.2}% of the machine's processor time", overhead * 100.0);
    }
    let mut causes: Vec<_> = totals.causes.iter().filter(|_| !facts.light).collect();
    causes.sort_by_key(|(_, sum)| Reverse(sum.requests));
    for (cause, sum) in causes.into_iter().take(SHOWN) {
        let _ = writeln!(
            text,
            "  {}: {} of {}, {} waited, {} in handlers",
            cause.name(),
            asked(sum.requests),
            flushes(sum.flushes),
            milliseconds(sum.sender_ns),
            milliseconds(sum.victim_ns)
        );
    }
    for (process, sum) in totals.senders().into_iter().take(SHOWN) {
        // Without tlb:tlb_flush no flush is known.
        let of = if facts.asked.is_some() { format!(" of {}", flushes(sum.flushes)) } else { String::new() };
        let _ =
            writeln!(text, "  {} ({}): {}{of}", names.get(process.program), process.id, asked(sum.requests));
    }
    waits(recorded, &mut text);
    let _ = writeln!(text, "written: {file}");
    text
}

/// The locks most waited for.
fn waits<W>(recorded: &Recorded<W>, text: &mut String) {
    let Recorded { facts, locks, names, .. } = recorded;
    match locks::told(locks, facts) {
        None if facts.light || facts.imported.is_some() => {}
        None => {
            text.push_str(
                "waits for locks are not recorded: this kernel has no events lock:* (before Linux 5.19)\n",
            );
        }
        Some(locks) => {
            let rows = locks.rows();
            if !rows.is_empty() {
                let _ = writeln!(text, "waits for locks, {}:", locks::ORDER);
            }
            for row in rows.iter().take(SHOWN) {
                let _ = writeln!(text, "  {}", locks::line(row, names, facts));
            }
            if let Some(idle) = locks::idle(locks.idle) {
                let _ = writeln!(text, "{idle}");
            }
        }
    }
}

fn asked(count: u64) -> String {
    counted(count, "request", "requests")
}

/// The requests of a recording. Without events of them, those that led to a flush.
fn requests<W>(recorded: &Recorded<W>) -> u64 {
    match recorded.facts.counted {
        Count::Sent => recorded.totals.all.requests,
        Count::Flushed => recorded.facts.answered,
    }
}

fn flushes(count: u64) -> String {
    counted(count, "flush", "flushes")
}

fn milliseconds(ns: u64) -> String {
    format!("{} ms", compact(ns as f64 / 1e6))
}
