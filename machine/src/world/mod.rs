pub(crate) mod invalidate;
pub(crate) mod state;
pub(crate) mod task;
pub(crate) mod timeline;
pub(crate) mod timer;
