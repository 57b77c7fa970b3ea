//! A workload on a machine at a scale: every amount has its value.

use ceasefire_machine::config::Topology;
use ceasefire_machine::document::{Error, Problem};
use ceasefire_memory::{HUGE_BYTES, PAGE_BYTES};

use super::amount::{Amount, Words};
use super::language::{Access, Advise, Allocator, Cpus, Group, Operation, Owner, Phase, Role, Workload};
use super::read::host;

/// The most threads of a run.
const MOST_THREADS: u64 = u16::MAX as u64;

/// The most pages that one call gives back, and the most objects of an allocator.
const MOST_RANGES: u64 = 1 << 20;

/// The values of all amounts of a workload.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) groups: Vec<Placed>,
}

/// A group on a machine.
#[derive(Debug)]
pub(super) struct Placed {
    /// The CPUs of its threads, one after the other.
    pub(super) cpus: Vec<u16>,
    /// The number of threads of each process.
    pub(super) threads: Vec<u64>,
    /// The pages of each mapping.
    pub(super) pages: Vec<u64>,
    pub(super) allocators: Vec<Allocator<u64>>,
    pub(super) phases: Vec<Phase<u64>>,
}

impl Layout {
    /// The workload on a machine with this topology, with `chosen` threads where the number can be chosen.
    pub(super) fn new(workload: &Workload, topology: &Topology, chosen: u64) -> Result<Self, Error> {
        let groups = &workload.groups;
        let mut placed: Vec<Placed> = Vec::new();
        for cpus in place(workload, topology)? {
            let (threads, pages) = (Vec::new(), Vec::new());
            placed.push(Placed { cpus, threads, pages, allocators: Vec::new(), phases: Vec::new() });
        }
        let words = |cpus: &[u16]| Words {
            memory: topology.bytes(),
            cpus: cpus.len() as u64,
            processes: 1,
            threads: 1,
            chosen,
            mappings: &[],
        };
        for (number, group) in groups.iter().enumerate() {
            if group.role == Role::Own {
                placed[number].threads = threads(group, &words(&placed[number].cpus))?;
            }
        }
        for (number, group) in groups.iter().enumerate() {
            let processes = placed[host(groups, number)].threads.len();
            let words = words(&placed[number].cpus);
            let each = few(group.threads.as_ref(), &words)?;
            match group.role {
                Role::Own => {}
                Role::Inside(_) => placed[number].threads = vec![each; processes],
                Role::ForkedBy(_) => placed[number].threads = vec![1; processes],
            }
        }
        let running = |(group, placed): (&Group, &Placed)| match group.role {
            Role::ForkedBy(_) => 0,
            Role::Own | Role::Inside(_) => placed.threads.iter().sum::<u64>(),
        };
        let all: u64 = groups.iter().zip(&placed).map(running).sum();
        if all > MOST_THREADS {
            let bound = format!("at most {MOST_THREADS} threads in all");
            let problem = Problem::invalid(all, bound);
            return Err(Error { problem, ..groups[0].place.clone() });
        }
        for number in 0..groups.len() {
            let words = words(&placed[number].cpus);
            Self::measure(&mut placed, groups, number, &words)?;
        }
        for (number, group) in groups.iter().enumerate() {
            let home = host(groups, number);
            let sizes = sizes(&groups[home], &placed[home]);
            let words = Words {
                processes: placed[home].threads.len() as u64,
                threads: placed[number].threads.first().copied().unwrap_or(1),
                mappings: &sizes,
                ..words(&placed[number].cpus)
            };
            let phases =
                group.phases.iter().map(|phase| resolve_phase(phase, &words)).collect::<Result<_, _>>()?;
            placed[number].phases = phases;
        }
        Ok(Self { groups: placed })
    }

    /// Measures the mappings and allocators of a group.
    fn measure(
        placed: &mut [Placed],
        groups: &[Group],
        number: usize,
        words: &Words<'_>,
    ) -> Result<(), Error> {
        let group = &groups[number];
        let words = Words {
            processes: placed[number].threads.len() as u64,
            threads: placed[number].threads.first().copied().unwrap_or(1),
            ..*words
        };
        let mut known = Vec::new();
        for mapping in &group.mappings {
            let pages = match &mapping.size {
                Some(size) => {
                    let bytes = size.value(&Words { mappings: &known, ..words })?;
                    let unit = if mapping.huge { HUGE_BYTES } else { PAGE_BYTES };
                    let pages = (bytes / unit).max(1).saturating_mul(unit / PAGE_BYTES);
                    if pages > u64::from(u32::MAX) {
                        return Err(size.must_be(format!("at most {} pages", u32::MAX)));
                    }
                    pages
                }
                // Known once it is mapped: each file has its own size.
                None => 0,
            };
            known.push((mapping.name.clone(), pages * PAGE_BYTES));
            placed[number].pages.push(pages);
        }
        for allocator in &group.allocators {
            let words = Words { mappings: &known, ..words };
            let object = (allocator.object.value(&words)? / PAGE_BYTES).max(1);
            let all = placed[number].pages[allocator.mapping];
            if object > all {
                return Err(allocator.object.must_be("at most the size of the allocator"));
            }
            if all / object > MOST_RANGES {
                return Err(allocator
                    .object
                    .must_be(format!("so large that there are at most {MOST_RANGES}")));
            }
            let used = match &allocator.used {
                None => object,
                Some(used) => match (used.value(&words)? / PAGE_BYTES).max(1) {
                    pages if pages <= object => pages,
                    _ => return Err(used.must_be("at most the size of an object")),
                },
            };
            let batch = at_least_one(Some(&allocator.batch), &words)?;
            let Allocator { name, mapping, purge, .. } = allocator;
            let (name, used) = (name.clone(), Some(used));
            let its = Allocator { name, mapping: *mapping, object, used, purge: *purge, batch };
            placed[number].allocators.push(its);
        }
        Ok(())
    }

    /// The most bytes that the host keeps for the contents of this workload: of frames, and of files that are stored to
    /// on the device and in the reference, and of private memory beyond the frames in the reference.
    pub(super) fn contents_bytes(&self, workload: &Workload, memory: u64) -> u64 {
        let (mut files, mut private) = (0u64, 0u64);
        for (number, (group, placed)) in workload.groups.iter().zip(&self.groups).enumerate() {
            for (mapping, pages) in group.mappings.iter().zip(&placed.pages) {
                let each = match mapping.owner {
                    Owner::Thread => self.groups[mapping.group].threads.iter().sum(),
                    Owner::Process => placed.threads.len() as u64,
                    Owner::Group => 1,
                    Owner::FilesOf(..) => 0,
                };
                debug_assert_eq!(host(&workload.groups, mapping.group), number);
                let bytes = pages.saturating_mul(PAGE_BYTES).saturating_mul(each);
                if mapping.file.is_none() {
                    private = private.saturating_add(bytes);
                } else if mapping.writable {
                    files = files.saturating_add(bytes);
                }
            }
        }
        memory.saturating_add(files.saturating_mul(2)).saturating_add(private.saturating_sub(memory))
    }
}

/// The sizes of a group's mappings by name, in bytes.
fn sizes(group: &Group, placed: &Placed) -> Vec<(String, u64)> {
    let names = group.mappings.iter().map(|mapping| mapping.name.clone());
    names.zip(placed.pages.iter().map(|pages| pages * PAGE_BYTES)).collect()
}

/// The CPUs of each group.
fn place(workload: &Workload, topology: &Topology) -> Result<Vec<Vec<u16>>, Error> {
    let all = topology.cpu_count();
    let words = Words {
        memory: topology.bytes(),
        cpus: all.into(),
        processes: 1,
        threads: 1,
        chosen: all.into(),
        mappings: &[],
    };
    let counts: Vec<Option<u64>> = workload
        .groups
        .iter()
        .map(|group| match &group.cpus {
            Cpus::Next(amount) => Ok(Some(amount.value(&words)?.clamp(1, all.into()))),
            _ => Ok(None),
        })
        .collect::<Result<_, Error>>()?;
    let taken: u64 = counts.iter().flatten().sum();
    let rest = u64::from(all).saturating_sub(taken).max(1);
    let mut next = 0;
    let mut cpus = Vec::new();
    for (group, count) in workload.groups.iter().zip(counts) {
        let count = match &group.cpus {
            Cpus::Next(_) => count.unwrap_or(1),
            Cpus::Rest => rest,
            Cpus::All => {
                cpus.push((0..all).collect());
                continue;
            }
            Cpus::These(amounts) => {
                let one = |amount: &Amount| match amount.value(&words)? {
                    cpu if cpu < all.into() => Ok(cpu as u16),
                    _ => Err(amount.must_be(format!("below {all}, the number of CPUs"))),
                };
                cpus.push(amounts.iter().map(one).collect::<Result<_, _>>()?);
                continue;
            }
        };
        cpus.push((next..next + count).map(|cpu| (cpu % u64::from(all)) as u16).collect());
        next += count;
    }
    Ok(cpus)
}

/// The number of threads of each process of a group.
fn threads(group: &Group, words: &Words<'_>) -> Result<Vec<u64>, Error> {
    let each = few(group.threads.as_ref(), words)?;
    if let Some(all) = &group.threads_in_all {
        let all = few(Some(all), words)?;
        let processes = all.div_ceil(each);
        return Ok((0..processes).map(|process| each.min(all - process * each)).collect());
    }
    Ok(vec![each; few(group.processes.as_ref(), words)? as usize])
}

/// A number of processes or threads.
fn few(amount: Option<&Amount>, words: &Words<'_>) -> Result<u64, Error> {
    let value = at_least_one(amount, words)?;
    match amount.filter(|_| value > MOST_THREADS) {
        None => Ok(value),
        Some(amount) => Err(amount.must_be(format!("at most {MOST_THREADS}"))),
    }
}

fn at_least_one(amount: Option<&Amount>, words: &Words<'_>) -> Result<u64, Error> {
    amount.map_or(Ok(1), |amount| Ok(amount.value(words)?.max(1)))
}

fn resolve_phase(phase: &Phase, words: &Words<'_>) -> Result<Phase<u64>, Error> {
    Ok(Phase {
        times: phase.times.as_ref().map(|times| at_least_one(Some(times), words)).transpose()?,
        until: phase.until,
        think: phase.think,
        every: phase.every,
        counts: phase.counts,
        latency: phase.latency,
        operations: resolve_all(&phase.operations, words)?,
    })
}

fn resolve_all(operations: &[Operation], words: &Words<'_>) -> Result<Vec<Operation<u64>>, Error> {
    operations.iter().map(|operation| resolve(operation, words)).collect()
}

fn resolve(operation: &Operation, words: &Words<'_>) -> Result<Operation<u64>, Error> {
    let count = |amount: &Amount| at_least_one(Some(amount), words);
    Ok(match operation {
        Operation::Access(access) => {
            let Access { mapping, stores, pattern, ref pages, words, striped } = *access;
            Operation::Access(Access { mapping, stores, pattern, pages: count(pages)?, words, striped })
        }
        Operation::Advise(advise) => {
            let Advise { mapping, advice, pattern, ref pages, ref batch } = *advise;
            let (pages, ranges) = (count(pages)?, count(batch)?);
            if ranges > MOST_RANGES {
                return Err(batch.must_be(format!("at most {MOST_RANGES}")));
            }
            let batch = ranges;
            Operation::Advise(Advise { mapping, advice, pattern, pages, batch })
        }
        Operation::Choose(choices) => {
            let one = |(weight, counts, operation): &(u32, bool, Operation)| {
                Ok((*weight, *counts, resolve(operation, words)?))
            };
            Operation::Choose(choices.iter().map(one).collect::<Result<_, Error>>()?)
        }
        Operation::Repeat(times, operations) => {
            Operation::Repeat(count(times)?, resolve_all(operations, words)?)
        }
        Operation::Allocate { allocator, objects } => {
            Operation::Allocate { allocator: *allocator, objects: count(objects)? }
        }
        Operation::Free { allocator, objects, oldest } => {
            Operation::Free { allocator: *allocator, objects: count(objects)?, oldest: *oldest }
        }
        Operation::Purge { allocator, objects } => {
            Operation::Purge { allocator: *allocator, objects: count(objects)? }
        }
        &Operation::Write(mapping) => Operation::Write(mapping),
        &Operation::Map(mapping) => Operation::Map(mapping),
        &Operation::Unmap(mapping) => Operation::Unmap(mapping),
        &Operation::Protect { mapping, writable } => Operation::Protect { mapping, writable },
        &Operation::Compute(time) => Operation::Compute(time),
        &Operation::Sleep(time) => Operation::Sleep(time),
        &Operation::Fork { group, wait } => Operation::Fork { group, wait },
    })
}
