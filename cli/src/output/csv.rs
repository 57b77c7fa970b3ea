//! The table of figures as comma-separated values (RFC 4180). An unknown value is empty.

use super::tidy::{Cells, Column};
use crate::failure::Failure;

pub(super) fn text(columns: &[Column]) -> Result<Vec<u8>, Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let names = columns.iter().map(|column| column.name);
    let mut written = writer.write_record(names);
    for row in 0..rows {
        written =
            written.and_then(|()| writer.write_record(columns.iter().map(|column| column.cells.shown(row))));
    }
    written.map_err(Failure::input)?;
    writer.into_inner().map_err(Failure::input)
}

impl Cells {
    fn len(&self) -> usize {
        match self {
            Self::Text(cells) => cells.len(),
            Self::TextOrNone(cells) => cells.len(),
            Self::Whole(cells) => cells.len(),
            Self::Number(cells) => cells.len(),
            Self::NumberOrNone(cells) => cells.len(),
            Self::Flag(cells) => cells.len(),
        }
    }

    fn shown(&self, row: usize) -> String {
        match self {
            Self::Text(cells) => cells[row].clone(),
            Self::TextOrNone(cells) => cells[row].clone().unwrap_or_default(),
            Self::Whole(cells) => cells[row].to_string(),
            Self::Number(cells) => cells[row].to_string(),
            Self::NumberOrNone(cells) => cells[row].map_or(String::new(), |number| number.to_string()),
            Self::Flag(cells) => cells[row].to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_and_unknown_ones_empty() {
        let columns = [
            Column { name: "a", cells: Cells::Text(vec!["x, \"y\"".into(), "z".into()]) },
            Column { name: "b", cells: Cells::NumberOrNone(vec![None, Some(0.5)]) },
            Column { name: "c", cells: Cells::Whole(vec![u64::MAX, 0]) },
        ];
        let text = String::from_utf8(text(&columns).expect("a table")).expect("UTF-8");
        assert_eq!(text, "a,b,c\n\"x, \"\"y\"\"\",,18446744073709551615\nz,0.5,0\n");
    }
}
