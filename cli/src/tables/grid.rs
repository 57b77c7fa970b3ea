//! A table of text that fits a given width.
//!
//! Rows stand under headings that may be as wide as the whole table, so that no column needs room for long names. A
//! table that is too wide leaves out whole columns, the least important first, and then shortens the names in its first
//! one.

use std::borrow::Cow;

use crate::terminal;

/// A column.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    head: &'static str,
    is_number: bool,
    /// Columns with a higher rank are left out first. Those of rank 0 always stay.
    rank: u8,
}

impl Column {
    /// A column of words.
    pub(crate) const fn words(head: &'static str, rank: u8) -> Self {
        Self { head, is_number: false, rank }
    }

    /// A column of numbers, aligned at their end.
    pub(crate) const fn numbers(head: &'static str, rank: u8) -> Self {
        Self { head, is_number: true, rank }
    }
}

/// The width of the first column, in characters, below which its names are not shortened.
const NAMES: usize = 12;

#[derive(Debug)]
enum Line {
    Heading(String),
    Row(Vec<String>),
}

/// A table.
#[derive(Debug)]
pub(crate) struct Grid {
    columns: Vec<Column>,
    lines: Vec<Line>,
}

impl Grid {
    pub(crate) fn new(columns: &[Column]) -> Self {
        Self { columns: columns.to_vec(), lines: Vec::new() }
    }

    /// Adds a line of text across all columns.
    pub(crate) fn heading(&mut self, text: impl Into<String>) {
        self.lines.push(Line::Heading(text.into()));
    }

    /// Adds a row with a cell for each column. Missing cells are empty.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        let mut cells: Vec<String> = cells.into_iter().collect();
        cells.resize(self.columns.len(), String::new());
        self.lines.push(Line::Row(cells));
    }

    /// The table as text, at most `width` characters wide if the columns of rank 0 are with a first one of [`NAMES`].
    /// Columns without any cell are left out.
    pub(crate) fn text(&self, width: usize) -> String {
        let mut widths: Vec<usize> = (0..self.columns.len()).map(|column| self.width_of(column)).collect();
        let sizes: Vec<(usize, u8)> =
            widths.iter().zip(&self.columns).map(|(width, column)| (*width, column.rank)).collect();
        let shown = fitting(&sizes, width);
        let total = shown.iter().map(|&column| widths[column] + 1).sum::<usize>();
        if let Some(&first) = shown.first() {
            let left = widths[first].saturating_sub(total.saturating_sub(width + 1));
            widths[first] = widths[first].min(left.max(NAMES));
        }
        let line = |cells: &dyn Fn(usize) -> String| {
            let padded = shown.iter().map(|&column| {
                let (cell, width) = (shortened(cells(column), widths[column]), widths[column]);
                if self.columns[column].is_number {
                    format!("{cell:>width$}")
                } else {
                    format!("{cell:<width$}")
                }
            });
            padded.collect::<Vec<_>>().join(" ").trim_end().to_owned()
        };
        let mut lines = Vec::new();
        if !shown.is_empty() {
            lines.push(line(&|column| self.columns[column].head.to_owned()));
        }
        for row in &self.lines {
            match row {
                Line::Row(cells) => lines.push(line(&|column| cells[column].clone())),
                Line::Heading(heading) => lines.extend(wrapped(heading, width)),
            }
        }
        lines.join("\n") + "\n"
    }

    /// The width of a column, or 0 if it has no cell.
    fn width_of(&self, column: usize) -> usize {
        let cells = self.lines.iter().filter_map(|line| match line {
            Line::Row(cells) => Some(cells[column].chars().count()),
            Line::Heading(_) => None,
        });
        match cells.max().unwrap_or(0) {
            0 => 0,
            widest => widest.max(self.columns[column].head.chars().count()),
        }
    }
}

/// The columns that fit a width, of the width and the rank of each. Columns with a higher rank are left out first, those of
/// rank 0 never, and those without a width always.
pub(crate) fn fitting(columns: &[(usize, u8)], width: usize) -> Vec<usize> {
    let mut shown: Vec<usize> = (0..columns.len()).filter(|&column| columns[column].0 > 0).collect();
    let total = |shown: &[usize]| shown.iter().map(|&column| columns[column].0 + 1).sum::<usize>();
    while total(&shown) > width + 1 {
        match shown.iter().enumerate().max_by_key(|(_, &column)| columns[column].1) {
            Some((place, &column)) if columns[column].1 > 0 => shown.remove(place),
            _ => break,
        };
    }
    shown
}

/// A text of at most `width` characters: an ellipsis stands for the rest.
fn shortened(text: String, width: usize) -> String {
    match text.char_indices().nth(width) {
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
        None => text,
    }
}

/// The lines of a text, broken between words. All but the first are indented.
pub(crate) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let lines = textwrap::wrap(text, terminal::lines(width, "", "    "));
    lines.into_iter().map(Cow::into_owned).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grid() -> Grid {
        let mut grid = Grid::new(&[
            Column::words("", 0),
            Column::numbers("median", 0),
            Column::numbers("range", 2),
            Column::words("basis", 1),
            Column::numbers("never", 0),
        ]);
        grid.heading("elapsed time, s");
        grid.row(["  per-page", "1.52"].map(String::from));
        grid.row(["  batched", "1.1", "1.05-1.2", "predicted"].map(String::from));
        grid
    }

    #[test]
    fn columns_are_aligned_and_empty_ones_left_out() {
        assert_eq!(
            grid().text(80),
            "           median    range basis\n\
             elapsed time, s\n\
             \x20 per-page   1.52\n\
             \x20 batched     1.1 1.05-1.2 predicted\n"
        );
    }

    #[test]
    fn a_table_without_rows_has_no_heads() {
        let mut grid = Grid::new(&[Column::words("", 0), Column::numbers("median", 0)]);
        grid.heading("nothing");
        assert_eq!(grid.text(80), "nothing\n");
    }

    #[test]
    fn a_narrow_table_leaves_out_the_least_important_columns() {
        assert!(grid().text(27).contains("predicted") && !grid().text(27).contains("1.05"));
        assert!(!grid().text(17).contains("predicted") && grid().text(17).contains("1.52"));
    }

    #[test]
    fn a_table_that_is_still_too_wide_shortens_its_names() {
        let mut grid = grid();
        grid.row(["  a name of many words".into(), "1.25".into()]);
        assert_eq!(
            grid.text(24),
            "                  median\n\
             elapsed time, s\n\
             \x20 per-page          1.52\n\
             \x20 batched            1.1\n\
             \x20 a name of many…   1.25\n"
        );
        // A name keeps so much.
        assert!(grid.text(5).contains("  a name of…   1.25\n"), "{}", grid.text(5));
    }

    proptest! {
        #[test]
        fn no_line_is_wider_than_asked_for(
            width in 19_usize..120, name in "[a-z]{1,60}", headings in prop::collection::vec("([a-z]{1,9} ){1,20}", 1..4),
        ) {
            let mut grid = grid();
            grid.row([name, "1.25".into()]);
            for heading in &headings {
                grid.heading(heading.trim());
            }
            let text = grid.text(width);
            prop_assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }
}
