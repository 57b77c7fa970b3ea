//! The information that the loader hands over: the command line, a description of the machine
//! (`device_tree`, for machines without ACPI), and the memory in use ([`free_memory`]). This folder needs no machine;
//! its tests run on the host.

#[cfg(any(all(target_os = "none", target_arch = "aarch64"), test))]
pub(crate) mod device_tree;
pub(crate) mod free_memory;

/// The information from the loader.
#[cfg(target_os = "none")]
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loaded {
    /// The largest free piece of memory.
    pub(crate) memory: free_memory::Piece,
    /// The file with the programs.
    pub(crate) programs: &'static [u8],
    /// The command line.
    pub(crate) command_line: &'static str,
}
