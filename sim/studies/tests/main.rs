//! Studies from outside.

mod fit;
mod sweeps;
