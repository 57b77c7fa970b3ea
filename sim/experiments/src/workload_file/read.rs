//! Reading a workload file.
//!
//! The groups and the names that they declare are read first, then the phases, which may use the names of any group.

use ceasefire_machine::config::KERNELS;
use ceasefire_machine::document::{suggestion, Entry, Error, Place, Problem, Section};
use ceasefire_memory::LruDrain;

use super::amount::{is_name, Amount};
use super::language::{
    Allocator, Cpus, File, Group, Kernel, Mapping, Measure, Owner, Purge, Role, Sweep, SweepOn, Workload,
};
use super::operations::{read_phase, Names};
use super::time::Time;
use crate::experiment::Mechanism;
use crate::names::LRU_DRAINS;

/// The most items of a list, and the most whole numbers that a key counts.
const MOST: u32 = 1 << 20;

/// Reads a workload, in which all parameters have been replaced by their values.
pub(super) fn read(mut root: Section<'_>) -> Result<Workload, Error> {
    let text = |root: &mut Section<'_>, key: &str, default: &str| {
        root.take_if_there(key).map_or(Ok(default.to_owned()), |entry| entry.text())
    };
    let description = text(&mut root, "description", "a workload file")?;
    let paper = text(&mut root, "paper", "none")?;
    let machines = match root.take_if_there("machines") {
        None => vec!["host".to_owned()],
        Some(entry) => entry.items()?.iter().map(Entry::text).collect::<Result<_, _>>()?,
    };
    let mechanisms = match root.take_if_there("mechanisms") {
        None => vec![Mechanism::Batched, Mechanism::Lazy],
        Some(entry) => entry.items()?.iter().map(mechanism).collect::<Result<_, _>>()?,
    };
    let scale = root.take_if_there("scale").map_or(Ok(1.0), |entry| read_scale(&entry))?;
    let faithful_from = root.take_if_there("faithful_from").map_or(Ok(0.0), |entry| read_scale(&entry))?;
    let repeats =
        root.take_if_there("repeats").map_or(Ok(3), |entry| entry.count(1, u16::MAX.into()))? as u16;
    let memory = root.take_if_there("memory").map(|entry| Amount::size(&entry)).transpose()?;
    root.refuse("linux", "kernel.linux")?;
    let kernel = root.take_if_there("kernel").map(read_kernel).transpose()?.unwrap_or_default();
    let measure = root.take_if_there("measure").map(read_measure).transpose()?;
    let sweep = read_sweep(&mut root)?;
    let (groups, waiting) = declare(root.take("process")?)?;
    root.finish()?;
    let mut workload = Workload {
        description,
        paper,
        machines,
        mechanisms,
        scale,
        faithful_from,
        repeats,
        memory,
        kernel,
        measure,
        sweep,
        groups,
    };
    for (group, section) in waiting.into_iter().enumerate() {
        read_phases(&mut workload, group, section)?;
    }
    Ok(workload)
}

fn mechanism(entry: &Entry<'_>) -> Result<Mechanism, Error> {
    entry.one_of(&Mechanism::ALL.map(|mechanism| (mechanism.name(), mechanism)))
}

fn read_scale(entry: &Entry<'_>) -> Result<f64, Error> {
    let amount = Amount::count(entry)?;
    let scale = amount.constant().map(|(over, under)| over as f64 / under as f64);
    scale
        .filter(|scale| *scale > 0.0 && *scale <= 1.0)
        .ok_or_else(|| amount.must_be("above 0 and at most 1, such as \"1/16\""))
}

fn read_kernel(entry: Entry<'_>) -> Result<Kernel, Error> {
    let mut section = entry.section()?;
    let linux = section.take_if_there("linux").map(|entry| entry.one_of(&KERNELS)).transpose()?;
    let mut count =
        |key: &str, most: u32| section.take_if_there(key).map(|entry| entry.count(1, most)).transpose();
    let kernel =
        Kernel { linux, read_ahead: count("read_ahead", 512)?, fault_around: count("fault_around", 512)? };
    if let Some(pages) = kernel.fault_around.filter(|pages| !pages.is_power_of_two()) {
        return Err(section
            .place()
            .error(Problem::invalid(format!("fault_around {pages}"), "a power of two")));
    }
    section.finish()?;
    Ok(kernel)
}

fn read_measure(entry: Entry<'_>) -> Result<Measure, Error> {
    let mut section = entry.section()?;
    let warm_up = section.take_if_there("warm_up").map_or(Ok(0), |entry| Time::fixed(&entry))?;
    let entry = section.take("time")?;
    let time = Time::fixed(&entry)?;
    if time == 0 {
        return Err(entry.place().error(Problem::invalid("0", "more than 0")));
    }
    section.finish()?;
    Ok(Measure { warm_up, time })
}

/// Reads the parameters that the command line can choose too. The others have been replaced by their values.
fn read_sweep(root: &mut Section<'_>) -> Result<Option<Sweep>, Error> {
    let on = root.take_if_there("sweep_on");
    let Some(entry) = root.take_if_there("sweep") else {
        return match on {
            None => Ok(None),
            Some(on) => Err(on.place().error(Problem::invalid("sweep_on", "given with sweep.threads"))),
        };
    };
    let mut section = entry.section()?;
    let threads = section.take_if_there("threads").map(read_threads).transpose()?;
    let drains = section.take_if_there("lru_drain").map(read_drains).transpose()?;
    for (_, entry) in section.take_all() {
        // Their values have been used already.
        entry.items()?;
    }
    let read_on = |mut section: Section<'_>| {
        let machine = section.take("machine")?.text()?;
        let cpus = section.take("cpus")?.count(1, u16::MAX.into())?;
        let threads = read_threads(section.take("threads")?)?;
        let lru_drains = section.take_if_there("lru_drain").map(read_drains).transpose()?;
        section.finish()?;
        Ok(SweepOn { machine, cpus, threads, lru_drains })
    };
    let subject = |on: &SweepOn| format!("{} {}", on.machine, on.cpus);
    let on = on.map_or(Ok(Vec::new()), |on| on.each(read_on, subject))?;
    if threads.is_none() && drains.is_none() {
        return Ok(None);
    }
    let (threads, lru_drains) = (threads.unwrap_or_default(), drains.unwrap_or_default());
    Ok(Some(Sweep { threads, lru_drains, on }))
}

fn read_threads(entry: Entry<'_>) -> Result<Vec<Amount>, Error> {
    some_items(entry)?.iter().map(Amount::count).collect()
}

fn read_drains(entry: Entry<'_>) -> Result<Vec<LruDrain>, Error> {
    some_items(entry)?.iter().map(|entry| entry.one_of(&LRU_DRAINS)).collect()
}

/// The items of a list that is not empty.
pub(super) fn some_items(entry: Entry<'_>) -> Result<Vec<Entry<'_>>, Error> {
    let place = entry.place().clone();
    let items = entry.items()?;
    if items.is_empty() || items.len() > MOST as usize {
        let found = format!("a list of {}", items.len());
        return Err(place.error(Problem::invalid(found, format!("1 to {MOST} items"))));
    }
    Ok(items)
}

/// Reads the groups with their names, mappings and allocators. The rest of each is read later.
fn declare(entry: Entry<'_>) -> Result<(Vec<Group>, Vec<Section<'_>>), Error> {
    let mut sections = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for item in some_items(entry)? {
        let mut section = item.section()?;
        let name = section.take("name")?;
        let text = name_of(&name.text()?, name.place(), "")?;
        if names.contains(&text) {
            return Err(name.place().error(Problem::invalid(format!("{text:?} again"), "given only once")));
        }
        names.push(text);
        sections.push(section);
    }
    let known: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut groups = Vec::new();
    for (section, name) in sections.iter_mut().zip(&names) {
        let other = |key: &str, section: &mut Section<'_>| {
            section.take_if_there(key).map(|entry| find(&entry, &known)).transpose()
        };
        let (inside, forked) = (other("inside", section)?, other("forked_by", section)?);
        let role = match (inside, forked) {
            (None, None) => Role::Own,
            (Some(host), None) => Role::Inside(host),
            (None, Some(parent)) => Role::ForkedBy(parent),
            (Some(_), Some(_)) => {
                let found = "inside and forked_by";
                return Err(section.place().error(Problem::invalid(found, "only one of the two")));
            }
        };
        groups.push(Group {
            name: name.clone(),
            place: section.place().error(Problem::Missing),
            role,
            cpus: Cpus::All,
            processes: None,
            threads: None,
            threads_in_all: None,
            start_interval: 0,
            mappings: Vec::new(),
            allocators: Vec::new(),
            phases: Vec::new(),
        });
    }
    for (number, section) in sections.iter().enumerate() {
        if let Role::Inside(other) | Role::ForkedBy(other) = groups[number].role {
            if groups[other].role != Role::Own {
                let found = format!("{:?}", groups[other].name);
                return Err(section.place().error(Problem::invalid(found, "a process of its own")));
            }
        }
    }
    for (number, section) in sections.iter_mut().enumerate() {
        let host = host(&groups, number);
        for (key, read) in
            [("mapping", read_mapping as fn(&mut [Group], _) -> _), ("allocator", read_allocator)]
        {
            let Some(entry) = section.take_if_there(key) else { continue };
            let place = entry.place().clone();
            if matches!(groups[number].role, Role::ForkedBy(_)) {
                return Err(
                    place.error(Problem::invalid(key, "given for the parent, whose memory a child has"))
                );
            }
            for (name, entry) in entry.section()?.take_all() {
                let name = name_of(&name, entry.place(), key)?;
                if groups[host].mappings.iter().any(|mapping| mapping.name == name) {
                    let found = format!("{name:?} again");
                    return Err(entry.place().error(Problem::invalid(found, "given only once in a process")));
                }
                read(&mut groups, Declared { group: number, host, name, entry })?;
            }
        }
    }
    Ok((groups, sections))
}

/// The group whose processes the threads of a group run in, or have copies of.
pub(super) fn host(groups: &[Group], number: usize) -> usize {
    match groups[number].role {
        Role::Own => number,
        Role::Inside(other) | Role::ForkedBy(other) => other,
    }
}

fn name_of(text: &str, place: &Place<'_>, what: &str) -> Result<String, Error> {
    let reserved = ["memory", "page", "CPUs", "processes", "threads"];
    if is_name(text) && !reserved.contains(&text) {
        return Ok(text.to_owned());
    }
    let what = if what.is_empty() { "a name" } else { what };
    let bound = format!("{what} of letters, digits, - and _, not one of {}", reserved.join(", "));
    Err(place.error(Problem::invalid(format!("{text:?}"), bound)))
}

/// The index of the name that an entry holds. The error suggests the nearest name.
pub(super) fn find(entry: &Entry<'_>, known: &[&str]) -> Result<usize, Error> {
    let text = entry.text()?;
    known.iter().position(|name| *name == text).ok_or_else(|| {
        let near = suggestion(&text, known.iter().copied());
        let all =
            if known.is_empty() { "declared first".into() } else { format!("one of {}", known.join(", ")) };
        entry.place().error(Problem::invalid(format!("{text:?}"), format!("{all}{near}")))
    })
}

/// A mapping or an allocator that is to be read.
struct Declared<'a> {
    /// The group that declares it.
    group: usize,
    /// The [host](host()) of that group.
    host: usize,
    name: String,
    entry: Entry<'a>,
}

fn read_mapping(groups: &mut [Group], declared: Declared<'_>) -> Result<(), Error> {
    let Declared { group, host, name, entry } = declared;
    let place = entry.place().clone();
    let mut section = entry.section()?;
    let shared_out = section.take_if_there("files_of");
    let size = match shared_out {
        Some(_) => section.take_if_there("size"),
        None => Some(section.take("size")?),
    };
    let file = section.take_if_there("file");
    let file =
        file.map(|entry| entry.one_of(&[("sparse", File::Sparse), ("stored", File::Stored)])).transpose()?;
    let mut flag =
        |key: &str, default: bool| section.take_if_there(key).map_or(Ok(default), |entry| entry.flag());
    let (writable, huge) = (flag("writable", file.is_none() && shared_out.is_none())?, flag("huge", false)?);
    let (mapped, renew) = (flag("mapped", true)?, flag("renew", false)?);
    let owner = section.take_if_there("of");
    section.finish()?;
    let refused = |found: &str, bound: &str| Err(place.error(Problem::invalid(found, bound)));
    if huge && (file.is_some() || shared_out.is_some()) {
        return refused("huge", "false for files");
    }
    if !writable && file.is_none() && shared_out.is_none() {
        return refused("writable", "true for anonymous memory");
    }
    let (owner, size, file) = match (shared_out, size) {
        (Some(_), Some(_)) => return refused("size", "left out with files_of"),
        (None, size) => {
            let owner = owner.map_or(Ok(Owner::Process), |owner| {
                let known = [("thread", Owner::Thread), ("process", Owner::Process), ("group", Owner::Group)];
                owner.one_of(&known)
            })?;
            if owner == Owner::Group && file.is_none() {
                return refused("of = \"group\"", "for files alone");
            }
            (owner, size.map(|size| Amount::size(&size)).transpose()?, file)
        }
        (Some(entry), None) => {
            let files: Vec<(String, usize, usize)> = groups
                .iter()
                .enumerate()
                .flat_map(|(other, group)| {
                    group.mappings.iter().enumerate().map(move |(at, it)| (other, at, it))
                })
                .filter(|(other, _, mapping)| {
                    *other != host && mapping.file.is_some() && mapping.owner == Owner::Process
                })
                .map(|(other, at, mapping)| (format!("{}.{}", groups[other].name, mapping.name), other, at))
                .collect();
            let known: Vec<&str> = files.iter().map(|(name, ..)| name.as_str()).collect();
            let found = find(&entry, &known)?;
            let (_, other, at) = files[found];
            (Owner::FilesOf(other, at), None, groups[other].mappings[at].file)
        }
    };
    if let Some(size) = &size {
        check_words(groups, host, size)?;
    }
    if renew && owner != Owner::Thread {
        return refused("renew", "given with of = \"thread\"");
    }
    groups[host].mappings.push(Mapping {
        name,
        group,
        owner,
        size,
        file,
        writable,
        huge,
        mapped,
        renew,
        comes_and_goes: renew,
        walks: 0,
    });
    Ok(())
}

fn read_allocator(groups: &mut [Group], declared: Declared<'_>) -> Result<(), Error> {
    let Declared { group, host, name, entry } = declared;
    let mut section = entry.section()?;
    let size = Amount::size(&section.take("size")?)?;
    let object = Amount::size(&section.take("object")?)?;
    let used = section.take_if_there("used").map(|entry| Amount::size(&entry)).transpose()?;
    let purge = section.take_if_there("purge").map_or(Ok(Purge::AtOnce), |entry| read_purge(&entry))?;
    let batch = read_count(&mut section, "batch", 1)?;
    let owner = section.take_if_there("of").map_or(Ok(Owner::Process), |owner| {
        owner.one_of(&[("thread", Owner::Thread), ("process", Owner::Process)])
    })?;
    section.finish()?;
    for amount in [&size, &object, &batch].into_iter().chain(&used) {
        check_words(groups, host, amount)?;
    }
    let host = &mut groups[host];
    host.allocators.push(Allocator {
        name: name.clone(),
        mapping: host.mappings.len(),
        object,
        used,
        purge,
        batch,
    });
    host.mappings.push(Mapping {
        name,
        group,
        owner,
        size: Some(size),
        file: None,
        writable: true,
        huge: false,
        mapped: true,
        renew: false,
        comes_and_goes: false,
        walks: 0,
    });
    Ok(())
}

fn read_purge(entry: &Entry<'_>) -> Result<Purge, Error> {
    let text = entry.text()?;
    match text.as_str() {
        "never" => Ok(Purge::Never),
        "at once" => Ok(Purge::AtOnce),
        _ => match Time::fixed(entry) {
            Ok(0) => Ok(Purge::AtOnce),
            Ok(time) => Ok(Purge::After(time)),
            Err(_) => Err(entry.place().error(Problem::invalid(
                format!("{text:?}"),
                "\"at once\", \"never\" or the time for which an object stays, such as \"1 s\"",
            ))),
        },
    }
}

/// The count that a key holds, or the default.
pub(super) fn read_count(section: &mut Section<'_>, key: &str, default: u32) -> Result<Amount, Error> {
    match section.take_if_there(key) {
        Some(entry) => Amount::count(&entry),
        None => Ok(Amount::of(default, section.place())),
    }
}

/// Refuses an amount with the name of a mapping that the process has not declared before.
pub(super) fn check_words(groups: &[Group], host: usize, amount: &Amount) -> Result<(), Error> {
    let known = |name: &str| groups[host].mappings.iter().any(|it| it.name == name && it.size.is_some());
    match amount.mappings().find(|name| !known(name)) {
        None => Ok(()),
        Some(name) => {
            let mut words = vec!["memory", "page", "CPUs", "processes", "threads"];
            words.extend(groups[host].mappings.iter().map(|mapping| mapping.name.as_str()));
            let near = suggestion(name, words.iter().copied());
            Err(amount.must_be(format!("made of numbers and {}{near}", words.join(", "))))
        }
    }
}

/// Reads the size and the phases of a group.
fn read_phases(workload: &mut Workload, number: usize, mut section: Section<'_>) -> Result<(), Error> {
    let count = |key: &str, section: &mut Section<'_>| {
        section.take_if_there(key).map(|entry| Amount::count(&entry)).transpose()
    };
    let (processes, threads) = (count("processes", &mut section)?, count("threads", &mut section)?);
    let threads_in_all = count("threads_in_all", &mut section)?;
    let cpus = section.take_if_there("cpus").map_or(Ok(Cpus::All), read_cpus)?;
    let start_interval =
        section.take_if_there("start_interval").map_or(Ok(0), |entry| Time::fixed(&entry))?;
    let place = section.place().clone();
    let refused = |found: &str, bound: &str| Err(place.error(Problem::invalid(found, bound)));
    let own = workload.groups[number].role == Role::Own;
    if !own && (processes.is_some() || threads_in_all.is_some()) {
        return refused("processes", "given for a process of its own alone");
    }
    if processes.is_some() && threads_in_all.is_some() {
        return refused("threads_in_all", "left out with processes");
    }
    if matches!(workload.groups[number].role, Role::ForkedBy(_)) && threads.is_some() {
        return refused("threads", "left out for a forked process, which has one");
    }
    let counts = [&processes, &threads, &threads_in_all];
    for amount in counts.into_iter().flatten() {
        check_words(&workload.groups, number, amount)?;
        if amount.is_chosen() && workload.sweep.as_ref().is_none_or(|sweep| sweep.threads.is_empty()) {
            return Err(amount.must_be("a parameter: [sweep] has no threads"));
        }
    }
    let group = &mut workload.groups[number];
    (group.processes, group.threads, group.threads_in_all) = (processes, threads, threads_in_all);
    (group.cpus, group.start_interval) = (cpus, start_interval);
    let phases = section.take("phase")?;
    section.finish()?;
    for phase in some_items(phases)? {
        let phase = read_phase(phase.section()?, &mut Names { workload, group: number })?;
        workload.groups[number].phases.push(phase);
    }
    Ok(())
}

fn read_cpus(entry: Entry<'_>) -> Result<Cpus, Error> {
    if entry.is_list() {
        return Ok(Cpus::These(some_items(entry)?.iter().map(Amount::count).collect::<Result<_, _>>()?));
    }
    if entry.written().as_deref() == Some("rest") {
        return Ok(Cpus::Rest);
    }
    Ok(Cpus::Next(Amount::count(&entry)?))
}
