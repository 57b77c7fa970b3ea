//! The threads of the running kernel: their processes and names.

use std::fs;

use foldhash::HashMap;

use crate::events::{Event, Kind, Name, Names};
use crate::recording::Row;

/// A thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Thread {
    /// Its process.
    pub process: u32,
    /// Its name.
    pub name: Name,
}

impl Thread {
    /// The thread of a row.
    pub fn of(row: &Row) -> Self {
        Self { process: row.process, name: row.program }
    }
}

/// The threads that exist, by their numbers.
#[derive(Debug, Default, Clone)]
pub struct Threads {
    known: HashMap<u32, Thread>,
}

impl Threads {
    /// The threads that run now. Those that end meanwhile may be missing. Those of the kernel belong to process 0.
    pub fn of_kernel(names: &mut Names) -> Self {
        let number = |name: std::ffi::OsString| name.to_str()?.parse::<u32>().ok();
        let mut known = HashMap::default();
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(id) = number(process.file_name()) else { continue };
            let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let id = if is_of_kernel(&stat) { 0 } else { id };
            for thread in fs::read_dir(process.path().join("task")).into_iter().flatten().flatten() {
                let name = fs::read_to_string(thread.path().join("comm"));
                if let (Ok(name), Some(thread)) = (name, number(thread.file_name())) {
                    known.insert(thread, Thread { process: id, name: names.add(name.trim_end()) });
                }
            }
        }
        Self { known }
    }

    /// Adds a thread.
    pub fn add(&mut self, thread: u32, is: Thread) {
        self.known.insert(thread, is);
    }

    /// A thread, if it is known.
    pub fn get(&self, thread: u32) -> Option<Thread> {
        self.known.get(&thread).copied()
    }

    /// All threads, in no order.
    pub fn all(&self) -> impl Iterator<Item = (u32, Thread)> + '_ {
        self.known.iter().map(|(thread, is)| (*thread, *is))
    }

    /// Names processes by their first threads. These need not be ones that were seen, and may have got another name since.
    /// A process whose first thread is not known has the name of the known one with the least number. The kernel's own
    /// threads are no process.
    pub fn name(&self, processes: &mut HashMap<u32, Name>) {
        let mut least: HashMap<u32, (u32, Name)> = HashMap::default();
        for (thread, Thread { process, name }) in self.all().filter(|(_, is)| is.process != 0) {
            let known = least.entry(process).or_insert((thread, name));
            *known = (thread, name).min(*known);
        }
        for (process, name) in processes {
            let first = self.get(*process).map(|first| first.name);
            *name = first.or_else(|| Some(least.get(process)?.1)).unwrap_or(*name);
        }
    }

    /// An event with the process and the name of its thread. A thread that is not known counts as a process of its own,
    /// without a name.
    pub fn row(&self, event: Event, names: &mut Names) -> Row {
        let unknown = || Thread { process: event.thread, name: names.add("") };
        let Thread { process, name } = self.get(event.thread).unwrap_or_else(unknown);
        Row { event, process, program: name }
    }

    /// Forgets a thread.
    pub fn forget(&mut self, thread: u32) {
        self.known.remove(&thread);
    }

    /// Learns from an event. A thread that ends stays known, since it may flush until it is gone.
    pub fn learn(&mut self, event: &Event) {
        match event.kind {
            Kind::ThreadBegan { thread, same_process, name } => {
                let maker = self.get(event.thread).map_or(event.thread, |maker| maker.process);
                // What the kernel's own thread makes is the kernel's; a program that it starts comes later, by exec.
                let process = if same_process || maker == 0 { maker } else { thread };
                self.known.insert(thread, Thread { process, name });
            }
            Kind::ThreadNamed { thread, name } => {
                self.known.entry(thread).or_insert(Thread { process: thread, name }).name = name;
            }
            _ => {}
        }
    }
}

/// Whether a process runs in the kernel alone, by the text of its file `stat` (proc(5)): the ninth word is its flags.
fn is_of_kernel(stat: &str) -> bool {
    // `PF_KTHREAD` of include/linux/sched.h.
    const KERNEL_THREAD: u64 = 0x0020_0000;
    let flags =
        stat.rsplit(')').next().and_then(|words| words.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_belongs_to_the_process_of_its_maker() {
        let mut names = Names::default();
        let [shell, program] = ["sh", "program"].map(|name| names.add(name));
        let mut threads = Threads::default();
        threads.add(10, Thread { process: 10, name: shell });
        let mut learn = |thread, kind| threads.learn(&Event { time_ns: 0, cpu: 0, thread, kind });
        learn(10, Kind::ThreadBegan { thread: 11, same_process: false, name: shell });
        learn(11, Kind::ThreadNamed { thread: 11, name: program });
        learn(11, Kind::ThreadBegan { thread: 12, same_process: true, name: program });
        assert_eq!(threads.get(11), Some(Thread { process: 11, name: program }));
        assert_eq!(threads.get(12), Some(Thread { process: 11, name: program }));
        assert_eq!(threads.get(10), Some(Thread { process: 10, name: shell }));
    }

    #[test]
    fn a_process_has_the_last_name_of_its_first_thread() {
        let mut names = Names::default();
        let [launcher, program, helper, other] =
            ["env", "program", "helper", "other"].map(|name| names.add(name));
        let mut threads = Threads::default();
        threads.add(10, Thread { process: 10, name: launcher });
        threads.add(11, Thread { process: 10, name: helper });
        let kind = Kind::ThreadNamed { thread: 10, name: program };
        threads.learn(&Event { time_ns: 0, cpu: 0, thread: 10, kind });
        // That of another process began before or after it.
        threads.add(32, Thread { process: 30, name: other });
        threads.add(31, Thread { process: 30, name: helper });
        let mut processes = HashMap::from_iter([(10, helper), (20, other), (30, launcher)]);
        threads.name(&mut processes);
        assert_eq!([10, 20, 30].map(|process| processes[&process]), [program, other, helper]);
    }

    #[test]
    fn the_threads_of_the_kernel_include_this_one() {
        let mut names = Names::default();
        let process = std::process::id();
        let threads = Threads::of_kernel(&mut names);
        assert!(threads.all().any(|(_, thread)| thread.process == process));
    }
}
