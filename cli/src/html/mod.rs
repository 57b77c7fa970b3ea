//! The results as an HTML page: plots of the published figures and ours side by side, with the same numbers as tables.
//!
//! The page is a single file with text, a style sheet, and figures in SVG. It needs no network and runs no script. A
//! figure is drawn 360 units wide, for one column of a page or a phone held upright, so its type is as large as the
//! text in either. Wider screens and paper set two figures beside each other. Lines and bars differ by dashes, marks or
//! hatching as well as by colour, so the page can be printed in black.
//!
//! `page` lays out the page, with a `contents` list of its sections, and `machines` describes the machines. `group`
//! decides which results belong in one figure. `plot` has scales, ticks and frames, `hatching` bars. `ratios`, `speed`,
//! `lines`, `bars` and `sensitivity` draw the figures, and `figure` sets each on the page with its legend, its numbers and its files to
//! download. `recording` is the page of a real machine's recording,
//! and `sanitizer` that of missing flushes.

mod bars;
mod contents;
mod figure;
mod group;
mod hatching;
mod lines;
mod machines;
mod page;
mod plot;
mod ratios;
pub(crate) mod recording;
pub(crate) mod sanitizer;
mod sensitivity;
mod speed;
#[cfg(test)]
pub(crate) mod testing;

pub(crate) use page::of;

/// The text with its first letter capitalised.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
