pub(crate) mod contents;
pub(crate) mod device;
pub(crate) mod may_hold;
pub(crate) mod outdated;
pub(crate) mod prices;
pub(crate) mod ram;
pub(crate) mod tlb;
