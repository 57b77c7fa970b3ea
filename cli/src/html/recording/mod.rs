//! The page of a recording: what was observed and, of a replay, what other mechanisms would have done.
//!
//! `timeline` draws the requests over time, `matrix` those from each CPU to each, and `bars` those of each mechanism.
//! `difference` is the page of two recordings.

mod bars;
mod difference;
mod matrix;
mod timeline;

pub(crate) use difference::of as difference;

use ceasefire_linux::locks::Locks;
use ceasefire_linux::recording::Count;
use ceasefire_linux::replay::Replay;
use maud::{html, Markup};

use self::bars::Bar;
use super::figure::Figure;
use super::page::document;
use crate::args::By;
use crate::locks::{cells, idle, told, HEADS, ORDER, SHOWN, WORDS};
use crate::number::compact;
use crate::replay::advice::{advice, misfit, reasons};
use crate::replay::prediction::{parts, Part, Prediction};

/// The rows of a table of processes.
const PROCESSES: usize = 20;

/// The page. `command` is the command line that made it, and `name` the recording's file.
pub(crate) fn of(command: &str, name: &str, replayed: &Replay, predictions: &[Prediction]) -> String {
    let facts = &replayed.facts;
    let observed = &replayed.observed;
    let requests = replayed.observed_requests();
    let advice = advice(replayed, predictions);
    let header = html! {
        h1 { "TLB shootdowns of " (name) }
        p { "Made by ceasefire " (env!("CARGO_PKG_VERSION")) ":" }
        pre { code { (command) } }
        p.facts {
            (facts.kernel_name()) ", " (facts.processor) ", "
            (facts.cpus.len()) " CPUs; " (compact(facts.seconds())) " s, " (replayed.events) " events"
        }
        p {
            (requests) " requests to flush TLBs, " (compact(requests as f64 / facts.seconds())) "/s"
            @if facts.counted == Count::Sent { ", by " (observed.asked.interrupts) " interrupts" } ". Senders waited " (compact(observed.totals.all.sender_ns as f64 / 1e6)) " ms, handlers ran "
            (compact(observed.totals.all.victim_ns as f64 / 1e6)) " ms."
        }
        @if let Some(misfit) = misfit(replayed, predictions) { div.alarm { p { strong { (misfit) } } } }
        @if !advice.is_empty() { ul { @for line in &advice { li { (line) } } } }
    };
    let figures: Vec<Figure> = [timeline::figure(replayed), Some(matrix::figure(replayed))]
        .into_iter()
        .chain([what_ifs(predictions)])
        .flatten()
        .collect();
    let main = html! {
        section.result {
            div.figures { @for figure in &figures { (figure.shown("recording")) } }
            h3 { "Causes" }
            (causes(replayed))
            h3 { "Processes" }
            (division(replayed, predictions, By::Process))
            (waits(replayed))
            @if !predictions.is_empty() {
                @for reason in reasons(replayed, predictions) { p.note { (reason) } }
            }
        }
    };
    document(&format!("Ceasefire: {name}"), &header, &main)
}

/// The requests of each mechanism in relation to those that were observed.
fn what_ifs(predictions: &[Prediction]) -> Option<Figure> {
    let bar = |prediction: &Prediction| {
        let count = prediction.predicted.asked.requests.to_string();
        Some(Bar {
            name: prediction.name.clone(),
            count,
            ratio: prediction.ratio?,
            spread: prediction.spread,
        })
    };
    let bars: Vec<Bar> = predictions.iter().filter_map(bar).collect();
    let caption = html! {
        b { "Other mechanisms." } " Their requests in relation to those observed, with the range that holds nine of "
        "ten. The first bar is the test of the model."
    };
    bars::figure("what-ifs", caption, "requests in relation to those observed", "requests", &bars)
}

fn causes(replayed: &Replay) -> Markup {
    let mut causes: Vec<_> = replayed.observed.totals.causes.iter().collect();
    causes.sort_by_key(|(cause, sum)| (std::cmp::Reverse((sum.requests, sum.flushes)), **cause));
    html! {
        div.scroll { table {
            thead { tr {
                th { "cause" } th { "flushes" } th { "requests" } th { "interrupts" } th { "senders waited, ms" } th { "handlers ran, ms" }
            } }
            tbody { @for (cause, sum) in causes { tr {
                th scope="row" { (cause.name()) } td { (sum.flushes) } td { (sum.requests) }
                td { @if replayed.facts.counted == Count::Sent { (sum.interrupts) } }
                td { (compact(sum.sender_ns as f64 / 1e6)) } td { (compact(sum.victim_ns as f64 / 1e6)) }
            } } }
        } }
    }
}

/// The locks most waited for.
fn waits(replayed: &Replay) -> Markup {
    let Replay { facts, names, observed, .. } = replayed;
    let rows = told(&observed.locks, facts).map(Locks::rows).unwrap_or_default();
    html! {
        @if !rows.is_empty() {
            h3 { "Waits for locks" }
            div.scroll { table {
                thead { tr { @for head in HEADS { th { (head) } } } }
                tbody { @for row in rows.iter().take(2 * SHOWN) { tr {
                    @for (at, cell) in cells(row, names, facts).iter().enumerate() {
                        @if at == 0 { th scope="row" { (cell) } }
                        @else if at < WORDS { td.word { (cell) } }
                        @else { td { (cell) } }
                    }
                } } }
            } }
            p.note {
                "The rows are " (ORDER) ". 'During flushes': the part of the time during which interrupts for flushes of the same process were "
                "under way. Fewer flushes save at most that."
            }
        }
        @if let Some(idle) = told(&observed.locks, facts).and_then(|locks| idle(locks.idle)) {
            p.note { (idle) }
        }
    }
}

/// The requests in parts, observed and of each prediction.
fn division(replayed: &Replay, predictions: &[Prediction], by: By) -> Markup {
    let rows: Vec<(Part, Vec<u64>)> = parts(replayed, predictions, by).into_iter().take(PROCESSES).collect();
    html! {
        div.scroll { table {
            thead { tr {
                th { "requests by" } th { "observed" } @for prediction in predictions { th { (prediction.name) } }
            } }
            tbody { @for (part, counts) in rows { tr {
                th scope="row" { (part.name(replayed)) } @for count in counts { td { (count) } }
            } } }
        } }
    }
}
