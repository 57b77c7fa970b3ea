//! Calls that reclaim has nothing to do with, and that a change to it may make slower.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::{io, ptr};

use super::pages::Outcome;

/// Starts a program that ends at once, so many times.
pub(crate) fn exec(count: usize) -> Outcome {
    for _ in 0..count {
        if !Command::new(std::env::current_exe()?).args(["nothing", "0", "0"]).status()?.success() {
            return Err("a program failed".into());
        }
    }
    Ok(())
}

/// Writes a small file and unlinks it, so many times.
pub(crate) fn unlink(thread: usize, count: usize, folder: &str) -> Outcome {
    let path = Path::new(folder).join(format!("small-{thread}"));
    for _ in 0..count {
        File::create(&path)?.write_all(&[1; 3 * 4096])?;
        fs::remove_file(&path)?;
    }
    Ok(())
}

/// Sends a byte to another process and back, so many times. The process runs where this thread may.
pub(crate) fn switch(count: usize) -> Outcome {
    let (mut from_child, mut to_parent) = io::pipe()?;
    let (mut from_parent, mut to_child) = io::pipe()?;
    // SAFETY: the child calls nothing but read, write and _exit, which do not need the other threads.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error().into()),
        0 => {
            while matches!(from_parent.read(&mut [0]), Ok(1)) && to_parent.write_all(&[0]).is_ok() {}
            // SAFETY: it does not return.
            unsafe { libc::_exit(0) }
        }
        child => {
            for _ in 0..count {
                to_child.write_all(&[0])?;
                from_child.read_exact(&mut [0])?;
            }
            // It would wait for ever: the children of other threads have its pipe, too.
            // SAFETY: the child is ours, and its state is not wanted.
            unsafe {
                libc::kill(child, libc::SIGKILL);
                libc::waitpid(child, ptr::null_mut(), 0);
            }
            Ok(())
        }
    }
}
