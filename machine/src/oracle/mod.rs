pub(crate) mod holdings;
pub(crate) mod judge;
pub(crate) mod shadow;
