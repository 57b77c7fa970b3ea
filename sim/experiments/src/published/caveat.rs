//! The reasons to doubt a figure of a run that is otherwise sound.

use serde::Serialize;

/// A reason to doubt a figure.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Caveat {
    /// It counts fewer events than [`FEW`](Self::FEW): so many.
    Few(u64),
    /// The run is smaller than the smallest scale whose ratios are known to be those of the paper's size: that scale.
    Scale(f64),
}

impl Caveat {
    /// The number of events below which a count says little. Independent events that are counted once vary by the root
    /// of their number, so 100 vary by a tenth.
    pub const FEW: u64 = 100;

    /// The word for it.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Few(_) => "few",
            Self::Scale(_) => "small",
        }
    }
}
