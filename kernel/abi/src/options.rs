//! The options of a run. They travel as words `name=value` on the kernel's command line: `cargo xtask kernel` writes the
//! line and the kernel reads it, both by the one table of [`Options`].

use core::fmt::{self, Display};

use crate::{MAX_AGE, PROGRAMS};

/// Defines an enum whose members have names, under which they travel.
macro_rules! named {
    ($(#[$doc:meta])* $name:ident { $($(#[$item_doc:meta])* $item:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name {
            $($(#[$item_doc])* $item,)*
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$item),*];

            /// The name.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$item => $text,)*
                }
            }
        }

        impl Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl Value for $name {
            fn read(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|known| known.name() == text)
            }
        }
    };
}

named! {
    /// How the kernel's own unmaps are flushed.
    Mechanism {
        /// One flush for each page.
        PerPage = "per-page",
        /// One flush for each batch.
        Batched = "batched",
        /// As batched, but pages that no CPU could store to are not flushed: the CPUs' ticks and switches settle them.
        Lazy = "lazy",
        /// As batched, but the hardware carries each flush to all CPUs, and no CPU is interrupted.
        Broadcast = "broadcast",
        /// As lazy, and every flush is broadcast.
        All = "all",
        /// As batched, but no CPU invalidates for others. It exists to be caught.
        None = "none",
    }
}

impl Mechanism {
    /// Whether flushes are broadcast.
    pub const fn broadcasts(self) -> bool {
        matches!(self, Self::Broadcast | Self::All)
    }

    /// Whether pages are released in debt.
    pub const fn owes(self) -> bool {
        matches!(self, Self::Lazy | Self::All)
    }
}

named! {
    /// Faults of processors that broadcast, as in `ceasefire::Errata`.
    Faults {
        /// None.
        None = "none",
        /// Each wait needs another broadcast and wait.
        Repeated = "repeated",
        /// Each CPU must wait itself.
        Everyone = "everyone",
        /// Both.
        Both = "both",
    }
}

named! {
    /// A guard of the coherence layer that a run leaves out, to be caught.
    Without {
        /// The check of the debt on a page's slot before the page is found, brought in or changed.
        Slot = "slot",
        /// The stamp of pages that were released in debt: without it they count as settled at once.
        Stamp = "stamp",
        /// The settling of a space's debts before an operation returns to its program.
        Settle = "settle",
        /// The flush of kernel ranges before their frames, page-table pages and addresses are used again.
        KernelFlush = "kernel-flush",
        /// The flush at an entry into the kernel to which flushes of kernel ranges were deferred.
        KernelEntry = "kernel-entry",
    }
}

impl Without {
    /// Whether the mechanism has this guard.
    pub const fn is_of(self, mechanism: Mechanism) -> bool {
        match self {
            Self::KernelFlush => !matches!(mechanism, Mechanism::None),
            // Broadcasts reach the CPUs that run programs too.
            Self::KernelEntry => !matches!(mechanism, Mechanism::None) && !mechanism.broadcasts(),
            Self::Slot | Self::Stamp | Self::Settle => matches!(mechanism, Mechanism::Lazy),
        }
    }
}

/// The value of an option. Its text has no space.
trait Value: Copy + PartialEq + Display {
    fn read(text: &str) -> Option<Self>;
}

/// A number, or 0 or 1 for an option that is off or on.
macro_rules! parsed {
    ($($type:ty),*) => {
        $(impl Value for $type {
            fn read(text: &str) -> Option<Self> {
                text.parse().ok()
            }
        })*
    };
}

parsed!(bool, u32, u64, usize);

/// A program.
impl Value for &'static str {
    fn read(text: &str) -> Option<Self> {
        PROGRAMS.iter().copied().find(|&known| known == text)
    }
}

/// Defines the options: the type of each, its default, and its bounds where not every value of the type is allowed.
macro_rules! options {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr $(, in $bounds:expr)?;)*) => {
        /// The options of a run.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct Options {
            $($(#[$doc])* pub $name: $type,)*
            /// The guard that the run leaves out.
            pub without: Option<Without>,
        }

        impl Options {
            /// Every option's default.
            pub const DEFAULT: Self = Self { $($name: $default,)* without: None };

            /// Reads a command line. Options that it does not name keep their defaults.
            ///
            /// # Errors
            /// The first word that is no option, or whose value is out of its bounds.
            pub fn parse(line: &str) -> Result<Self, OptionError<'_>> {
                let mut options = Self::DEFAULT;
                for word in line.split_whitespace() {
                    let (name, value) = word.split_once('=').unwrap_or((word, ""));
                    let error = OptionError { name, value };
                    match name {
                        $(stringify!($name) => {
                            let read = <$type>::read(value)$(.filter(|read| $bounds.contains(read)))?;
                            options.$name = read.ok_or(error)?;
                        })*
                        "without" => options.without = Some(Without::read(value).ok_or(error)?),
                        _ => return Err(error),
                    }
                }
                Ok(options)
            }
        }

        /// The command line, with each option that has not its default.
        impl Display for Options {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut before = "";
                let mut word = |name: &str, value: &dyn Display| {
                    let written = write!(f, "{before}{name}={value}");
                    before = " ";
                    written
                };
                $(if self.$name != Self::DEFAULT.$name {
                    word(stringify!($name), &self.$name)?;
                })*
                self.without.map_or(Ok(()), |guard| word("without", &guard))
            }
        }
    };
}

options! {
    /// The program, one of [`PROGRAMS`].
    program: &'static str = PROGRAMS[0];
    /// How unmaps are flushed.
    mechanism: Mechanism = Mechanism::Batched;
    /// The age that debts may reach under [`Mechanism::Lazy`] and [`Mechanism::All`], in milliseconds. With 0 there are
    /// no debts.
    max_age: u64 = MAX_AGE;
    /// Bits of an ASID that are used; 0 for all there are.
    asid_bits: u32 = 0, in 0..=16;
    /// The faults of broadcasts that are worked around, beside those of the processor that it runs on.
    errata: Faults = Faults::None;
    /// Nodes; CPUs and memory are shared out among them evenly and in order.
    nodes: usize = 1;
    /// How long `stale`, `migrate` and `conformance` measure, in seconds.
    seconds: u64 = 10;
    /// After how many seconds `stale` ends even if it has not done its least work.
    limit: u64 = 60;
    /// The seed of random choices.
    seed: u64 = 1;
    /// Whether threads that may stay on one CPU do.
    pinned: bool = false;
    /// Whether flushes of kernel ranges wait, while a CPU runs a program, for its next entry into the kernel.
    undisturbed: bool = false;
    /// Whether `stale` goes on after what a stale translation showed, for a run that others watch.
    unchecked: bool = false;
    /// Pages that a program uses; 0 for its own choice.
    pages: u64 = 0;
    /// Threads that use memory; 0 for the program's own choice.
    threads: u64 = 0;
    /// The scenarios of `stale` that run: a bit for each of [`SCENARIOS`](crate::SCENARIOS), or 0 for all.
    scenarios: u64 = 0;
    /// Pages of the swap device.
    swap: u32 = 0;
    /// MiB of memory that stand in for devices, swap included; 0 for as many as the program needs.
    disk: u64 = 0, in 0..=1 << 20;
    /// Pages that a CPU collects before it lists them: see `ceasefire_memory::Config`.
    lru_batch: usize = 15, in 1..=31;
}

impl Options {
    /// Whether the program is `stale`: it writes to devices, and its frames are watched.
    pub fn is_stale(&self) -> bool {
        self.program == "stale"
    }
}

/// A word of the command line that is no option. It borrows the text because the kernel has no heap yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OptionError<'a> {
    name: &'a str,
    value: &'a str,
}

impl Display for OptionError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option `{}` with value `{}`", self.name, self.value)
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use std::format;
    use std::string::ToString;

    use super::*;

    #[test]
    fn a_line_with_every_option_is_read_as_it_was_written() {
        let line = "program=stale mechanism=lazy max_age=40 asid_bits=8 errata=both nodes=2 seconds=60 limit=90 seed=7 \
            pinned=true undisturbed=true unchecked=true pages=9 threads=3 scenarios=6 swap=100 disk=64 lru_batch=14 without=slot";
        let options = Options::parse(line).unwrap();
        let expected = Options {
            program: "stale",
            mechanism: Mechanism::Lazy,
            max_age: 40,
            asid_bits: 8,
            errata: Faults::Both,
            nodes: 2,
            seconds: 60,
            limit: 90,
            seed: 7,
            pinned: true,
            undisturbed: true,
            unchecked: true,
            pages: 9,
            threads: 3,
            scenarios: 6,
            swap: 100,
            disk: 64,
            lru_batch: 14,
            without: Some(Without::Slot),
        };
        assert_eq!((options, options.to_string().as_str()), (expected, line));
        assert_eq!(Options::parse("").unwrap(), Options::DEFAULT);
        assert_eq!(Options::DEFAULT.to_string(), "");
    }

    #[test]
    fn mechanisms_and_guards_are_found_by_their_names() {
        for mechanism in Mechanism::ALL {
            assert_eq!(Options::parse(&format!("mechanism={mechanism}")).unwrap().mechanism, *mechanism);
        }
        for guard in Without::ALL {
            assert_eq!(Options::parse(&format!("without={guard}")).unwrap().without, Some(*guard));
        }
        assert!(Mechanism::All.broadcasts() && !Mechanism::Lazy.broadcasts() && Mechanism::Lazy.owes());
    }

    #[test]
    fn errors_name_the_word_that_is_no_option() {
        for line in [
            "program=emacs",
            "mechanism=",
            "without=care",
            "max_age=-1",
            "asid_bits=17",
            "errata=2",
            "nodes=two",
            "speed=9",
            "pinned=2",
            "swap=99999999999",
            "disk=1048577",
            "lru_batch=32",
        ] {
            let error = Options::parse(line).unwrap_err().to_string();
            let (name, value) = line.split_once('=').unwrap();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
