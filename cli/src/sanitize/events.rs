//! What a find says, and its events in the order of their times.

use ceasefire_sanitizer::find::{Find, Kind, Place};

/// An event of a find.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    /// What happened.
    pub(crate) what: &'static str,
    /// What else is known of it.
    pub(crate) more: String,
    /// Where.
    pub(crate) place: &'a Place,
}

/// The rule that is broken.
pub(crate) fn rule(kind: Kind) -> &'static str {
    match kind {
        Kind::StaleUse => "R7",
        Kind::Incoherence => "R6",
        Kind::LateUse => "R3",
        Kind::Reuse | Kind::Held => "R1",
        Kind::TableReuse => "R2",
    }
}

/// What happened, in a sentence.
pub(crate) fn told(find: &Find) -> String {
    let Find { used, address, frame, other, .. } = find;
    let cpu = used.cpu;
    let did = match (find.faulted, find.store) {
        (true, _) => "faulted for",
        (_, true) => "stored to",
        _ if find.fetch => "fetched an instruction from",
        _ => "loaded from",
    };
    let why = match find.kind {
        Kind::TableReuse => {
            return format!(
                "CPU {cpu} could walk the page table in frame {frame:#x} for {address:#x} until it flushed, \
                 although that was no longer linked and had been given away"
            )
        }
        Kind::Held => {
            return format!(
                "CPU {cpu} could use frame {frame:#x} for {address:#x} until it flushed, although its page tables had \
                 lost that, and the frame had been given away"
            )
        }
        Kind::StaleUse => {
            format!("and might have used frame {other:#x} instead, of which it was not told to forget")
        }
        Kind::Incoherence => format!("although its page tables had frame {other:#x} by then"),
        Kind::LateUse if find.faulted => "which it could still have had: the change was over".to_owned(),
        Kind::LateUse if find.store => {
            "although its page tables forbade it or had the page as clean, and the change was over".to_owned()
        }
        Kind::LateUse => "although its page tables had lost it, and the change was over".to_owned(),
        Kind::Reuse => "although its page tables had lost it, and the frame had been given away".to_owned(),
    };
    format!("CPU {cpu} {did} {address:#x}, frame {frame:#x}, {why}")
}

/// The events.
pub(crate) fn events(find: &Find) -> Vec<Event<'_>> {
    let event = |what, place| Event { what, more: String::new(), place };
    let is_table = find.kind == Kind::TableReuse;
    let mut events = vec![event(if is_table { "walked first" } else { "used first" }, &find.cached)];
    if let Some(changed) = &find.changed {
        let more = format!("from {:#x} to {:#x}", changed.before, changed.after);
        events.push(Event {
            what: if is_table { "unlinked" } else { "changed" },
            more,
            place: &changed.place,
        });
    }
    events.extend(find.written.as_ref().map(|place| event("new one written", place)));
    events.extend(find.given.as_ref().map(|place| event("given away", place)));
    events.extend(find.dropped.as_ref().map(|place| event("last flush of any", place)));
    let used = match (is_table || find.kind == Kind::Held, find.faulted) {
        (true, _) => "flushed",
        (_, true) => "faulted",
        _ => "used",
    };
    events.push(event(used, &find.used));
    events.sort_by_key(|event| event.place.time);
    events
}

/// The time of an event before or after another, in milliseconds.
pub(crate) fn milliseconds(place: &Place, to: &Place) -> String {
    format!("{:+.3}", (place.time as f64 - to.time as f64) / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_in_their_order() {
        let place = |time| Place { cpu: 0, time, instruction: 1, callers: Vec::new() };
        let find = Find {
            given: Some(place(4_000_000)),
            dropped: Some(place(0)),
            ..Find::new(Kind::Reuse, place(5_000_000), 0, 1, place(1_000_000))
        };
        let events = events(&find);
        let all: Vec<_> =
            events.iter().map(|event| (event.what, milliseconds(event.place, &find.used))).collect();
        let expected = [
            ("last flush of any", "-5.000"),
            ("used first", "-4.000"),
            ("given away", "-1.000"),
            ("used", "+0.000"),
        ];
        assert_eq!(all, expected.map(|(what, time)| (what, time.to_owned())));
        let held = Find { kind: Kind::Held, ..find.clone() };
        let text = told(&held);
        assert!(text.starts_with("CPU 0 could use frame 0x1 for 0x0 until it flushed, "), "{text}");
        assert_eq!(super::events(&held).last().map(|event| event.what), Some("flushed"));
    }
}
