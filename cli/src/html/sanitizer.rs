//! The page of `ceasefire sanitize`: for each find a table with a column for each CPU, in which time runs downwards.

use std::collections::BTreeSet;

use ceasefire_linux::kernel::symbols::Symbols;
use ceasefire_sanitizer::find::{Find, Place, Window};
use maud::{html, Markup};

use super::page::document;
use crate::number::compact;
use crate::sanitize::events::{events, milliseconds, rule, told};
use crate::sanitize::symbols::{named, short};
use crate::sanitize::text::{compared, counted, freed, short_of, verdict};
use crate::sanitize::Judged;

/// The page. `command` is the command line that made it.
pub(crate) fn of(command: &str, judged: &Judged, symbols: &Symbols) -> String {
    let header = html! {
        h1 { "Missing flushes" }
        p { "Made by ceasefire " (env!("CARGO_PKG_VERSION")) ":" }
        pre { code { (command) } }
        @match &judged.end {
            Some(end) => {
                p.facts { @for sentence in compared(end).into_iter().chain(freed(judged, end)) { (sentence) " " } }
                p { (verdict(judged, end)) "." }
            },
            None => div.alarm { p { "The report is not whole: QEMU was ended, or the file is cut off." } },
        }
    };
    let main = html! {
        @if judged.finds.len() > 1 {
            section { ol { @for (number, (find, uses)) in judged.finds.iter().enumerate() { li {
                a href=(format!("#find-{}", number + 1)) { (short_of(find, *uses, symbols)) }
            } } } }
        }
        @for (number, (find, uses)) in judged.finds.iter().enumerate() {
            section id=(format!("find-{}", number + 1)) { (shown(number + 1, find, *uses, symbols)) }
        }
        @if !judged.suppressed.is_empty() {
            section {
                h2 { "Suppressed" }
                ul { @for (rule, finds, uses) in &judged.suppressed { li {
                    (counted(*finds, *uses)) ": "
                    (rule.reason)
                } } }
            }
        }
        @if let Some(end) = &judged.end { @if !end.windows.is_empty() {
            section { h2 { "Windows" } (windows(&end.windows, symbols)) }
        } }
    };
    document("Ceasefire: missing flushes", &header, &main)
}

fn shown(number: usize, find: &Find, uses: Option<u64>, symbols: &Symbols) -> Markup {
    let (kind, rule) = (find.kind.name(), rule(find.kind));
    let events = events(find);
    let cpus: BTreeSet<usize> = events.iter().map(|event| event.place.cpu).collect();
    html! {
        h2 { (number) ". " (kind) " " span { (rule) } }
        p { (told(find)) "." @if let Some(uses) = uses.filter(|uses| *uses > 1) { " " (compact(uses as f64)) " alike." } }
        div.scroll { table {
            thead { tr { th { "ms" } @for cpu in &cpus { th.word { "CPU " (cpu) } } } }
            tbody { @for event in &events { tr {
                th scope="row" { (milliseconds(event.place, &find.used)) }
                @for cpu in &cpus { td.word {
                    @if *cpu == event.place.cpu {
                        b { (event.what) } @if !event.more.is_empty() { " " (event.more) } br;
                        (code(event.place, symbols))
                    }
                } }
            } } }
        } }
        @if find.changed.is_none() { p.note { "The change of its entry was not seen." } }
        @if find.dropped.is_none() { p.note { "CPU " (find.used.cpu) " has flushed nothing before." } }
    }
}

/// The functions of a place, newest first.
fn code(place: &Place, symbols: &Symbols) -> Markup {
    html! {
        code { (named(symbols, place.instruction)) }
        @for caller in &place.callers { br; code.quiet { "by " (short(symbols, *caller)) } }
    }
}

fn windows(windows: &[Window], symbols: &Symbols) -> Markup {
    html! {
        p { "How long changed entries could be used until they were flushed, by the code that changed them." }
        div.scroll { table {
            thead { tr {
                th.word { "changed by" } th { "longest, ms" } th { "mean, ms" } th { "entries" }
                th { "frames given away meanwhile" }
            } }
            tbody { @for window in windows { tr {
                th.word scope="row" { @if let Some(place) = &window.changed { (code(place, symbols)) } }
                td { (format!("{:.3}", window.longest as f64 / 1e6)) }
                td { (format!("{:.3}", window.sum as f64 / window.count.max(1) as f64 / 1e6)) }
                td { (window.count) } td { (window.given) }
            } } }
        } }
    }
}
