//! The ways into the kernel, one folder for each architecture: from the loader, or the firmware that starts another CPU
//! (`boot`), and by exceptions, interrupts and system calls (`trap`). Each has its assembly beside it.

#[cfg(target_arch = "aarch64")]
mod aarch64;
#[cfg(target_arch = "x86_64")]
mod x86_64;
