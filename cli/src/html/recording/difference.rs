//! The page of two recordings: the ratios of their rates.

use ceasefire_linux::difference::{Difference, Profile};
use maud::html;

use super::super::page::document;
use super::bars::{self, Bar};
use crate::number::{compact, ratio};
use crate::replay::prediction::range;
use crate::results::{difference_name as name, difference_remarks};

/// The page. `command` is the command line that made it, and the names are those of the files.
pub(crate) fn of(command: &str, recordings: [(&str, &Profile); 2], found: &[Difference]) -> String {
    let bar = |difference: &Difference| {
        let (name, factor) = name(&difference.figure);
        let count = compact(difference.rates[1] * factor);
        Some(Bar { name: name.trim().to_owned(), count, ratio: difference.ratio?, spread: difference.spread })
    };
    let bars: Vec<Bar> = found.iter().filter_map(bar).collect();
    let caption = html! {
        b { "Ratios." } " The rates of the second recording in relation to those of the first, with the range that "
        "holds nine of ten. Two rates differ if the range does not hold 1."
    };
    let figure = bars::figure("ratios", caption, "second in relation to first", "second", &bars);
    let header = html! {
        h1 { "TLB shootdowns of two recordings" }
        p { "Made by ceasefire " (env!("CARGO_PKG_VERSION")) ":" }
        pre { code { (command) } }
        @for (which, (file, profile)) in ["First", "Second"].iter().zip(recordings) {
            p.facts {
                (which) ": " (file) ", "
                (profile.facts.kernel.split_whitespace().take(2).collect::<Vec<_>>().join(" ")) ", "
                (profile.facts.cpus.len()) " CPUs; " (compact(profile.facts.seconds())) " s"
            }
        }
    };
    let main = html! {
        section.result {
            @if let Some(figure) = figure { div.figures { (figure.shown("difference")) } }
            div.scroll { table {
                thead { tr { th {} th { "first" } th { "second" } th { "ratio" } th { "9 of 10 within" } th {} } }
                tbody { @for difference in found {
                    @let (name, factor) = name(&difference.figure);
                    tr {
                        th scope="row" { (name) }
                        @for rate in difference.rates { td { (compact(rate * factor)) } }
                        td { (ratio(difference.ratio)) } td { (range(difference.spread)) }
                        td.word { @if difference.is_clear() { "differs" } }
                    }
                } }
            } }
            @for remark in difference_remarks(recordings[0].1, recordings[1].1) { p.note { (remark) } }
        }
    };
    document("Ceasefire: two recordings", &header, &main)
}
