//! The threads that CPUs run, and what they do meanwhile.
//!
//! A lane has up to six slices at a time, one in the other: the thread that runs, its system call, reclaim, migration
//! and wait for a lock in the order in which they began, and the shootdown for which the CPU waits. When the thread
//! leaves the CPU, they all end. What it does goes on in another slice when it runs again, perhaps on another CPU.

use std::io::{self, Write};

use ceasefire_perfetto::{Argument, Slice};
use foldhash::HashMap;

use super::tracks::{Lane, Tracks};
use crate::events::Event;

/// What a thread does in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// A system call. One begins and ends all others.
    Call,
    Reclaim,
    Migration,
    /// A wait for a lock.
    Wait,
}

/// An activity that is under way.
#[derive(Debug)]
struct Doing {
    activity: Activity,
    slice: Slice,
    /// The number of slices that it has.
    parts: u64,
}

impl Doing {
    /// The next of its slices.
    fn part(&mut self) -> Slice {
        self.parts += 1;
        let mut slice = self.slice.clone();
        if self.parts > 1 {
            slice.arguments.push(Argument::number("part", self.parts));
        }
        slice
    }
}

/// A thread that runs, or does something.
#[derive(Debug, Default)]
struct Thread {
    doing: Vec<Doing>,
    /// The CPU in whose lane it is.
    cpu: Option<u32>,
    has_ended: bool,
}

/// The lane of a CPU.
#[derive(Debug, Clone, Default)]
struct Cpu {
    /// The thread that runs; none if that is not known.
    thread: Option<u32>,
    /// Whether it has the slice of a shootdown.
    waits: bool,
}

/// Draws threads in the lanes of CPUs.
#[derive(Debug)]
pub(super) struct Running {
    cpus: Vec<Cpu>,
    threads: HashMap<u32, Thread>,
    /// Whether the recording has switches. Otherwise events tell which thread runs, and not how long.
    has_switches: bool,
}

impl Running {
    pub(super) fn new(has_switches: bool) -> Self {
        Self { cpus: Vec::new(), threads: HashMap::default(), has_switches }
    }

    /// An event tells which thread its CPU runs. A switch may have been lost.
    pub(super) fn runs<W: Write>(
        &mut self,
        event: &Event,
        tracks: &mut Tracks<W>,
        of_run: &dyn Fn(u32) -> Slice,
    ) -> io::Result<()> {
        let Event { time_ns, cpu, thread, .. } = *event;
        if self.cpu(cpu).thread == Some(thread) {
            return Ok(());
        }
        self.switch(time_ns, cpu, thread, tracks, of_run)
    }

    /// A CPU goes on to a thread.
    pub(super) fn switch<W: Write>(
        &mut self,
        time_ns: u64,
        cpu: u32,
        next: u32,
        tracks: &mut Tracks<W>,
        of_run: &dyn Fn(u32) -> Slice,
    ) -> io::Result<()> {
        self.leave(time_ns, cpu, tracks)?;
        self.cpu(cpu).thread = Some(next);
        // Every CPU has an idle thread of this number.
        if next == 0 {
            return Ok(());
        }
        if let Some(other) = self.threads.get(&next).and_then(|thread| thread.cpu) {
            // Its switch was lost.
            self.leave(time_ns, other, tracks)?;
        }
        if self.has_switches {
            tracks.begin(time_ns, cpu, Lane::Threads, of_run(next))?;
        }
        let thread = self.threads.entry(next).or_default();
        thread.cpu = Some(cpu);
        for doing in &mut thread.doing {
            tracks.begin(time_ns, cpu, Lane::Threads, doing.part())?;
        }
        Ok(())
    }

    /// A CPU leaves its thread, if it runs a known one.
    pub(super) fn leave<W: Write>(
        &mut self,
        time_ns: u64,
        cpu: u32,
        tracks: &mut Tracks<W>,
    ) -> io::Result<()> {
        self.end_shootdown(time_ns, cpu, Vec::new(), tracks)?;
        let Some(id) = self.cpu(cpu).thread.take() else { return Ok(()) };
        let Some(thread) = self.threads.get_mut(&id) else { return Ok(()) };
        for _ in 0..thread.doing.len() + usize::from(self.has_switches) {
            tracks.end(time_ns, cpu, Lane::Threads, Vec::new())?;
        }
        thread.cpu = None;
        if thread.has_ended || thread.doing.is_empty() {
            self.threads.remove(&id);
        }
        Ok(())
    }

    /// A thread begins something. A call ends all that it did, and any other activity the last one of its kind.
    pub(super) fn begin<W: Write>(
        &mut self,
        time_ns: u64,
        thread: u32,
        activity: Activity,
        slice: Slice,
        tracks: &mut Tracks<W>,
    ) -> io::Result<()> {
        if thread == 0 {
            return Ok(());
        }
        let same = |doing: &Doing| doing.activity == activity || activity == Activity::Call;
        self.end_from(time_ns, thread, same, Vec::new(), tracks)?;
        let mut doing = Doing { activity, slice, parts: 0 };
        let thread = self.threads.entry(thread).or_default();
        if let Some(cpu) = thread.cpu {
            tracks.begin(time_ns, cpu, Lane::Threads, doing.part())?;
        }
        thread.doing.push(doing);
        Ok(())
    }

    /// A thread ends something, and all that it began since.
    pub(super) fn end<W: Write>(
        &mut self,
        time_ns: u64,
        thread: u32,
        activity: Activity,
        arguments: Vec<Argument>,
        tracks: &mut Tracks<W>,
    ) -> io::Result<()> {
        self.end_from(time_ns, thread, |doing| doing.activity == activity, arguments, tracks)
    }

    /// Ends what a thread does, from the first activity that `is` tells.
    fn end_from<W: Write>(
        &mut self,
        time_ns: u64,
        id: u32,
        is: impl Fn(&Doing) -> bool,
        arguments: Vec<Argument>,
        tracks: &mut Tracks<W>,
    ) -> io::Result<()> {
        let Some(thread) = self.threads.get(&id) else { return Ok(()) };
        let Some(first) = thread.doing.iter().position(is) else { return Ok(()) };
        if let Some(cpu) = thread.cpu {
            let inner = thread.doing.len() - first - 1;
            self.end_shootdown(time_ns, cpu, Vec::new(), tracks)?;
            for _ in 0..inner {
                tracks.end(time_ns, cpu, Lane::Threads, Vec::new())?;
            }
            tracks.end(time_ns, cpu, Lane::Threads, arguments)?;
        }
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.doing.truncate(first);
            if thread.doing.is_empty() && thread.cpu.is_none() {
                self.threads.remove(&id);
            }
        }
        Ok(())
    }

    /// A CPU begins to wait for the handlers of a shootdown.
    pub(super) fn begin_shootdown<W: Write>(
        &mut self,
        time_ns: u64,
        cpu: u32,
        tracks: &mut Tracks<W>,
    ) -> io::Result<()> {
        self.end_shootdown(time_ns, cpu, Vec::new(), tracks)?;
        self.cpu(cpu).waits = true;
        let slice = Slice { name: "shootdown".to_owned(), ..Slice::default() };
        tracks.begin(time_ns, cpu, Lane::Threads, slice)
    }

    /// A CPU waits no more, if it did.
    pub(super) fn end_shootdown<W: Write>(
        &mut self,
        time_ns: u64,
        cpu: u32,
        arguments: Vec<Argument>,
        tracks: &mut Tracks<W>,
    ) -> io::Result<()> {
        if std::mem::take(&mut self.cpu(cpu).waits) {
            tracks.end(time_ns, cpu, Lane::Threads, arguments)?;
        }
        Ok(())
    }

    /// A thread has ended. It may do something until it leaves its CPU.
    pub(super) fn has_ended(&mut self, thread: u32) {
        if let Some(thread) = self.threads.get_mut(&thread) {
            thread.has_ended = true;
        }
    }

    /// A thread is made, perhaps with the number of an earlier one.
    pub(super) fn is_made<W: Write>(
        &mut self,
        time_ns: u64,
        thread: u32,
        tracks: &mut Tracks<W>,
    ) -> io::Result<()> {
        self.end_from(time_ns, thread, |_| true, Vec::new(), tracks)
    }

    fn cpu(&mut self, cpu: u32) -> &mut Cpu {
        let cpu = cpu as usize;
        if self.cpus.len() <= cpu {
            self.cpus.resize(cpu + 1, Cpu::default());
        }
        &mut self.cpus[cpu]
    }
}
