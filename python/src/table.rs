//! Tables of pyarrow.

use ceasefire_experiments::{Cells, Column};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The table with these columns.
pub(crate) fn table(py: Python<'_>, columns: Vec<Column>) -> PyResult<Bound<'_, PyAny>> {
    let arrow = py.import("pyarrow")?;
    let arrays = PyDict::new(py);
    for Column { name, cells } in columns {
        let (kind, cells) = match cells {
            Cells::Text(cells) => ("string", cells.into_pyobject(py)?),
            Cells::TextOrNone(cells) => ("string", cells.into_pyobject(py)?),
            Cells::Whole(cells) => ("uint64", cells.into_pyobject(py)?),
            Cells::Number(cells) => ("float64", cells.into_pyobject(py)?),
            Cells::NumberOrNone(cells) => ("float64", cells.into_pyobject(py)?),
            Cells::Flag(cells) => ("bool_", cells.into_pyobject(py)?),
        };
        arrays.set_item(name.as_ref(), arrow.call_method1("array", (cells, arrow.call_method0(kind)?))?)?;
    }
    arrow.call_method1("table", (arrays,))
}
