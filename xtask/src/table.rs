//! Tables of text.

/// The rows under their header: words to the left, numbers to the right, two spaces between columns.
pub(crate) fn format(header: impl AsRef<[&'static str]>, rows: &[impl AsRef<[String]>]) -> String {
    let header: Vec<String> = header.as_ref().iter().map(|title| (*title).to_owned()).collect();
    let rows: Vec<&[String]> = rows.iter().map(AsRef::as_ref).collect();
    let is_number = |text: &str| text == "-" || text.parse::<f64>().is_ok();
    let columns = (0..header.len()).map(|column| {
        let cells = || rows.iter().map(|row| row[column].as_str());
        let width = cells().chain([header[column].as_str()]).map(|cell| cell.chars().count()).max();
        (cells().all(is_number), width.unwrap_or(0))
    });
    let columns: Vec<(bool, usize)> = columns.collect();
    let line = |cells: &[String]| {
        let cells = cells.iter().zip(&columns).map(|(cell, &(is_number, width))| {
            if is_number {
                format!("{cell:>width$}")
            } else {
                format!("{cell:width$}")
            }
        });
        format!("{}\n", cells.collect::<Vec<_>>().join("  ").trim_end())
    };
    [header.as_slice()].into_iter().chain(rows.iter().copied()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let rows = [["record", "58.0", "60"], ["switch_same", "9.5", "-"]].map(|row| row.map(str::to_owned));
        let expected = "case         count  bound\nrecord        58.0     60\nswitch_same    9.5      -\n";
        assert_eq!(format(["case", "count", "bound"], &rows), expected);
    }
}
