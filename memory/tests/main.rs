//! The tests of the memory manager, on a machine whose CPUs are driven by hand. They are one program: each file as a
//! program of its own would be linked with the memory manager once more.

mod common;

mod aging;
mod area_locks;
mod bounds;
mod carried;
mod ended;
mod files;
mod fork;
mod huge;
mod kernel_ranges;
mod laws;
mod lru_drain;
mod messages;
mod migration;
mod orders;
mod owing;
mod programs;
mod protection;
mod ranges;
mod second_looks;
mod shadow;
mod swap;
mod tables;
mod threads;
