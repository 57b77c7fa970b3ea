//! What a CPU does about itself: it switches between address spaces, goes in and out of lazy mode, and comes and goes itself.

mod here;
mod presence;
mod switch;

pub(crate) use here::Here;
pub use switch::Previous;
