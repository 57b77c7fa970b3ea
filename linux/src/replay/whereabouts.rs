//! Where threads are: which CPUs run which processes, and when a process is gone.
//!
//! Switches tell it, and so does every event of a thread: kernels may not tell a switch (Linux 6.18 under Firecracker
//! keeps no event of an idle loop, but for that of the first CPU). Only the flush of a switch is in the name of the
//! thread that leaves, after the kernel told that it does.

use foldhash::HashMap;

use crate::events::{Event, FlushReason, Kind};
use crate::latest::Latest;
use crate::observer::{Observer, Sink};
use crate::recording::Row;
use crate::replay::residency::{News, Residency};
use crate::replay::steps::{Step, Steps};

/// The threads that live, and the CPUs that run them.
#[derive(Debug)]
pub(super) struct Whereabouts {
    residency: Residency,
    /// The process of each thread that has not left its CPU for the last time.
    living: HashMap<u32, u32>,
    /// The thread of each CPU's latest row, and its process. `living` has it.
    latest: Latest<(u32, u32)>,
    /// The times at which a CPU was seen to run another process than the one to which it was told to switch.
    pub(super) untold: u64,
}

impl Whereabouts {
    /// Nothing is known of so many CPUs.
    pub(super) fn new(cpus: usize) -> Self {
        Self { residency: Residency::new(cpus), living: HashMap::default(), latest: Latest::new(), untold: 0 }
    }

    /// Learns from a row that the observer knows. Returns the process that the row's CPU is seen to run, though no switch
    /// told it.
    pub(super) fn add(
        &mut self,
        row: &Row,
        observer: &Observer<impl Sink>,
        steps: &mut Steps,
    ) -> Option<u32> {
        let Event { time_ns: now_ns, cpu, thread, kind } = row.event;
        if self.latest.is_news(cpu, (thread, row.process)) {
            self.living.insert(thread, row.process);
        }
        let seen = match kind {
            Kind::Lost { .. } => {
                self.residency.loses(cpu);
                None
            }
            // They belong to the event before them, or to the time before the recording.
            Kind::Stack { .. }
            | Kind::Flush { reason: FlushReason::TaskSwitch, .. }
            | Kind::Mapped { .. } => None,
            // The threads at the beginning are listed, and run nowhere yet.
            Kind::ThreadNamed { thread, .. } => {
                self.lives(thread, observer);
                None
            }
            Kind::ThreadBegan { thread, .. } => {
                self.lives(thread, observer);
                self.acts(row)
            }
            _ => self.acts(row),
        };
        if let Some(process) = seen {
            steps.push(Step::Runs { cpu, process, now_ns });
        }
        if let Kind::Switch { next } = kind {
            let process = self.living.get(&next).copied().unwrap_or(next);
            if self.residency.runs(cpu, process).is_some() {
                steps.push(Step::Runs { cpu, process, now_ns });
            }
        }
        // A thread that has ended gives its memory back before it leaves its CPU, since Linux 6.16.
        if matches!(kind, Kind::Switch { .. }) && observer.has_ended(thread) {
            self.living.remove(&thread);
            self.latest.clear();
            if self.living.values().all(|process| *process != row.process) {
                steps.push(Step::Ends { process: row.process });
            }
        }
        seen
    }

    /// Whether a CPU is known to run the kernel or nothing.
    pub(super) fn is_idle(&self, cpu: u32) -> bool {
        self.residency.of(cpu) == Some(0)
    }

    /// Another thread than that of the event has begun or has a new name.
    fn lives(&mut self, thread: u32, observer: &Observer<impl Sink>) {
        if let Some(is) = observer.threads.get(thread) {
            self.living.insert(thread, is.process);
            self.latest.clear();
        }
    }

    /// The thread of a row does something. Returns its process if that is news of the CPU.
    fn acts(&mut self, row: &Row) -> Option<u32> {
        let news = self.residency.runs(row.event.cpu, row.process)?;
        self.untold += u64::from(news == News::Another);
        Some(row.process)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Names;
    use crate::kernel::threads::Threads;

    /// What is told of events of CPU 0.
    struct World {
        whereabouts: Whereabouts,
        observer: Observer<()>,
        names: Names,
    }

    impl World {
        fn tells(&mut self, thread: u32, process: u32, kind: Kind) -> Vec<String> {
            let program = self.names.add("program");
            let row = Row { event: Event { time_ns: 0, cpu: 0, thread, kind }, process, program };
            let mut steps = Steps::default();
            self.observer.add(&row, &self.names);
            self.whereabouts.add(&row, &self.observer, &mut steps);
            let told = std::iter::from_fn(|| steps.next()).map(|step| match step {
                Step::Runs { process, .. } => format!("runs {process}"),
                Step::Ends { process } => format!("ends {process}"),
                step => panic!("{step:?}"),
            });
            told.collect()
        }
    }

    #[test]
    fn a_process_ends_when_its_last_thread_leaves_its_cpu() {
        let observer = Observer::new(Threads::default(), ());
        let mut world = World { whereabouts: Whereabouts::new(2), observer, names: Names::default() };
        let name = world.names.add("program");
        let nothing: [&str; 0] = [];
        assert_eq!(world.tells(1, 1, Kind::ThreadNamed { thread: 1, name }), nothing, "it runs nowhere yet");
        let begun = Kind::ThreadBegan { thread: 7, same_process: false, name };
        assert_eq!(world.tells(1, 1, begun), ["runs 1"]);
        assert_eq!(world.tells(1, 1, Kind::Switch { next: 7 }), ["runs 7"]);
        let begun = Kind::ThreadBegan { thread: 8, same_process: true, name };
        assert_eq!(world.tells(7, 7, begun), nothing);
        assert_eq!(world.tells(7, 7, Kind::ThreadEnded), nothing);
        assert_eq!(world.tells(7, 7, Kind::Switch { next: 8 }), nothing, "thread 8 is of process 7");
        assert_eq!(world.tells(8, 7, Kind::ThreadEnded), nothing);
        assert_eq!(world.tells(8, 7, Kind::Switch { next: 1 }), ["runs 1", "ends 7"]);
    }
}
