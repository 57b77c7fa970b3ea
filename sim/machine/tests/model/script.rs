//! A script, as data and as text: a small machine and the operations of a few programs' threads.

use std::fmt;
use std::str::FromStr;

use ceasefire::{Payment, Schedule};
use ceasefire_machine::config::Processor;
use ceasefire_memory::LruDrain;

use crate::operation::{Numbers, Step};

/// A node of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeSetup {
    pub(crate) cpus: u32,
    pub(crate) frames: u32,
    pub(crate) tier: u32,
}

macro_rules! setup {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// The machine and its memory manager.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub(crate) struct Setup {
            pub(crate) nodes: Vec<NodeSetup>,
            /// The pages of each file.
            pub(crate) files: Vec<u32>,
            $($(#[$doc])* pub(crate) $field: u32,)*
        }

        impl Setup {
            fn numbers(&self) -> Vec<(&'static str, u32)> {
                vec![$((stringify!($field), self.$field)),*]
            }

            fn read(&mut self, mut numbers: Numbers<'_>) -> Result<(), String> {
                $(self.$field = numbers.take(stringify!($field))?;)*
                numbers.finish()
            }

            const EMPTY: Self = Self { nodes: Vec::new(), files: Vec::new(), $($field: 0),* };
        }
    };
}

setup! {
    /// 0 for one flush a page, 1 for batches, 2 for lazy debts that settle by themselves, 3 for lazy debts that are
    /// paid on demand; 4 for batches and 5 for lazy debts on processors that broadcast.
    schedule,
    /// Nanoseconds between two ticks of a CPU. A lazy debt may last three ticks.
    tick,
    /// Pages of swap.
    swap,
    /// The number of pages that a fault maps.
    fault_around,
    /// The number of pages that a miss reads.
    read_ahead,
    /// The number of new pages that a CPU collects.
    lru_batch,
    /// Whether reclaim demotes.
    demote,
    /// Nanoseconds that a CPU may run ahead of the others.
    slack,
    /// The time slice, in nanoseconds.
    slice,
    /// 1 to list new pages before each unmap.
    drain,
    /// 0 for processors with ASIDs, 1 for processors without.
    untagged,
    /// The number of ASIDs, including the unused ones.
    asids,
    /// The number of ASIDs of processors that always broadcast; 0 for other processors.
    every,
    /// The number of pages of one broadcast.
    at_once,
    /// The number of flushes of a space between two checks of whether it deserves a global ASID.
    look_every,
    /// The number of CPUs that must run the space then.
    wide,
    /// Of 1000 moments, those at which a CPU fills a translation by itself.
    speculate,
    /// The number of threads. Thread t starts on CPU t, counted cyclically.
    threads,
    /// The number of spaces at the start. Thread t starts in space t, counted cyclically.
    spaces,
}

impl Setup {
    pub(crate) fn cpus(&self) -> u32 {
        self.nodes.iter().map(|node| node.cpus).sum()
    }

    pub(crate) fn frames(&self) -> u32 {
        self.nodes.iter().map(|node| node.frames).sum()
    }

    pub(crate) fn schedule(&self) -> Schedule {
        match self.schedule {
            0 => Schedule::PerPage,
            1 | 4 => Schedule::Batched,
            _ => Schedule::Lazy,
        }
    }

    /// The way in which lazy debts are settled.
    pub(crate) fn payment(&self) -> Payment {
        if self.schedule == 3 {
            Payment::Demand
        } else {
            Payment::Free
        }
    }

    pub(crate) fn processor(&self) -> Processor {
        Processor {
            asids: self.untagged == 0,
            asid_space: self.asids,
            broadcast_repeated: false,
            broadcast_everyone: false,
            broadcast_asids: (self.every > 0 && self.untagged == 0).then_some(self.every),
            broadcast_pages: self.at_once,
            broadcast_interval: 0,
            speculate: f64::from(self.speculate) / 1000.0,
        }
    }

    pub(crate) fn lru_drain(&self) -> LruDrain {
        if self.drain == 0 {
            LruDrain::Batched
        } else {
            LruDrain::Eager
        }
    }

    /// Whether the kernel turns the processors' broadcasts on.
    pub(crate) fn broadcasts(&self) -> bool {
        self.schedule >= 4
    }

    fn check(&self) -> Result<(), String> {
        let bounds = [
            ("CPUs", self.cpus(), 1, 64),
            ("frames", self.frames(), 16, 1 << 20),
            ("threads", self.threads, 1, 32),
            ("spaces", self.spaces, 1, self.threads),
            ("files", self.files.len() as u32, 1, 16),
            ("lru_batch", self.lru_batch, 1, 31),
            ("schedule", self.schedule, 0, 5),
            ("ns of tick", self.tick, 1, 300_000_000),
            ("asids", self.asids, 9, 4096),
            ("at_once", self.at_once, 1, 65_536),
            ("speculate", self.speculate, 0, 1000),
        ];
        bounds.iter().try_for_each(|&(what, value, low, high)| {
            if (low..=high).contains(&value) {
                Ok(())
            } else {
                Err(format!("{value} {what}: between {low} and {high} are possible"))
            }
        })
    }
}

/// A machine and the steps on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Script {
    pub(crate) setup: Setup,
    pub(crate) steps: Vec<Step>,
}

impl fmt::Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for NodeSetup { cpus, frames, tier } in &self.setup.nodes {
            writeln!(f, "node cpus={cpus} frames={frames} tier={tier}")?;
        }
        for pages in &self.setup.files {
            writeln!(f, "file pages={pages}")?;
        }
        write!(f, "setup")?;
        self.setup.numbers().iter().try_for_each(|(name, number)| write!(f, " {name}={number}"))?;
        writeln!(f)?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

impl FromStr for Script {
    type Err = String;

    /// Lines as [`Display`](fmt::Display) writes them. The rest of a line after a `#` is ignored.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut script = Self { setup: Setup::EMPTY, steps: Vec::new() };
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            script.read(line).map_err(|error| format!("line {}: {error}", number + 1))?;
        }
        script.setup.check()?;
        Ok(script)
    }
}

impl Script {
    fn read(&mut self, line: &str) -> Result<(), String> {
        let (first, rest) = line.split_once(' ').unwrap_or((line, ""));
        let numbers = || Numbers::new(rest.split_whitespace());
        match first {
            "" => {}
            "node" => {
                let mut numbers = numbers()?;
                let mut take = |name| numbers.take(name);
                let node = NodeSetup { cpus: take("cpus")?, frames: take("frames")?, tier: take("tier")? };
                self.setup.nodes.push(node);
                numbers.finish()?;
            }
            "file" => {
                let mut numbers = numbers()?;
                self.setup.files.push(numbers.take("pages")?);
                numbers.finish()?;
            }
            "setup" => self.setup.read(numbers()?)?,
            _ => self.steps.push(line.parse()?),
        }
        Ok(())
    }
}
