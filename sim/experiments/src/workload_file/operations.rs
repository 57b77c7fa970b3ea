//! Reading the phases of a group and their operations.

use ceasefire_machine::document::{Entry, Error, Problem, Section};

use super::amount::Amount;
use super::language::{Access, Advice, Advise, Operation, Owner, Pattern, Phase, Role, Stores, Workload};
use super::read::{check_words, find, host, read_count, some_items};
use super::time::Time;

/// The deepest nesting of operations.
const DEEPEST: usize = 8;
/// The most words of a page: 4096 bytes in steps of 8.
const WORDS: u32 = 512;
/// The skew of an access by favourites, if none is given: that of YCSB.
const SKEW: f64 = 0.99;

/// The names that a group's operations may use.
pub(super) struct Names<'a> {
    pub(super) workload: &'a mut Workload,
    pub(super) group: usize,
}

impl Names<'_> {
    fn host(&self) -> usize {
        host(&self.workload.groups, self.group)
    }

    fn mapping(&self, entry: &Entry<'_>) -> Result<usize, Error> {
        let mappings = &self.workload.groups[self.host()].mappings;
        find(entry, &mappings.iter().map(|mapping| mapping.name.as_str()).collect::<Vec<_>>())
    }

    /// A mapping that belongs to no allocator.
    fn plain_mapping(&self, entry: &Entry<'_>) -> Result<usize, Error> {
        let (mapping, host) = (self.mapping(entry)?, &self.workload.groups[self.host()]);
        if host.allocators.iter().any(|it| it.mapping == mapping) {
            let found = format!("{:?}", host.mappings[mapping].name);
            return Err(entry.place().error(Problem::invalid(found, "a mapping, not an allocator")));
        }
        Ok(mapping)
    }

    fn allocator(&self, entry: &Entry<'_>) -> Result<usize, Error> {
        let group = &self.workload.groups[self.host()];
        let found = find(entry, &group.allocators.iter().map(|it| it.name.as_str()).collect::<Vec<_>>())?;
        if matches!(self.workload.groups[self.group].role, Role::ForkedBy(_)) {
            return Err(entry.place().error(Problem::invalid("an allocator", "used by the parent alone")));
        }
        Ok(found)
    }

    fn count(&self, section: &mut Section<'_>, key: &str, default: u32) -> Result<Amount, Error> {
        let count = read_count(section, key, default)?;
        check_words(&self.workload.groups, self.host(), &count)?;
        Ok(count)
    }

    /// Whether a process of the group has a single thread, of that group.
    fn is_alone(&self) -> bool {
        let groups = &self.workload.groups;
        let (own, host) = (&groups[self.group], self.host());
        let one = own.threads.as_ref().is_none_or(|threads| threads.constant() == Some((1, 1)));
        let beside = groups.iter().any(|group| group.role == Role::Inside(host));
        one && own.role == Role::Own && !beside
    }
}

/// Reads a phase.
pub(super) fn read_phase(mut section: Section<'_>, names: &mut Names<'_>) -> Result<Phase, Error> {
    let place = section.place().clone();
    let times = section.take_if_there("times").map(|entry| Amount::count(&entry)).transpose()?;
    if let Some(times) = &times {
        check_words(&names.workload.groups, names.host(), times)?;
    }
    let groups: Vec<&str> = names.workload.groups.iter().map(|group| group.name.as_str()).collect();
    let until = section.take_if_there("until").map(|entry| find(&entry, &groups)).transpose()?;
    let think = section.take_if_there("think").map(|entry| Time::read(&entry)).transpose()?;
    let every = section.take_if_there("every").map(|entry| Time::fixed(&entry)).transpose()?;
    let flag = |section: &mut Section<'_>, key: &str, default: bool| {
        section.take_if_there(key).map_or(Ok(default), |entry| entry.flag())
    };
    let counts = flag(&mut section, "counts", until.is_none())?;
    let latency = flag(&mut section, "latency", false)?;
    let operations = read_all(section.take("do")?, names, 0)?;
    section.finish()?;
    if times.is_none() && until.is_none() && names.workload.measure.is_none() {
        let bound = "limited by times or until, or the run by [measure]";
        return Err(place.error(Problem::invalid("a phase without end", bound)));
    }
    if until == Some(names.group) {
        return Err(place.error(Problem::invalid("until its own end", "until the end of another process")));
    }
    Ok(Phase { times, until, think, every, counts, latency, operations })
}

fn read_all(entry: Entry<'_>, names: &mut Names<'_>, depth: usize) -> Result<Vec<Operation>, Error> {
    some_items(entry)?.into_iter().map(|item| read_operation(item.section()?, names, depth)).collect()
}

/// Reads an operation, whose kind is the key that names its subject.
fn read_operation(mut section: Section<'_>, names: &mut Names<'_>, depth: usize) -> Result<Operation, Error> {
    let place = section.place().clone();
    if depth > DEEPEST {
        return Err(
            place.error(Problem::invalid("operations in operations", format!("at most {DEEPEST} deep")))
        );
    }
    let verbs: [(&str, Verb); 14] = [
        ("load", read_load),
        ("store", read_store),
        ("touch", read_touch),
        ("write", read_write),
        ("mmap", read_map),
        ("munmap", read_unmap),
        ("madvise", read_advise),
        ("mprotect", read_protect),
        ("fork", read_fork),
        ("allocate", read_allocate),
        ("free", read_free),
        ("purge", read_purge),
        ("compute", |entry, _, _| Ok(Operation::Compute(Time::read(&entry)?))),
        ("sleep", |entry, _, _| Ok(Operation::Sleep(Time::read(&entry)?))),
    ];
    for (verb, read) in verbs {
        if let Some(entry) = section.take_if_there(verb) {
            let operation = read(entry, &mut section, names)?;
            section.finish()?;
            return Ok(operation);
        }
    }
    if let Some(entry) = section.take_if_there("choose") {
        section.finish()?;
        let mut choices = Vec::new();
        for item in some_items(entry)? {
            let mut section = item.section()?;
            let weight = section.take_if_there("weight").map_or(Ok(1), |entry| entry.count(1, 1_000_000))?;
            let counts = section.take_if_there("counts").map_or(Ok(true), |entry| entry.flag())?;
            choices.push((weight, counts, read_operation(section, names, depth + 1)?));
        }
        return Ok(Operation::Choose(choices));
    }
    if let Some(entry) = section.take_if_there("do") {
        let times = names.count(&mut section, "times", 1)?;
        section.finish()?;
        return Ok(Operation::Repeat(times, read_all(entry, names, depth + 1)?));
    }
    // An unknown key is the likely reason.
    section.finish()?;
    let known: Vec<&str> = verbs.iter().map(|(verb, _)| *verb).chain(["choose", "do"]).collect();
    Err(place.error(Problem::invalid("an operation without a kind", format!("one of {}", known.join(", ")))))
}

/// Reads the operation whose kind's key holds `entry`, with its further keys.
type Verb = fn(Entry<'_>, &mut Section<'_>, &mut Names<'_>) -> Result<Operation, Error>;

fn read_load(entry: Entry<'_>, section: &mut Section<'_>, names: &mut Names<'_>) -> Result<Operation, Error> {
    read_access(&entry, section, names, Stores::None)
}

fn read_store(
    entry: Entry<'_>,
    section: &mut Section<'_>,
    names: &mut Names<'_>,
) -> Result<Operation, Error> {
    read_access(&entry, section, names, Stores::All)
}

fn read_touch(
    entry: Entry<'_>,
    section: &mut Section<'_>,
    names: &mut Names<'_>,
) -> Result<Operation, Error> {
    let share = Amount::count(&section.take("stores")?)?;
    let bound = "0 to 1, such as 0.5 or \"1/3\"";
    let stores = match share.constant() {
        Some((0, _)) => Stores::None,
        Some((over, under)) if over == under => Stores::All,
        Some((over, under)) if over < under => {
            let common = common_divisor(over, under);
            let fits = |number: u128| u64::try_from(number / common).map_err(|_| share.must_be(bound));
            Stores::Some(fits(over)?, fits(under)?)
        }
        _ => return Err(share.must_be(bound)),
    };
    read_access(&entry, section, names, stores)
}

fn common_divisor(one: u128, other: u128) -> u128 {
    if other == 0 {
        one
    } else {
        common_divisor(other, one % other)
    }
}

fn read_access(
    entry: &Entry<'_>,
    section: &mut Section<'_>,
    names: &mut Names<'_>,
    stores: Stores,
) -> Result<Operation, Error> {
    let mapping = names.mapping(entry)?;
    let its = &names.workload.groups[names.host()].mappings[mapping];
    if stores != Stores::None && !its.writable {
        let found = format!("a store to {}", its.name);
        return Err(entry.place().error(Problem::invalid(found, "to a mapping with writable = true")));
    }
    let pooled = names.workload.groups[names.host()].allocators.iter().any(|it| it.mapping == mapping);
    let pattern = if pooled { Pattern::Random } else { read_pattern(section, names, mapping, false)? };
    let pages = names.count(section, "pages", 1)?;
    let words = section.take_if_there("words").map_or(Ok(1), |entry| entry.count(1, WORDS))?;
    let striped = section.take_if_there("striped").map_or(Ok(false), |entry| entry.flag())?;
    if striped && !matches!(pattern, Pattern::Sequential { anywhere: false, .. }) {
        return Err(entry.place().error(Problem::invalid("striped", "given with pattern = \"sequential\"")));
    }
    Ok(Operation::Access(Access { mapping, stores, pattern, pages, words, striped }))
}

/// Reads the keys of the pattern in which an operation uses a mapping. `whole` says whether it may name all pages at
/// once.
fn read_pattern(
    section: &mut Section<'_>,
    names: &mut Names<'_>,
    mapping: usize,
    whole: bool,
) -> Result<Pattern, Error> {
    let sequential = Pattern::Sequential { anywhere: false, walk: 0 };
    let mut known = vec![
        ("sequential", sequential),
        ("random", Pattern::Random),
        ("zipf", Pattern::Zipf(SKEW)),
        ("same", Pattern::Same),
    ];
    if whole {
        known.push(("whole", Pattern::Whole));
    }
    let default = if whole { Pattern::Same } else { sequential };
    let pattern = section.take_if_there("pattern").map_or(Ok(default), |entry| entry.one_of(&known))?;
    match pattern {
        Pattern::Zipf(default) => {
            let Some(entry) = section.take_if_there("skew") else { return Ok(Pattern::Zipf(default)) };
            let skew = entry.number()?;
            if !(0.0..=10.0).contains(&skew) {
                return Err(entry.place().error(Problem::invalid(skew, "0 to 10")));
            }
            Ok(Pattern::Zipf(skew))
        }
        Pattern::Sequential { .. } => {
            let known = [("first page", false), ("random page", true)];
            let anywhere = section.take_if_there("from").map_or(Ok(false), |entry| entry.one_of(&known))?;
            let host = names.host();
            let its = &mut names.workload.groups[host].mappings[mapping];
            let walk = its.walks;
            its.walks += 1;
            if its.renew && walk > 0 {
                let found = format!("a second sequential operation on {}", its.name);
                let bound = "\"same\", \"random\" or \"zipf\": the first renews the mapping";
                return Err(section.place().error(Problem::invalid(found, bound)));
            }
            Ok(Pattern::Sequential { anywhere, walk })
        }
        pattern => Ok(pattern),
    }
}

fn read_write(entry: Entry<'_>, _: &mut Section<'_>, names: &mut Names<'_>) -> Result<Operation, Error> {
    let mapping = names.mapping(&entry)?;
    let its = &names.workload.groups[names.host()].mappings[mapping];
    let bound = "a file of the process with writable = true";
    if its.file.is_none() || its.owner != Owner::Process || !its.writable {
        return Err(entry.place().error(Problem::invalid(format!("{:?}", its.name), bound)));
    }
    // The expected value of a word is known while only one write is under way.
    if !names.is_alone() {
        return Err(entry.place().error(Problem::invalid("write", "used by processes of one thread")));
    }
    Ok(Operation::Write(mapping))
}

/// The mapping of an operation that maps or unmaps it. No other thread may use it.
fn own_mapping(entry: &Entry<'_>, names: &mut Names<'_>) -> Result<usize, Error> {
    let (mapping, host) = (names.plain_mapping(entry)?, names.host());
    let alone = names.is_alone();
    let its = &mut names.workload.groups[host].mappings[mapping];
    let of_thread = its.owner == Owner::Thread && its.group == names.group;
    if !(of_thread || alone && its.owner == Owner::Process) {
        let bound = "a mapping of the thread (of = \"thread\")";
        return Err(entry.place().error(Problem::invalid(format!("{:?}", its.name), bound)));
    }
    its.comes_and_goes = true;
    Ok(mapping)
}

fn read_map(entry: Entry<'_>, _: &mut Section<'_>, names: &mut Names<'_>) -> Result<Operation, Error> {
    Ok(Operation::Map(own_mapping(&entry, names)?))
}

fn read_unmap(entry: Entry<'_>, _: &mut Section<'_>, names: &mut Names<'_>) -> Result<Operation, Error> {
    Ok(Operation::Unmap(own_mapping(&entry, names)?))
}

fn read_advise(
    entry: Entry<'_>,
    section: &mut Section<'_>,
    names: &mut Names<'_>,
) -> Result<Operation, Error> {
    let mapping = names.plain_mapping(&entry)?;
    let known = [
        ("dontneed", Advice::DontNeed),
        ("free", Advice::Free),
        ("cold", Advice::Cold),
        ("pageout", Advice::PageOut),
    ];
    let advice =
        section.take_if_there("advice").map_or(Ok(Advice::DontNeed), |entry| entry.one_of(&known))?;
    let its = &names.workload.groups[names.host()].mappings[mapping];
    if advice == Advice::Free && its.file.is_some() {
        return Err(entry.place().error(Problem::invalid("advice = \"free\"", "given for anonymous memory")));
    }
    let pattern = read_pattern(section, names, mapping, true)?;
    let (pages, batch) = (names.count(section, "pages", 1)?, names.count(section, "batch", 1)?);
    Ok(Operation::Advise(Advise { mapping, advice, pattern, pages, batch }))
}

fn read_protect(
    entry: Entry<'_>,
    section: &mut Section<'_>,
    names: &mut Names<'_>,
) -> Result<Operation, Error> {
    let mapping = names.plain_mapping(&entry)?;
    let writable = section.take("to")?.one_of(&[("read", false), ("write", true)])?;
    let its = &names.workload.groups[names.host()].mappings[mapping];
    if writable && !its.writable {
        let bound = "given for a mapping with writable = true";
        return Err(entry.place().error(Problem::invalid("to = \"write\"", bound)));
    }
    Ok(Operation::Protect { mapping, writable })
}

fn read_fork(entry: Entry<'_>, section: &mut Section<'_>, names: &mut Names<'_>) -> Result<Operation, Error> {
    let groups = &names.workload.groups;
    let own = names.group;
    let children: Vec<(usize, &str)> = groups
        .iter()
        .enumerate()
        .filter(|(_, group)| group.role == Role::ForkedBy(own))
        .map(|(number, group)| (number, group.name.as_str()))
        .collect();
    let found = find(&entry, &children.iter().map(|(_, name)| *name).collect::<Vec<_>>())?;
    // A store by another thread while the fork is under way may or may not be in the copy.
    if !names.is_alone() {
        return Err(entry.place().error(Problem::invalid("fork", "used by processes of one thread")));
    }
    let wait = section.take_if_there("wait").map_or(Ok(true), |entry| entry.flag())?;
    Ok(Operation::Fork { group: children[found].0, wait })
}

fn read_allocate(
    entry: Entry<'_>,
    section: &mut Section<'_>,
    names: &mut Names<'_>,
) -> Result<Operation, Error> {
    let allocator = names.allocator(&entry)?;
    let objects = names.count(section, "objects", 1)?;
    Ok(Operation::Allocate { allocator, objects })
}

fn read_free(entry: Entry<'_>, section: &mut Section<'_>, names: &mut Names<'_>) -> Result<Operation, Error> {
    let allocator = names.allocator(&entry)?;
    let objects = names.count(section, "objects", 1)?;
    let known = [("oldest", true), ("random", false)];
    let oldest = section.take_if_there("which").map_or(Ok(true), |entry| entry.one_of(&known))?;
    Ok(Operation::Free { allocator, objects, oldest })
}

fn read_purge(
    entry: Entry<'_>,
    section: &mut Section<'_>,
    names: &mut Names<'_>,
) -> Result<Operation, Error> {
    let allocator = names.allocator(&entry)?;
    Ok(Operation::Purge { allocator, objects: names.count(section, "objects", 1)? })
}
