//! What the terminal shows of a report.

use std::fmt::Write as _;

use ceasefire_linux::kernel::symbols::Symbols;
use ceasefire_sanitizer::find::{Find, Kind, Place, Summary};

use super::symbols::named;
use super::Report;
use crate::number::compact;

pub(super) fn of(report: &Report, symbols: &Symbols) -> String {
    let mut text = String::new();
    for (number, one) in report.finds.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}. {}\n", number + 1, find(one, symbols));
    }
    match &report.end {
        Some(end) => text.push_str(&summary(end, symbols)),
        None => text.push_str("The report ends in the middle: QEMU was ended.\n"),
    }
    text
}

/// A find: the use, what the CPU may have cached, the change and the last flush.
fn find(find: &Find, symbols: &Symbols) -> String {
    let Find { used, address, frame, other, cached, changed, dropped, .. } = find;
    let access = if find.store { "stored to" } else { "loaded from" };
    let what = match find.kind {
        Kind::StaleUse => format!("and may still have had the older frame {other:#x}"),
        Kind::Incoherence => format!("although its page tables had frame {other:#x} by then"),
        Kind::LateUse if find.store => {
            "although its page tables forbade it, and the change was over".to_owned()
        }
        Kind::LateUse => "although its page tables had lost it, and the change was over".to_owned(),
        Kind::Reuse => "although its page tables had lost it, and the frame had been overwritten".to_owned(),
    };
    let mut text = format!("CPU {} {access} {address:#x}, frame {frame:#x}, {what}", used.cpu);
    let at = |what: &str, place: &Place| {
        let before = match used.time.saturating_sub(place.time) {
            0 => String::new(),
            ns => format!(", {:.3} ms before", ns as f64 / 1e6),
        };
        format!("\n     {what:<12} CPU {} at {}{before}", place.cpu, named(symbols, place.instruction))
    };
    text += &at("used", used);
    text += &at("first used", cached);
    match changed {
        Some(changed) => {
            text += &at("changed", &changed.place);
            let _ = write!(text, ", from {:#x} to {:#x}", changed.before, changed.after);
        }
        None => text += "\n     changed      unseen",
    }
    if let Some(given) = &find.given {
        text += &at("overwritten", given);
    }
    match dropped {
        Some(dropped) => text += &at("last flush", dropped),
        None => text += "\n     last flush   none",
    }
    text
}

fn summary(end: &Summary, symbols: &Symbols) -> String {
    let mut text = match end.finds {
        0 => "No flush was missing".to_owned(),
        finds => format!("{} finds in {} uses", compact(end.written as f64), compact(finds as f64)),
    };
    let _ = writeln!(
        text,
        ": {} accesses were compared, {} of them with the page tables, of which {} were followed; {} invalidations.",
        compact(end.accesses as f64),
        compact(end.looks as f64),
        compact(end.tables as f64),
        compact(end.invalidations as f64)
    );
    let _ = writeln!(
        text,
        "{} accesses came before paging or before the guest's memory was found.",
        compact(end.unread as f64)
    );
    if let Some((ns, changed)) = end.longest {
        let (ms, by) = (ns as f64 / 1e6, named(symbols, changed.place.instruction));
        let _ = writeln!(text, "A changed entry stayed usable for {ms:.3} ms at most, changed at {by}.");
    }
    text
}
