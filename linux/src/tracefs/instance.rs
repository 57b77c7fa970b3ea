//! Buffers of one's own.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process;

use rustix::fs::OFlags;

use crate::tracefs::error::Unavailable;

/// The beginning of the names of our instances. The process and the time of its start follow, so that no living
/// program's instance is taken for one that was left behind.
const PREFIX: &str = "ceasefire-";

/// A set of ring buffers with its own events. It is removed when it is dropped.
#[derive(Debug)]
pub struct Instance {
    root: PathBuf,
}

/// The records of one CPU.
#[derive(Debug)]
pub struct Stream {
    /// The CPU.
    pub cpu: u32,
    file: File,
}

impl Instance {
    /// Makes an instance in the folder `instances`, and removes those that killed programs have left.
    pub(super) fn new(instances: PathBuf) -> Result<Self, Unavailable> {
        let mine = name_of(process::id()).unwrap_or_else(|| format!("{PREFIX}{}", process::id()));
        for left in fs::read_dir(&instances).into_iter().flatten().flatten() {
            let name = left.file_name();
            if name.to_str().is_some_and(|name| is_left_behind(name, name_of)) {
                // Another program may be removing it too.
                let _ = fs::remove_dir(left.path());
            }
        }
        let mut root = instances.join(&mine);
        // A program may make several.
        for number in 1.. {
            match fs::create_dir(&root) {
                Ok(()) => break,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    root = instances.join(format!("{mine}-{number}"));
                }
                Err(error) => return Err(Unavailable::of(&root, &error)),
            }
        }
        Ok(Self { root })
    }

    /// The path of a file of the instance.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Writes a setting, such as `trace_clock`.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn set(&self, name: &str, value: &str) -> Result<(), Unavailable> {
        let path = self.path(name);
        let written =
            OpenOptions::new().write(true).open(&path).and_then(|mut file| file.write_all(value.as_bytes()));
        written.map_err(|error| Unavailable::of(&path, &error))
    }

    /// The text of a file, such as `saved_cmdlines`.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn get(&self, name: &str) -> Result<String, Unavailable> {
        let path = self.path(name);
        fs::read_to_string(&path).map_err(|error| Unavailable::of(&path, &error))
    }

    /// The records of every CPU.
    ///
    /// # Errors
    /// If they cannot be opened.
    pub fn streams(&self) -> Result<Vec<Stream>, Unavailable> {
        let folder = self.root.join("per_cpu");
        let failed = |error: io::Error| Unavailable::of(&folder, &error);
        let mut streams = Vec::new();
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let Some(cpu) = name.strip_prefix("cpu").and_then(|cpu| cpu.parse().ok()) else { continue };
            let path = path.join("trace_pipe_raw");
            let flags = OFlags::NONBLOCK.bits().cast_signed();
            let file = OpenOptions::new().read(true).custom_flags(flags).open(&path);
            streams.push(Stream { cpu, file: file.map_err(|error| Unavailable::of(&path, &error))? });
        }
        streams.sort_by_key(|stream| stream.cpu);
        Ok(streams)
    }

    /// The bytes of a page of the buffers.
    pub fn page_bytes(&self) -> usize {
        // Before Linux 6.8 it was the page of the memory.
        let kib = self.get("buffer_subbuf_size_kb").ok().and_then(|kib| kib.trim().parse::<usize>().ok());
        kib.map_or_else(rustix::param::page_size, |kib| kib * 1024)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // If it fails, because a file of it is still open, the next start removes it.
        let _ = self.set("tracing_on", "0");
        let _ = fs::remove_dir(&self.root);
    }
}

impl Stream {
    /// Reads the next page, or the part of it that was written so far. Returns the number of bytes; 0 if there is none.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn read(&mut self, page: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.file.read(page) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
}

/// The name of the instances of a living process.
fn name_of(process: u32) -> Option<String> {
    let text = fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    // The name of the program, in parentheses, may have spaces. The start is the 20th number after it (proc(5)).
    let start = text.rsplit(')').next()?.split_whitespace().nth(19)?;
    Some(format!("{PREFIX}{process}-{start}"))
}

/// Whether an instance of ours has outlived its process.
fn is_left_behind(name: &str, name_of: impl Fn(u32) -> Option<String>) -> bool {
    let Some(process) = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()) else {
        return false;
    };
    let Ok(process) = process.parse() else { return false };
    name_of(process).is_none_or(|living| name != living && !name.starts_with(&format!("{living}-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_instances_of_processes_that_have_gone_are_left_behind() {
        let living = |process| (process == 7).then(|| "ceasefire-7-100".to_owned());
        let left = |name| is_left_behind(name, living);
        assert!(
            !left("ceasefire-7-100") && !left("ceasefire-7-100-2") && !left("perf-9") && !left("ceasefire-x")
        );
        // Another process had the number before, or one whose start begins alike.
        assert!(left("ceasefire-7-99") && left("ceasefire-7-1001") && left("ceasefire-8-5"));
    }

    #[test]
    fn this_process_has_a_name() {
        let name = name_of(process::id()).expect("a process that runs");
        assert!(!is_left_behind(&name, name_of), "{name}");
    }
}
