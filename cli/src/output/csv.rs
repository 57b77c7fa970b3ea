//! The table of figures as comma-separated values (RFC 4180). An unknown value is empty.

use ceasefire_experiments::{Cells, Column};

use crate::failure::Failure;

pub(super) fn text(columns: &[Column]) -> Result<Vec<u8>, Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let names = columns.iter().map(|column| column.name.as_ref());
    let mut written = writer.write_record(names);
    for row in 0..rows {
        written = written
            .and_then(|()| writer.write_record(columns.iter().map(|column| shown(&column.cells, row))));
    }
    written.map_err(Failure::input)?;
    writer.into_inner().map_err(Failure::input)
}

/// A cell as text.
fn shown(cells: &Cells, row: usize) -> String {
    match cells {
        Cells::Text(cells) => cells[row].clone(),
        Cells::TextOrNone(cells) => cells[row].clone().unwrap_or_default(),
        Cells::Whole(cells) => cells[row].to_string(),
        Cells::Number(cells) => cells[row].to_string(),
        Cells::NumberOrNone(cells) => cells[row].map_or(String::new(), |number| number.to_string()),
        Cells::Flag(cells) => cells[row].to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_unknown_ones_empty() {
        let columns = [
            Column { name: "a".into(), cells: Cells::Text(vec!["x, \"y\"".into(), "z".into()]) },
            Column { name: "b".into(), cells: Cells::NumberOrNone(vec![None, Some(0.5)]) },
            Column { name: "c".into(), cells: Cells::Whole(vec![u64::MAX, 0]) },
        ];
        let text = String::from_utf8(text(&columns).expect("a table")).expect("UTF-8");
        assert_eq!(text, "a,b,c\n\"x, \"\"y\"\"\",,18446744073709551615\nz,0.5,0\n");
    }
}
