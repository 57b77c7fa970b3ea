//! What the terminal shows of a report.

use std::fmt::Write as _;

use ceasefire_linux::kernel::symbols::Symbols;
use ceasefire_sanitizer::find::{Find, Kind, Place, Summary, Window};

use super::events::{events, milliseconds, rule, told};
use super::symbols::{function, named, short};
use super::Judged;
use crate::number::compact;

/// The windows that are shown.
const WINDOWS: usize = 5;

/// The functions of a change that a line has: its own, and its callers.
const FUNCTIONS: usize = 4;

pub(super) fn of(judged: &Judged, symbols: &Symbols) -> String {
    let mut text = String::new();
    for (number, (find, uses)) in judged.finds.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{}. {}\n", number + 1, shown(find, *uses, symbols));
    }
    if judged.finds.len() > 1 {
        text += "The finds in short:\n";
        for (number, (find, uses)) in judged.finds.iter().enumerate() {
            let _ = writeln!(text, "{:>4}. {}", number + 1, short_of(find, *uses, symbols));
        }
    }
    for (rule, finds, uses) in &judged.suppressed {
        let _ = writeln!(text, "Suppressed: {}: {}.", counted(*finds, *uses), rule.reason);
    }
    match &judged.end {
        Some(end) => text.push_str(&summary(judged, end, symbols)),
        None => text.push_str("The report is not whole: QEMU was ended, or the file is cut off.\n"),
    }
    text
}

/// A number of finds, and of uses if they are known.
pub(crate) fn counted(finds: usize, uses: Option<u64>) -> String {
    let finds = match finds {
        1 => "1 find".to_owned(),
        finds => format!("{finds} finds"),
    };
    match uses {
        Some(uses) => format!("{finds} in {}", times(uses)),
        None => finds,
    }
}

/// A number of uses.
fn times(uses: u64) -> String {
    match uses {
        1 => "1 use".to_owned(),
        uses => format!("{} uses", compact(uses as f64)),
    }
}

/// A find: what it is, and its events.
fn shown(find: &Find, uses: Option<u64>, symbols: &Symbols) -> String {
    let mut text = format!("{}: {}", title(find.kind), told(find));
    if let Some(uses) = uses.filter(|uses| *uses > 1) {
        let _ = write!(text, "; {} alike", compact(uses as f64));
    }
    for event in events(find) {
        let Place { cpu, instruction, callers, .. } = event.place;
        let ms = milliseconds(event.place, &find.used);
        let _ =
            write!(text, "\n{ms:>14} ms  CPU {cpu:<3} {:<18} {}", event.what, named(symbols, *instruction));
        if !event.more.is_empty() {
            let _ = write!(text, ", {}", event.more);
        }
        for caller in callers {
            let _ = write!(text, "\n{:43}by {}", "", short(symbols, *caller));
        }
    }
    if find.changed.is_none() {
        text += "\n     The change of its entry was not seen.";
    }
    if find.dropped.is_none() {
        let _ = write!(text, "\n     CPU {} has flushed nothing before.", find.used.cpu);
    }
    text
}

/// A find in a line: its kind, how often, and the code that changed the entry.
pub(crate) fn short_of(find: &Find, uses: Option<u64>, symbols: &Symbols) -> String {
    let uses = uses.map_or_else(String::new, |uses| format!(", {}", times(uses)));
    let changed = find.changed.as_ref().map_or_else(
        || "change not seen".to_owned(),
        |changed| format!("changed by {}", chain(&changed.place, symbols)),
    );
    format!("{}{uses}: {changed}", title(find.kind))
}

/// A kind, and its rule.
fn title(kind: Kind) -> String {
    format!("{} ({})", kind.name(), rule(kind))
}

/// The function of a place, and its callers.
fn chain(place: &Place, symbols: &Symbols) -> String {
    let all = std::iter::once(&place.instruction).chain(&place.callers).take(FUNCTIONS);
    let names: Vec<String> = all.map(|address| short(symbols, *address)).collect();
    names.join(" by ")
}

/// Whether a flush was missing, in words.
pub(crate) fn verdict(judged: &Judged, end: &Summary) -> String {
    match judged.finds.len() {
        0 if end.looks == 0 => "Nothing was compared".to_owned(),
        0 => "No flush was missing".to_owned(),
        finds => counted(finds, judged.uses()),
    }
}

/// How much was compared, in two sentences.
pub(crate) fn compared(end: &Summary) -> [String; 2] {
    let [accesses, looks, unread, invalidations] =
        [end.accesses, end.looks, end.unread, end.invalidations].map(|count| compact(count as f64));
    let tables = compact(end.tables as f64);
    [
        format!(
            "{accesses} accesses were compared, {looks} of them with the page tables, of which {tables} were followed; \
             {invalidations} invalidations."
        ),
        format!(
            "{unread} accesses were not compared: before paging, in modes that are not known, to devices or memory that \
             was not found."
        ),
    ]
}

/// What is known of the frames that the guest has freed.
pub(crate) fn freed(judged: &Judged, end: &Summary) -> Option<String> {
    let Summary { freed, unknown, .. } = end;
    match (freed, unknown) {
        (0, 0) if judged.unseen.is_empty() => None,
        (0, 0) => Some(format!("Which frames were freed was not seen: {}.", judged.unseen.join(", "))),
        (_, 0) => Some(format!("{} frames were freed.", compact(*freed as f64))),
        _ => Some(format!(
            "{} frames were freed, and {} calls freed what is no memory by the rule's base: nothing is known of that.",
            compact(*freed as f64),
            compact(*unknown as f64)
        )),
    }
}

fn summary(judged: &Judged, end: &Summary, symbols: &Symbols) -> String {
    let [compared, others] = compared(end);
    let freed = freed(judged, end).map_or_else(String::new, |freed| freed + "\n");
    let mut text = format!("{}: {compared}\n{others}\n{freed}", verdict(judged, end));
    let is_named = |window: &Window| {
        window.changed.as_ref().is_some_and(|place| function(symbols, place.instruction).is_some())
    };
    if !symbols.is_empty() && !end.windows.is_empty() && !end.windows.iter().any(is_named) {
        text += "None of these addresses is in a function of --kernel: the guest needs `nokaslr`, or has another kernel.\n";
    }
    if !end.windows.is_empty() {
        text += "Changed entries could be used until they were flushed:\n";
    }
    for window in end.windows.iter().take(WINDOWS) {
        let (ms, mean) = (window.longest as f64 / 1e6, window.sum as f64 / window.count as f64 / 1e6);
        let _ =
            write!(text, "  {ms:.3} ms at most, {mean:.3} ms on average of {}", compact(window.count as f64));
        if window.given > 0 {
            let _ =
                write!(text, ", {} with frames that were given away meanwhile", compact(window.given as f64));
        }
        if let Some(place) = &window.changed {
            let _ = write!(text, ": {}", chain(place, symbols));
        }
        text.push('\n');
    }
    text
}
