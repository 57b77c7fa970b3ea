//! Where threads are: which CPUs run which processes, and when a process is gone.

use foldhash::HashMap;

use crate::events::{Event, Kind};
use crate::latest::Latest;
use crate::observer::{Observer, Sink};
use crate::recording::Row;
use crate::replay::residency::Residency;
use crate::replay::steps::{Step, Steps};

/// The threads that live, and the CPUs that run them.
#[derive(Debug)]
pub(super) struct Whereabouts {
    residency: Residency,
    /// The process of each thread that has not left its CPU for the last time.
    living: HashMap<u32, u32>,
    /// The thread of each CPU's latest row, and its process. `living` has it.
    latest: Latest<(u32, u32)>,
}

impl Whereabouts {
    /// Nothing is known of so many CPUs.
    pub(super) fn new(cpus: usize) -> Self {
        Self { residency: Residency::new(cpus), living: HashMap::default(), latest: Latest::new() }
    }

    /// Learns from a row that the observer knows.
    pub(super) fn add(&mut self, row: &Row, observer: &Observer<impl Sink>, steps: &mut Steps) {
        let Event { time_ns: now_ns, cpu, thread, kind } = row.event;
        if self.latest.is_news(cpu, (thread, row.process)) {
            self.living.insert(thread, row.process);
        }
        let runs = match kind {
            Kind::Lost { .. } => {
                self.residency.loses(cpu);
                None
            }
            // It belongs to the event before it.
            Kind::Stack { .. } => None,
            // The threads at the beginning are listed, and run nowhere yet.
            Kind::ThreadNamed { thread, .. } => {
                self.lives(thread, observer);
                None
            }
            Kind::ThreadBegan { thread, .. } => {
                self.lives(thread, observer);
                self.acts(row)
            }
            Kind::Switch { next } => {
                let process = self.living.get(&next).copied().unwrap_or(next);
                self.residency.switches(cpu, process).then_some(process)
            }
            _ => self.acts(row),
        };
        if let Some(process) = runs {
            steps.push(Step::Runs { cpu, process, now_ns });
        }
        // A thread that has ended gives its memory back before it leaves its CPU, since Linux 6.16.
        if matches!(kind, Kind::Switch { .. }) && observer.has_ended(thread) {
            self.living.remove(&thread);
            self.latest.clear();
            if self.living.values().all(|process| *process != row.process) {
                steps.push(Step::Ends { process: row.process });
            }
        }
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
        self.residency.acts(row.event.cpu, row.process).then_some(row.process)
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
