//! The operations of a CPU on itself: switching between spaces, lazy mode, and going offline and online.

mod here;
mod presence;
mod switch;

pub(crate) use here::Here;
pub use switch::Previous;
