//! The results as one page: plots of the published figures and ours side by side, with the same numbers as tables.
//!
//! The page is a single file that asks no network for anything and runs no script: text, a style sheet, and figures in SVG.
//! A figure is drawn 360 units wide, for one column of a page or a phone held upright, so its type is as large as the text
//! in either; wider screens and paper set two beside each other. What a line or a bar stands for is told by its dashes, its
//! marks or its hatching as well as by its colour, so that it survives a printer without any.
//!
//! `page` puts everything in order; `group` says which results belong into one figure; `plot` knows scales, ticks and frames;
//! `ratios`, `lines` and `bars` draw the figures.

mod bars;
mod group;
mod lines;
mod page;
mod plot;
mod ratios;
#[cfg(test)]
mod testing;

pub(crate) use page::of;

/// The text with a capital letter first.
fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}
