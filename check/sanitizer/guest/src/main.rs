//! A guest of one CPU that tries each rule of invalidation, with the flush and without it.
//!
//! For each case it maps a page, loads from it, has the entry lead to another frame, executes the case's instructions and
//! loads again. Then it prints `find` or `none`, the page's address and the case. The sanitizer must find the pages with
//! `find` and no others; `cargo xtask sanitize` compares.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod guest;

#[cfg(not(target_os = "none"))]
fn main() {
    println!("`cargo xtask sanitize` runs it in QEMU");
}
