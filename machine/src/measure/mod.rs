pub(crate) mod reading;
pub(crate) mod series;
pub(crate) mod spent;
pub(crate) mod trace;
