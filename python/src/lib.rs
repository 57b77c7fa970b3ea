//! The Python package `ceasefire`: the experiments' runs, machines, workload files and studies.
//!
//! The package is the command line's equal: names, figures and the texts of errors are those of `ceasefire-experiments`.
//! Tables are built by pyarrow, the package's only dependency.

mod apart;
mod data_set;
mod error;
mod experiment;
mod machine;
mod result;
mod row;
mod run;
mod study;
mod sweep;
mod table;

use pyo3::prelude::*;

/// The extension module of the package.
#[pymodule]
mod _ceasefire {
    #[pymodule_export]
    use crate::data_set::DataSet;
    #[pymodule_export]
    use crate::error::{InputError, RunError};
    #[pymodule_export]
    use crate::experiment::{experiments, Experiment, Workload};
    #[pymodule_export]
    use crate::machine::{machines, Machine, Parameter};
    #[pymodule_export]
    use crate::result::Result;
    #[pymodule_export]
    use crate::row::{Progress, Row};
    #[pymodule_export]
    use crate::run::run;
    #[pymodule_export]
    use crate::study::{Point, Study};
    #[pymodule_export]
    use crate::sweep::sweep_on_threads;

    use super::{Bound, PyModule, PyModuleMethods as _, PyResult};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
