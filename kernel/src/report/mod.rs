//! The output of a run. [`log`] prints lines on the serial port, [`parameters`] holds the run's options and counters,
//! [`result`] prints the result, and [`watchdog`] ends a run that makes no progress.

pub(crate) mod log;
pub(crate) mod parameters;
pub(crate) mod result;
pub(crate) mod watchdog;
