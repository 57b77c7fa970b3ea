//! Tables of text.

/// The rows under their header: words to the left, numbers to the right, two spaces between columns.
pub(crate) fn format<const N: usize>(header: [&str; N], rows: &[[String; N]]) -> String {
    let header = header.map(str::to_owned);
    let lines = || std::iter::once(&header).chain(rows);
    let width = |column: usize| lines().map(|line| line[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    let is_number = |text: &String| text == "-" || text.parse::<f64>().is_ok();
    let numbers: [bool; N] = std::array::from_fn(|column| rows.iter().all(|row| is_number(&row[column])));

    let mut text = String::new();
    for line in lines() {
        let cells = std::array::from_fn::<String, N, _>(|column| {
            let (cell, width) = (&line[column], widths[column]);
            if numbers[column] {
                format!("{cell:>width$}")
            } else {
                format!("{cell:width$}")
            }
        });
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
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
