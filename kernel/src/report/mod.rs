//! What a run tells the outside: lines on the serial port ([`log`]), counters and the result ([`result`]), and on a failure
//! the last events of each CPU ([`event`], [`failure`]).

pub(crate) mod event;
pub(crate) mod failure;
pub(crate) mod log;
pub(crate) mod parameters;
pub(crate) mod result;
pub(crate) mod watchdog;
