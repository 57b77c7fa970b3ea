//! What a CPU does about itself: it switches between address spaces, and goes in and out of lazy mode.

mod here;
mod switch;

pub(crate) use here::Here;
pub use switch::Previous;
