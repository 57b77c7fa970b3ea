//! Errors as Python's exceptions. Their texts are the command line's lines.

use std::fmt::Display;

use pyo3::create_exception;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    ceasefire,
    InputError,
    PyValueError,
    "A name, a value or a file that is not allowed. Its text is the command line's line."
);
create_exception!(ceasefire, RunError, PyRuntimeError, "A run that began and has no result.");

/// The exception for an input that is not allowed.
pub(crate) fn input(message: impl Display) -> PyErr {
    InputError::new_err(message.to_string())
}
