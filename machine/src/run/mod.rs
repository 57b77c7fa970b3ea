pub(crate) mod program;
pub(crate) mod simulation;
