//! TOML files that people write: a reader in which every part knows its place, and its errors.
//!
//! [`parse`] returns the whole file as a [`Section`]. Its reader takes out the keys that it knows, each as an [`Entry`],
//! and ends with [`Section::finish`], which refuses any other key and suggests the one that was meant. Each error is one
//! line, `file:line: key: problem`.

mod error;
mod reader;

pub use error::{Error, Problem};
pub(crate) use reader::nearest;
pub use reader::{parse, suggestion, Entry, Place, Section};
