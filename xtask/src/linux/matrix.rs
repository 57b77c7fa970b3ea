//! What loads cost on the stock kernel and on others: those that a kernel is for, and those that may suffer.
//!
//! The guest's CPUs take turns, its disks are in its memory, and the plugin counts instructions of the kernel between the
//! load's begin and its end. So a boot with the same seed repeats every count, on a busy computer too. Seeds differ as boots
//! of a real machine do.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::{fs, iter, thread};

use clap::value_parser;

use super::guest::{succeeded, Boot, Guest};
use super::{Kernel, FIXED, KERNELS, LAZY, STOCK};
use crate::failure::{ensure, At as _, Failure};
use crate::one_of;
use crate::sanitize::emulator::Emulator;
use crate::table;
use crate::workspace::Workspace;

/// Kernels, machines and loads.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub(crate) struct Matrix {
    /// The kernels beside stock [default: fixed and lazy].
    #[arg(value_parser = one_of(KERNELS, |kernel| kernel.name))]
    kernels: Vec<Kernel>,
    /// The CPUs of each machine.
    #[arg(long, value_delimiter = ',', default_value = "8", value_parser = value_parser!(u32).range(2..=64))]
    cpus: Vec<u32>,
    /// The boots of each kernel on each machine with each load.
    #[arg(long, default_value_t = 1, value_parser = value_parser!(u32).range(1..=1000))]
    seeds: u32,
    /// The loads [default: all].
    #[arg(long = "load", value_delimiter = ',', value_parser = one_of(&Load::ALL, |load| load.name))]
    loads: Vec<Load>,
    /// Parameters of all kernels, such as preempt=full.
    #[arg(long = "append", default_value = "", value_name = "PARAMETERS")]
    parameters: String,
}

/// A load: the command, in which CPUS stands for their number and N/CPUS for the part of each; how many pages, calls or
/// children it is; whether the machine has tiers; and whether it has the machine for itself, since reclaim depends on what is
/// left of others. A boot of the others takes longer than they do, so they share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Load {
    name: &'static str,
    command: &'static str,
    count: u32,
    tiers: bool,
    alone: bool,
}

impl Load {
    #[rustfmt::skip]
    const ALL: [Self; 18] = [
        // Reclaim.
        Self::alone("read", 196_608, "guest_loads read CPUS 196608/CPUS /dev/nullb0"),
        Self::alone("processes", 196_608, "guest_loads processes CPUS 196608/CPUS /dev/nullb0"),
        Self::alone("dirty", 196_608, "guest_loads store CPUS 196608/CPUS /dev/nullb0"),
        Self::alone("anonymous", 147_456, "limited swap guest_loads fill CPUS 147456/CPUS 1"),
        Self::alone("cgroup", 65_536, "limited 128 guest_loads read CPUS 65536/CPUS /dev/nullb0"),
        Self { tiers: true, ..Self::alone("demote", 196_608, "guest_loads read CPUS 196608/CPUS /dev/nullb0") },
        // No reclaim, or little.
        Self::new("migrate", 24_576, "guest_loads migrate CPUS 4096 6"),
        Self::new("fork", 1280, "guest_loads fork CPUS 64 20"),
        Self::new("madvise", 8192, "guest_loads madvise CPUS 8192/CPUS"),
        Self::new("munmap", 8192, "guest_loads munmap CPUS 8192/CPUS"),
        Self::new("munmap_large", 262_144, "guest_loads munmap CPUS 4 65536/CPUS"),
        Self::new("protect", 4096, "guest_loads wait CPUS 4096/CPUS"),
        Self::new("touch", 65_536, "guest_loads fill CPUS 65536/CPUS 1"),
        Self::new("exec", 256, "guest_loads exec CPUS 256/CPUS"),
        Self::new("unlink", 4096, "guest_loads unlink CPUS 4096/CPUS /mnt"),
        Self::new("switch", 32_768, "guest_loads switch CPUS 32768/CPUS"),
        // One thread allocates, and as many as there are CPUs read without end.
        Self::alone("faults", 50_000, "guest_loads faults CPUS 196608/CPUS /dev/nullb0 50000"),
        Self::alone("signals", 50_000, "guest_loads signals CPUS 196608/CPUS /dev/nullb0 50000"),
    ];

    const fn new(name: &'static str, count: u32, command: &'static str) -> Self {
        Self { name, command, count, tiers: false, alone: false }
    }

    const fn alone(name: &'static str, count: u32, command: &'static str) -> Self {
        Self { alone: true, ..Self::new(name, count, command) }
    }

    /// The command on so many CPUs.
    fn on(self, cpus: u32) -> String {
        let word = |word: &str| match word.split_once("/CPUS") {
            Some((all, "")) => {
                all.parse().map_or_else(|_| word.to_owned(), |all: u32| (all / cpus).to_string())
            }
            _ if word == "CPUS" => cpus.to_string(),
            _ => word.to_owned(),
        };
        self.command.split(' ').map(word).collect::<Vec<_>>().join(" ")
    }
}

/// A load on a machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Job {
    load: Load,
    cpus: u32,
    kernel: Kernel,
    seed: u32,
}

/// What a boot has counted.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Counts {
    /// Instructions of the kernel while the load ran.
    instructions: u64,
    interrupts: u64,
    scanned: u64,
    reclaimed: u64,
    /// Of these, pages that went to a slower node.
    demoted: u64,
    refaults: u64,
    rest: String,
}

impl Counts {
    /// The counts of a boot that printed this, and whose plugin wrote that.
    fn of(output: &str, instructions: &str) -> Result<Self, Failure> {
        succeeded(output)?;
        let sum = |names: &[&str]| names.iter().map(|name| count(output, name)).sum::<Result<u64, Failure>>();
        let instructions = instructions.trim().parse();
        let instructions = instructions.map_err(|_| Failure::new("the plugin saw no load begin and end"))?;
        Ok(Self {
            instructions,
            interrupts: count(output, "tlb")?,
            scanned: sum(&["pgscan_kswapd", "pgscan_direct"])?,
            reclaimed: sum(&["pgsteal_kswapd", "pgsteal_direct"])?,
            demoted: sum(&["pgdemote_kswapd", "pgdemote_direct"])?,
            refaults: sum(&["workingset_refault_file", "workingset_refault_anon"])?,
            rest: format!("{}{}", waited(output), slowest(output)),
        })
    }

    fn words(&self) -> String {
        let Self { instructions, interrupts, scanned, reclaimed, demoted, refaults, rest } = self;
        format!(
            "{instructions} instructions, {interrupts} interrupts, {scanned} scanned, {reclaimed} reclaimed, \
             {demoted} of them demoted, {refaults} refaults{rest}"
        )
    }
}

/// A count of the guest's output.
fn count(output: &str, name: &str) -> Result<u64, Failure> {
    let found = output.lines().find_map(|line| {
        let (key, number) = line.strip_prefix("count ")?.split_once(' ')?;
        (key == name).then(|| number.trim().parse().ok())?
    });
    found.ok_or_else(|| Failure::new(format!("the guest printed no count of {name}:\n{output}")))
}

/// What waited for a flush; empty of a kernel without lazy unmap.
fn waited(output: &str) -> String {
    let counts = ["wait", "late"].map(|what| count(output, &format!("lazy_unmap_{what}")));
    match counts {
        [Ok(wait), Ok(late)] => format!(", {wait} pages waited, {late} for too long"),
        _ => String::new(),
    }
}

/// How long allocations took; empty of a load that asks for none. The time is that of all CPUs, one after another.
fn slowest(output: &str) -> String {
    let [Ok(half), Ok(slowest)] = ["ns_50", "ns_99_9"].map(|name| count(output, name)) else {
        return String::new();
    };
    // Only allocations that must not wait fail.
    let failed = count(output, "failed").map_or(String::new(), |failed| format!(", {failed} failed"));
    format!(", half of the allocations within {half} instructions of all CPUs, 999 of 1000 within {slowest}{failed}")
}

pub(super) fn run(workspace: &Workspace, matrix: &Matrix) -> Result<(), Failure> {
    let kernels = if matrix.kernels.is_empty() { &[FIXED, LAZY] } else { &matrix.kernels[..] };
    let others = kernels.iter().filter(|kernel| **kernel != STOCK);
    let kernels: Vec<Kernel> = [STOCK].iter().chain(others).copied().collect();
    let loads = if matrix.loads.is_empty() { &Load::ALL[..] } else { &matrix.loads };
    let guest = Guest::make(workspace, &kernels, None)?;
    let emulator = Emulator::find(workspace)?;
    let mut boots = VecDeque::new();
    for loads in together(loads) {
        for &cpus in &matrix.cpus {
            for seed in 1..=matrix.seeds {
                let job = |kernel| move |&load: &Load| Job { load, cpus, kernel, seed };
                boots.extend(kernels.iter().map(|&kernel| loads.iter().map(job(kernel)).collect::<Vec<_>>()));
            }
        }
    }
    // Once more: it must count the same.
    boots.push_front(boots[0].clone());
    let (boots, done) = (Mutex::new(boots), Mutex::new(Vec::new()));
    let work = |worker: usize| -> Result<(), Failure> {
        let report = workspace.target.join(format!("linux/guest/instructions-{worker}"));
        let next = || lock(&boots).pop_front();
        while let Some(jobs) = next() {
            let Job { load, cpus, kernel, seed } = jobs[0];
            let commands: Vec<_> = jobs.iter().map(|job| job.load.on(cpus)).collect();
            let boot = Boot {
                tiers: load.tiers,
                cpus,
                seed: Some(seed),
                parameters: matrix.parameters.clone(),
                ..Boot::new(kernel, &commands.join(";"))
            };
            let outputs = guest.run_each_on(emulator.counting("x86_64", &report), &boot)?;
            let instructions = fs::read_to_string(&report).at(&report)?;
            // A load that fails has no count, and none has two.
            let counted = instructions.lines().count();
            ensure!(counted <= jobs.len(), new, "{} loads began and ended {counted} times", jobs.len());
            let instructions = instructions.lines().chain(iter::repeat(""));
            for ((job, output), instructions) in jobs.iter().zip(&outputs).zip(instructions) {
                let (counts, name) = (Counts::of(output, instructions)?, job.load.name);
                println!("{name} on {cpus} CPUs, {}, seed {seed}: {}", kernel.name, counts.words());
                note(&mut lock(&done), *job, counts)?;
            }
        }
        Ok(())
    };
    // The others need not go on.
    let work = |worker| work(worker).inspect_err(|_| lock(&boots).clear());
    let work = &work;
    let workers = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let all: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
        all.into_iter()
            .try_for_each(|one| one.join().unwrap_or_else(|_| Err(Failure::new("a worker panicked"))))
    })?;
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let of = |kernel: Kernel, load: Load, cpus: u32| -> Vec<&Counts> {
        let ours = |job: &Job| job.kernel == kernel && job.load == load && job.cpus == cpus;
        done.iter().filter(|(job, _)| ours(job)).map(|(_, counts)| counts).collect()
    };
    let mut rows = Vec::new();
    for &load in loads {
        for &cpus in &matrix.cpus {
            let stock = of(STOCK, load, cpus);
            rows.extend(
                kernels.iter().map(|&kernel| row(load, cpus, kernel, &of(kernel, load, cpus), &stock)),
            );
        }
    }
    // The worst first.
    rows.sort_by(|one, other| other.0.total_cmp(&one.0));
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    let header = ["load", "CPUs", "kernel", "instructions", "%", "+-%", "interrupts", "%", "refaults"];
    print!("\n{}", table::format(header, &rows));
    Ok(())
}

/// The loads of each boot.
fn together(loads: &[Load]) -> Vec<Vec<Load>> {
    let (alone, shared): (Vec<Load>, Vec<_>) = loads.iter().partition(|load| load.alone);
    let shared = (!shared.is_empty()).then_some(shared);
    alone.into_iter().map(|load| vec![load]).chain(shared).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds what a boot has counted to the others, unless it is there: then it must be the same.
fn note(done: &mut Vec<(Job, Counts)>, job: Job, counts: Counts) -> Result<(), Failure> {
    let Some((_, earlier)) = done.iter().find(|(other, _)| *other == job) else {
        done.push((job, counts));
        return Ok(());
    };
    ensure!(
        *earlier == counts,
        new,
        "two boots with one seed count differently: {} and {}",
        earlier.words(),
        counts.words()
    );
    Ok(())
}

/// The row of a kernel, and its instructions as a part of those of stock: medians of the boots.
fn row(load: Load, cpus: u32, kernel: Kernel, counts: &[&Counts], stock: &[&Counts]) -> (f64, [String; 9]) {
    let middle = |counts: &[&Counts], what: fn(&Counts) -> u64| {
        median(counts.iter().map(|counts| what(counts) as f64).collect())
    };
    let [instructions, of_stock] = [counts, stock].map(|counts| middle(counts, |counts| counts.instructions));
    let [interrupts, interrupts_of_stock] =
        [counts, stock].map(|counts| middle(counts, |counts| counts.interrupts));
    let all = || counts.iter().map(|counts| counts.instructions);
    let spread = all().max().unwrap_or(0) - all().min().unwrap_or(0);
    let count = f64::from(load.count);
    let row = [
        load.name.to_owned(),
        cpus.to_string(),
        kernel.name.to_owned(),
        format!("{:.0}", instructions / count),
        format!("{:.1}", 100.0 * instructions / of_stock),
        format!("{:.1}", 50.0 * spread as f64 / instructions),
        format!("{:.5}", interrupts / count),
        format!("{:.1}", 100.0 * interrupts / interrupts_of_stock),
        format!("{:.0}", middle(counts, |counts| counts.refaults)),
    ];
    (instructions / of_stock, row)
}

pub(super) fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    f64::midpoint(numbers[(numbers.len() - 1) / 2], numbers[numbers.len() / 2])
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str =
        "exit 0\ncount tlb 12\ncount lazy_unmap_wait 3\ncount lazy_unmap 4\ncount pgscan_kswapd 1\n\
                          count pgscan_direct 2\ncount pgsteal_kswapd 3\ncount pgsteal_direct 4\n\
                          count pgdemote_kswapd 1\ncount pgdemote_direct 2\n\
                          count workingset_refault_file 5\ncount workingset_refault_anon 6\n";

    #[test]
    fn counts_are_found_by_their_whole_names() {
        assert_eq!(count(OUTPUT, "lazy_unmap").unwrap(), 4);
        assert!(count(OUTPUT, "lazy").is_err());
        let counts = Counts::of(OUTPUT, "700\n").unwrap();
        assert_eq!(
            counts.words(),
            "700 instructions, 12 interrupts, 3 scanned, 7 reclaimed, 3 of them demoted, 11 refaults"
        );
        // The plugin writes nothing if no load has ended.
        assert!(Counts::of(OUTPUT, "").is_err());
        assert!(Counts::of("exit 1\n", "700\n").is_err());
    }

    #[test]
    fn what_waits_is_told_of_kernels_that_let_it() {
        assert_eq!(waited(OUTPUT), "");
        let lazy = format!("{OUTPUT}count lazy_unmap_late 1\n");
        assert_eq!(waited(&lazy), ", 3 pages waited, 1 for too long");
    }

    #[test]
    fn allocations_are_told_with_those_that_fail() {
        let faults = format!("{OUTPUT}count ns_50 700\ncount ns_99_9 9000\n");
        let words = ", half of the allocations within 700 instructions of all CPUs, 999 of 1000 within 9000";
        assert_eq!(slowest(&faults), words);
        assert_eq!(slowest(&format!("{faults}count failed 2\n")), format!("{words}, 2 failed"));
        assert_eq!(slowest(OUTPUT), "");
    }

    #[test]
    fn a_boot_that_is_repeated_counts_once_and_must_count_the_same() {
        let job = Job { load: Load::ALL[0], cpus: 8, kernel: STOCK, seed: 1 };
        let counts = Counts::of(OUTPUT, "700").unwrap();
        let mut done = Vec::new();
        note(&mut done, job, counts.clone()).unwrap();
        note(&mut done, job, counts.clone()).unwrap();
        assert_eq!(done.len(), 1);
        note(&mut done, Job { seed: 2, ..job }, Counts::of(OUTPUT, "701").unwrap()).unwrap();
        assert_eq!(done.len(), 2);
        let error = note(&mut done, job, Counts { interrupts: 13, ..counts }).unwrap_err().to_string();
        assert!(error.contains("12 interrupts") && error.contains("13 interrupts"), "{error}");
    }

    #[test]
    fn loads_of_reclaim_have_a_boot_each_and_the_others_share_one() {
        let boots = together(&Load::ALL);
        let (last, alone) = boots.split_last().unwrap();
        assert!(alone.iter().all(|loads| loads.len() == 1 && loads[0].alone));
        assert_eq!(alone.len() + last.len(), Load::ALL.len());
        assert!(together(&Load::ALL[..1]).len() == 1 && together(&[]).is_empty());
    }

    #[test]
    fn each_cpu_has_its_part_of_a_load() {
        let [read, ..] = Load::ALL;
        assert_eq!(read.on(2), "guest_loads read 2 98304 /dev/nullb0");
        assert_eq!(read.on(32), "guest_loads read 32 6144 /dev/nullb0");
    }

    #[test]
    fn a_row_has_medians_and_how_far_boots_are_apart() {
        let of = |instructions| Counts::of(OUTPUT, instructions).unwrap();
        let (half, whole, more) = (of("1966080"), of("3932160"), of("7864320"));
        let [load, ..] = Load::ALL;
        let (part, row) = row(load, 8, LAZY, &[&half, &whole, &more], &[&whole]);
        assert_eq!(format!("{part:.3}"), "1.000");
        assert_eq!(row.join(" "), "read 8 lazy 20 100.0 75.0 0.00006 100.0 11");
        assert_eq!(format!("{:.1}", median(vec![3.0, 1.0])), "2.0");
    }
}
