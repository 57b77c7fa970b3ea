//! Tables put together, and rows picked from them.

use std::borrow::Cow;

use ceasefire_experiments::{Cells, Column};

/// The rows of all tables in one, with every column that any of them has. A cell is missing where its table has no such
/// column. Where a column has texts in one table and numbers in another, all are texts.
pub(crate) fn joined(tables: Vec<Vec<Column>>) -> Vec<Column> {
    if tables.len() <= 1 {
        return tables.into_iter().next().unwrap_or_default();
    }
    let mut names: Vec<Cow<'static, str>> = Vec::new();
    for column in tables.iter().flatten() {
        if !names.contains(&column.name) {
            names.push(column.name.clone());
        }
    }
    let join = |name: Cow<'static, str>| {
        let parts = tables.iter().map(|table| {
            let rows = table.first().map_or(0, |column| column.cells.len());
            (rows, table.iter().find(|column| column.name == name).map(|column| &column.cells))
        });
        let cells = join(parts.collect());
        Column { name, cells }
    };
    names.into_iter().map(join).collect()
}

/// One column of several tables, each with its number of rows.
fn join(parts: Vec<(usize, Option<&Cells>)>) -> Cells {
    macro_rules! all {
        ($kind:ident) => {
            if parts.iter().all(|(_, cells)| matches!(cells, Some(Cells::$kind(_)))) {
                let cells = parts.iter().filter_map(|(_, cells)| match cells {
                    Some(Cells::$kind(cells)) => Some(cells.iter().cloned()),
                    _ => None,
                });
                return Cells::$kind(cells.flatten().collect());
            }
        };
    }
    all!(Text);
    all!(Whole);
    all!(Number);
    all!(Flag);
    let is_number = |cells: Option<&Cells>| {
        matches!(cells, None | Some(Cells::Whole(_) | Cells::Number(_) | Cells::NumberOrNone(_)))
    };
    if parts.iter().all(|(_, cells)| is_number(*cells)) {
        let of = |(rows, cells): &(usize, Option<&Cells>)| match cells {
            Some(Cells::Number(cells)) => cells.iter().copied().map(Some).collect(),
            Some(Cells::NumberOrNone(cells)) => cells.clone(),
            Some(Cells::Whole(cells)) => cells.iter().map(|&cell| Some(cell as f64)).collect(),
            _ => vec![None; *rows],
        };
        return Cells::NumberOrNone(parts.iter().flat_map(of).collect());
    }
    let of = |(rows, cells): &(usize, Option<&Cells>)| -> Vec<Option<String>> {
        (0..*rows).map(|row| cells.and_then(|cells| text(cells, row))).collect()
    };
    Cells::TextOrNone(parts.iter().flat_map(of).collect())
}

/// A cell as a text.
fn text(cells: &Cells, row: usize) -> Option<String> {
    match cells {
        Cells::Text(cells) => Some(cells[row].clone()),
        Cells::TextOrNone(cells) => cells[row].clone(),
        Cells::Whole(cells) => Some(cells[row].to_string()),
        Cells::Number(cells) => Some(cells[row].to_string()),
        Cells::NumberOrNone(cells) => cells[row].map(|cell| cell.to_string()),
        Cells::Flag(cells) => Some(cells[row].to_string()),
    }
}

/// The rows with these numbers, in this order.
pub(crate) fn picked(table: &[Column], rows: &[usize]) -> Vec<Column> {
    fn of<T: Clone>(cells: &[T], rows: &[usize]) -> Vec<T> {
        rows.iter().map(|&row| cells[row].clone()).collect()
    }
    let column = |column: &Column| {
        let cells = match &column.cells {
            Cells::Text(cells) => Cells::Text(of(cells, rows)),
            Cells::TextOrNone(cells) => Cells::TextOrNone(of(cells, rows)),
            Cells::Whole(cells) => Cells::Whole(of(cells, rows)),
            Cells::Number(cells) => Cells::Number(of(cells, rows)),
            Cells::NumberOrNone(cells) => Cells::NumberOrNone(of(cells, rows)),
            Cells::Flag(cells) => Cells::Flag(of(cells, rows)),
        };
        Column { name: column.name.clone(), cells }
    };
    table.iter().map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(name: &'static str, cells: Cells) -> Column {
        Column { name: name.into(), cells }
    }

    #[test]
    fn a_column_that_one_table_lacks_has_missing_cells_there() {
        let some = |cells: &[Option<f64>]| Cells::NumberOrNone(cells.to_vec());
        let one = vec![column("a", Cells::Whole(vec![1])), column("b", some(&[Some(2.0)]))];
        let other = vec![column("a", Cells::Whole(vec![3, 4])), column("c", some(&[None, Some(5.0)]))];
        let expected = [
            column("a", Cells::Whole(vec![1, 3, 4])),
            column("b", some(&[Some(2.0), None, None])),
            column("c", some(&[None, None, Some(5.0)])),
        ];
        let all = joined(vec![one, other]);
        assert_eq!(all, expected);
        assert_eq!(picked(&all, &[2, 0])[1..2], [column("b", some(&[None, Some(2.0)]))]);
    }

    #[test]
    fn numbers_and_texts_are_texts() {
        let one = vec![column("a", Cells::NumberOrNone(vec![Some(0.5), None]))];
        let other = vec![column("a", Cells::TextOrNone(vec![Some("x".into())]))];
        let expected = Cells::TextOrNone(vec![Some("0.5".into()), None, Some("x".into())]);
        assert_eq!(joined(vec![one, other]), [column("a", expected)]);
    }
}
