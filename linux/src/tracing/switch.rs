//! Switches events off and on again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;

use crate::tracefs::{Instance, Unavailable};

/// The systems whose events come with requests, calls and faults. Those of the others are few: they tell which threads
/// there are, and which of them reclaim, and stay on.
const FREQUENT: [&str; 5] = ["csd", "tlb", "exceptions", "migrate", "syscalls"];

/// The switches of the frequent events of an instance. They must be closed before the instance can go.
#[derive(Debug)]
pub(crate) struct Switch {
    files: Vec<File>,
}

impl Switch {
    /// The switches of those of these events that are frequent.
    pub(crate) fn of(instance: &Instance, events: &[String]) -> Result<Self, Unavailable> {
        let open = |(system, event): (&str, &str)| {
            let path = instance.path(&format!("events/{system}/{event}/enable"));
            let file = OpenOptions::new().write(true).open(&path);
            file.map_err(|error| Unavailable::of(&path, &error))
        };
        let names = events.iter().filter_map(|name| name.split_once(':'));
        let files = names.filter(|(system, _)| FREQUENT.contains(system)).map(open);
        Ok(Self { files: files.collect::<Result<_, _>>()? })
    }

    /// Switches them. While they are off they cost nothing: the kernel patches its code, which a switch of the buffers
    /// (`tracing_on`) does not do.
    pub(crate) fn set(&self, on: bool) -> io::Result<()> {
        let value = if on { b"1" } else { b"0" };
        // Requests are the first events. They are on only while the events of their causes are.
        let set = |file: &File| file.write_all_at(value, 0);
        if on {
            self.files.iter().rev().try_for_each(set)
        } else {
            self.files.iter().try_for_each(set)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tracefs::Tracefs;

    #[test]
    fn frequent_events_are_switched_and_others_stay() {
        let Ok(instance) = Tracefs::find().and_then(|tracefs| tracefs.instance()) else { return };
        let names = ["task:task_rename", "tlb:tlb_flush"];
        let file = |name: &str| format!("events/{}/enable", name.replace(':', "/"));
        for name in names {
            instance.set(&file(name), "1").expect("an event");
        }
        let switch = Switch::of(&instance, &names.map(str::to_owned)).expect("switches");
        for on in [false, true, false] {
            switch.set(on).expect("a switch");
            let is_on = names.map(|name| instance.get(&file(name)).expect("a state").trim() == "1");
            assert_eq!(is_on, [true, on]);
        }
        drop(switch);
    }
}
