//! The command line: `name=value` words. `cargo xtask kernel` checks them too.

use core::fmt;

use ceasefire::Schedule;
use ceasefire_kernel_abi::{MAX_AGE, PROGRAMS};

/// How the kernel's own unmaps are flushed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mechanism {
    /// One flush for each page.
    PerPage,
    /// One flush for each batch.
    Batched,
    /// As batched, but pages that no CPU could store to are not flushed: the CPUs' ticks and switches settle them.
    Lazy,
    /// As batched, but the hardware carries each flush to all CPUs, and no CPU is interrupted.
    Broadcast,
    /// As lazy, and every flush is broadcast.
    All,
    /// As batched, but no CPU invalidates for others. It exists to be caught.
    None,
}

impl Mechanism {
    const ALL: [Self; 6] = [Self::PerPage, Self::Batched, Self::Lazy, Self::Broadcast, Self::All, Self::None];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::PerPage => "per-page",
            Self::Batched => "batched",
            Self::Lazy => "lazy",
            Self::Broadcast => "broadcast",
            Self::All => "all",
            Self::None => "none",
        }
    }

    /// Whether flushes are broadcast.
    #[cfg_attr(test, allow(dead_code, reason = "tests run on the host, where nothing is flushed"))]
    pub(crate) const fn broadcasts(self) -> bool {
        matches!(self, Self::Broadcast | Self::All)
    }

    /// When the kernel's own unmaps are flushed.
    #[cfg_attr(test, allow(dead_code, reason = "tests run on the host, where nothing is flushed"))]
    pub(crate) const fn schedule(self) -> Schedule {
        match self {
            Self::PerPage => Schedule::PerPage,
            Self::Batched | Self::Broadcast | Self::None => Schedule::Batched,
            Self::Lazy | Self::All => Schedule::Lazy,
        }
    }
}

/// A guard of the coherence layer that a run leaves out, to be caught.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Without {
    /// The check of the debt on a page's slot before the page is found, brought in or changed.
    Slot,
    /// The stamp of pages that were released in debt: without it they count as settled at once.
    Stamp,
    /// The settling of a space's debts before an operation returns to its program.
    Settle,
    /// The flush of kernel ranges before their frames, page-table pages and addresses are used again.
    KernelFlush,
    /// The flush at an entry into the kernel to which flushes of kernel ranges were deferred.
    KernelEntry,
}

impl Without {
    const ALL: [Self; 5] = [Self::Slot, Self::Stamp, Self::Settle, Self::KernelFlush, Self::KernelEntry];

    /// Its name.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Slot => "slot",
            Self::Stamp => "stamp",
            Self::Settle => "settle",
            Self::KernelFlush => "kernel-flush",
            Self::KernelEntry => "kernel-entry",
        }
    }
}

/// The options of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Options {
    /// The program, by its place in [`PROGRAMS`].
    pub(crate) program: usize,
    pub(crate) mechanism: Mechanism,
    pub(crate) without: Option<Without>,
    /// The age that debts may reach under [`Mechanism::Lazy`] and [`Mechanism::All`], in milliseconds. With 0 there are
    /// no debts.
    pub(crate) max_age: u64,
    /// Bits of an ASID that are used; 0 for all there are.
    pub(crate) asid_bits: u32,
    pub(crate) nodes: usize,
    pub(crate) seconds: u64,
    /// After how many seconds `stale` ends even if it has not done its least work.
    pub(crate) limit: u64,
    pub(crate) seed: u64,
    pub(crate) pinned: bool,
    /// While a CPU runs a program, flushes of kernel ranges wait for its next entry into the kernel.
    pub(crate) undisturbed: bool,
    pub(crate) pages: u64,
    pub(crate) threads: u64,
    /// The scenarios of `stale` that run: a bit for each, or 0 for all.
    pub(crate) scenarios: u64,
    /// Pages of the swap device.
    pub(crate) swap: u32,
    /// MiB of memory that stand in for devices, swap included; 0 for as many as the program needs.
    pub(crate) disk: u64,
    /// Pages that a CPU collects before it lists them: see `ceasefire_memory::Config`.
    pub(crate) lru_batch: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            program: 0,
            mechanism: Mechanism::Batched,
            without: None,
            max_age: MAX_AGE,
            asid_bits: 0,
            nodes: 1,
            seconds: 10,
            limit: 60,
            seed: 1,
            pinned: false,
            undisturbed: false,
            pages: 0,
            threads: 0,
            scenarios: 0,
            swap: 0,
            disk: 0,
            lru_batch: 15,
        }
    }
}

impl Options {
    /// The program's name.
    pub(crate) fn program_name(&self) -> &'static str {
        PROGRAMS[self.program]
    }

    /// Whether the program is `stale`: it writes to devices, and its frames are watched.
    pub(crate) fn is_stale(&self) -> bool {
        self.program_name() == "stale"
    }

    /// Reads a command line.
    pub(crate) fn parse(line: &str) -> Result<Self, OptionError<'_>> {
        let mut options = Self::default();
        for word in line.split_whitespace() {
            let (name, value) = word.split_once('=').unwrap_or((word, ""));
            let error = || OptionError { name, value };
            let number = || value.parse::<u64>().map_err(|_| error());
            match name {
                "program" => {
                    options.program = PROGRAMS.iter().position(|&known| known == value).ok_or_else(error)?;
                }
                "mechanism" => {
                    let known = Mechanism::ALL.into_iter().find(|known| known.name() == value);
                    options.mechanism = known.ok_or_else(error)?;
                }
                "without" => {
                    let known = Without::ALL.into_iter().find(|known| known.name() == value);
                    options.without = Some(known.ok_or_else(error)?);
                }
                "max_age" => options.max_age = number()?,
                "asid_bits" => {
                    let bounded = number()?;
                    options.asid_bits = if bounded <= 16 { bounded as u32 } else { return Err(error()) };
                }
                "nodes" => options.nodes = number().map_err(|_| error())? as usize,
                "seconds" => options.seconds = number()?,
                "limit" => options.limit = number()?,
                "seed" => options.seed = number()?,
                "pinned" => options.pinned = number()? != 0,
                "undisturbed" => options.undisturbed = number()? != 0,
                "pages" => options.pages = number()?,
                "scenarios" => options.scenarios = number()?,
                "threads" => options.threads = number()?,
                "swap" => options.swap = u32::try_from(number()?).map_err(|_| error())?,
                "lru_batch" => {
                    let bounded = usize::try_from(number()?).ok().filter(|batch| (1..=31).contains(batch));
                    options.lru_batch = bounded.ok_or_else(error)?;
                }
                "disk" => {
                    options.disk =
                        number().ok().filter(|&mebibytes| mebibytes <= 1 << 20).ok_or_else(error)?;
                }
                _ => return Err(error()),
            }
        }
        Ok(options)
    }
}

/// A word of the command line that is no option. It borrows the text because there is no heap yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OptionError<'a> {
    name: &'a str,
    value: &'a str,
}

impl fmt::Display for OptionError<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "option `{}` with value `{}`", self.name, self.value)
    }
}

#[cfg(test)]
mod tests {
    use alloc::format;
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn a_line_with_every_option_is_read() {
        let line =
            "program=stale mechanism=lazy without=slot max_age=40 asid_bits=8 nodes=2 seconds=60 limit=90 seed=7 \
            pinned=1 undisturbed=1 scenarios=6 pages=9 threads=3 swap=100 disk=64 lru_batch=14";
        let options = Options::parse(line).unwrap();
        assert!(options.is_stale());
        assert_eq!((options.mechanism, options.nodes), (Mechanism::Lazy, 2));
        assert_eq!((options.seconds, options.limit), (60, 90));
        assert_eq!((options.without, options.max_age, options.asid_bits), (Some(Without::Slot), 40, 8));
        assert_eq!((options.seed, options.pinned, options.pages), (7, true, 9));
        assert!(options.undisturbed && options.scenarios == 6);
        assert_eq!((options.threads, options.swap, options.disk, options.lru_batch), (3, 100, 64, 14));
        assert_eq!(Options::parse("").unwrap(), Options::default());
    }

    #[test]
    fn mechanisms_are_found_by_their_names() {
        for mechanism in Mechanism::ALL {
            let options = Options::parse(&format!("mechanism={}", mechanism.name())).unwrap();
            assert_eq!(options.mechanism, mechanism);
        }
        assert!(Mechanism::All.broadcasts() && !Mechanism::Lazy.broadcasts());
    }

    #[test]
    fn errors_name_the_word_that_is_no_option() {
        for line in [
            "program=emacs",
            "mechanism=",
            "without=care",
            "max_age=-1",
            "asid_bits=17",
            "nodes=two",
            "speed=9",
            "swap=99999999999",
            "lru_batch=32",
        ] {
            let error = Options::parse(line).unwrap_err().to_string();
            let (name, value) = line.split_once('=').unwrap();
            assert!(error.contains(name) && error.contains(value), "{error}");
        }
    }
}
