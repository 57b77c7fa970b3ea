//! The language of study files; `docs/src/simulator/studies.md` is its reference.

use std::collections::HashSet;
use std::path::Path;

use ceasefire_experiments::{machine_file, with_values, Experiment, Given, Mechanism, SelectError, Written};
use ceasefire_machine::document::{parse, Entry, Error, Place, Problem, Section};

use super::axis::{values, Axis, Drawn, Setting, Values};
use super::ranges::is_whole;
use super::sample::{Method, Sample, MOST_DIMENSIONS, MOST_DRAWS};
use super::subject::{Chosen, Named, Subject, OF_RUN, OF_WORKLOAD};
use super::{Check, Study, MOST_POINTS};
use crate::point::{hash, Point};
use crate::row::Setting as Value;

/// Reads a study.
pub(super) fn read(name: &str, text: &str, folder: &Path) -> Result<Study, Error> {
    let mut root = parse(name, text)?;
    let parameters = root.take_if_there("parameters").map_or(Ok(Vec::new()), |entry| {
        // Those of workloads decide which experiments there are.
        parameters(entry.section()?)
    })?;
    let (of_workloads, parameters): (Vec<_>, Vec<_>) =
        parameters.into_iter().partition(|(_, values)| values.key().starts_with(OF_WORKLOAD));
    let of_workloads = of_workloads.into_iter().map(of_workload).collect::<Result<Vec<_>, _>>()?;
    let subjects = subjects(&mut root, folder, &of_workloads)?;
    let seeds = root.take_if_there("seeds").map_or(Ok(vec![1]), seeds)?;
    let check = root.take_if_there("check").map_or(Ok(Check::First), |entry| {
        entry.one_of(&[("first", Check::First), ("all", Check::All), ("none", Check::None)])
    })?;
    let draws = root.take_if_there("draws").map(draws).transpose()?;
    let all_ranges =
        root.take_if_there("ranges").map(|entry| Ok((entry.flag()?, entry.place().clone()))).transpose()?;
    let (mut axes, mut ranges) = (Vec::new(), Vec::new());
    for (place, values) in parameters {
        match values {
            Values::List(list) => axes.push(checked_axis(list, &place, &subjects)?),
            Values::Range(range) => ranges.push(checked_range(range, &place, &subjects, draws.is_some())?),
        }
    }
    let place = root.place().clone();
    root.finish()?;
    let keys = || axes.iter().map(Axis::key).chain(ranges.iter().map(Drawn::key));
    let mut sorted: Vec<&str> = keys().collect();
    sorted.sort_unstable();
    if let Some([twice, ..]) = sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        let value = format!("parameters.{twice} again");
        return Err(place.error(Problem::invalid(value, "given only once")));
    }
    // Keys that have values of their own are not drawn a second time.
    let uncertain: Vec<String> = match all_ranges {
        Some((true, _)) => {
            let all = subjects.iter().flat_map(|subject| subject.ranges.keys());
            let mut uncertain: Vec<String> =
                all.filter(|key| !sorted.contains(key)).map(str::to_owned).collect();
            let mut seen = HashSet::new();
            uncertain.retain(|key| seen.insert(key.clone()));
            uncertain
        }
        _ => Vec::new(),
    };
    if let (Some((true, place)), None) = (&all_ranges, draws) {
        return Err(place.error(Problem::invalid("true", "drawn from: say `draws = N`")));
    }
    let dimensions = ranges.len() + uncertain.len();
    let sample = match (draws, dimensions == 0) {
        (Some((count, ..)), true) => {
            let value = format!("draws = {count}");
            let bound = "left out, or some parameter a range, as { from = ..., to = ... }, or ranges = true";
            return Err(place.error(Problem::invalid(value, bound)));
        }
        (None, _) => Sample::new(Method::Random, 0, 1, 0),
        (Some(_), false) if dimensions > MOST_DIMENSIONS => {
            let value = format!("{dimensions} ranges");
            return Err(place.error(Problem::invalid(value, format!("at most {MOST_DIMENSIONS}"))));
        }
        (Some((count, method, seed)), false) => Sample::new(method, dimensions, count, seed),
    };
    let runs: usize = subjects.iter().map(|subject| subject.mechanisms.len()).sum();
    let factors = axes.iter().map(Axis::len).chain([runs, seeds.len()]).map(|count| count as u64);
    let points = factors.chain([sample.count()]).try_fold(1u64, u64::checked_mul);
    let Some(points) = points.filter(|points| *points <= MOST_POINTS) else {
        let value =
            points.map_or("more points than can be counted".into(), |points| format!("{points} points"));
        return Err(place.error(Problem::invalid(value, format!("at most {MOST_POINTS}"))));
    };
    let study = Study {
        text: text.to_owned(),
        subjects,
        axes,
        drawn: ranges,
        uncertain,
        sample,
        seeds,
        check,
        points,
    };
    first_can_run(&study, &place)?;
    Ok(study)
}

/// The values of a workload's parameter.
fn of_workload((place, values): (Place<'_>, Values)) -> Result<(String, Vec<String>), Error> {
    let name = values.key().trim_start_matches(OF_WORKLOAD).to_owned();
    match values {
        Values::List(list) => Ok((name, list.values().to_vec())),
        Values::Range(_) => {
            let bound = "a list: the parameters of workloads are not drawn; or a range with `steps`";
            Err(place.error(Problem::invalid("a range", bound)))
        }
    }
}

/// The experiments with their machines and mechanisms, with these values of the workloads' parameters.
fn subjects(root: &mut Section<'_>, folder: &Path, given: &Given) -> Result<Vec<Subject>, Error> {
    let place = root.place().clone();
    let experiments = texts(root.take("experiments")?)?;
    let machines = root.take_if_there("machines").map(texts).transpose()?;
    let mechanisms = root.take_if_there("mechanisms").map(texts).transpose()?;
    let mechanisms: Option<Vec<Mechanism>> = mechanisms
        .map(|named| {
            named.iter().map(|(place, name)| name.parse().map_err(|error| at(place, error))).collect()
        })
        .transpose()?;
    let mut subjects: Vec<Subject> = Vec::new();
    for (named, name) in &experiments {
        for experiment in selected(folder, name, given).map_err(|error| at(named, error))? {
            let own: Vec<(Place<'_>, String)>;
            let machines = if let Some(machines) = &machines {
                machines
            } else {
                let own_machines = experiment.definition.machines.iter();
                own = own_machines.map(|name| (named.clone(), (*name).to_owned())).collect();
                &own
            };
            if machines.is_empty() {
                let problem =
                    Problem::invalid(format!("{name:?} without machines"), "run on some: add `machines`");
                return Err(place.error(problem));
            }
            for (named, name) in machines {
                let path = found(folder, name);
                let machine = machine_file(&path, &[]).map_err(|error| at(named, error))?;
                let mechanisms =
                    mechanisms.clone().unwrap_or_else(|| experiment.definition.mechanisms.to_vec());
                subjects.push(Subject::new(experiment.clone(), path, machine, mechanisms));
            }
        }
    }
    Ok(subjects)
}

/// The experiments with a name, or those of a workload file with these values of its parameters.
fn selected(folder: &Path, name: &str, given: &Given) -> Result<Vec<Named>, SelectError> {
    let (name, own) = with_values(name);
    let given = [&own, given].concat();
    let path = found(folder, name);
    let file = std::fs::read_to_string(&path).ok();
    let stem = Path::new(&path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let named = |definition: &'static Experiment| {
        let parameters = parameters_of(definition);
        let Some((text, stem)) = file.as_ref().zip(stem.as_ref()) else {
            let name = definition.name.to_owned();
            return Named { definition, content: name.clone(), parameters, name };
        };
        let variant = definition.name.strip_prefix(path.as_str()).unwrap_or_default();
        let (name, content) = (format!("{stem}{variant}"), format!("{}{variant}", hash(text)));
        Named { definition, name, content, parameters }
    };
    Ok(Experiment::select_with(&path, &given, &[])?.into_iter().map(named).collect())
}

/// The parameters of a variant of a workload.
fn parameters_of(experiment: &Experiment) -> Vec<(String, Value)> {
    let value = |(name, value): &(String, Written)| {
        let number = value.text.parse().ok().filter(|_| !value.is_text);
        (format!("{OF_WORKLOAD}{name}"), number.map_or(Value::Word(value.text.clone()), Value::Number))
    };
    experiment.parameters.iter().map(value).collect()
}

/// A name as the library finds it: that of a file begins at the study's folder.
fn found(folder: &Path, name: &str) -> String {
    let path = folder.join(name);
    let is_path = Path::new(name).extension().is_some() || name.contains(std::path::MAIN_SEPARATOR);
    if is_path || path.is_file() {
        path.to_string_lossy().into_owned()
    } else {
        name.to_owned()
    }
}

/// An error of another part of the program, at a place of the study.
fn at(place: &Place<'_>, error: impl std::fmt::Display) -> Error {
    place.error(Problem::Refused(error.to_string()))
}

/// A list of texts without repetition, each with its place.
fn texts(entry: Entry<'_>) -> Result<Vec<(Place<'_>, String)>, Error> {
    let place = entry.place().clone();
    let mut texts: Vec<(Place<'_>, String)> = Vec::new();
    for item in entry.items()? {
        let text = item.text()?;
        if texts.iter().any(|(_, earlier)| *earlier == text) {
            return Err(item.place().error(Problem::invalid(format!("{text:?} again"), "given only once")));
        }
        texts.push((item.place().clone(), text));
    }
    if texts.is_empty() {
        return Err(place.error(Problem::invalid("an empty list", "at least one name")));
    }
    Ok(texts)
}

/// A number of seeds, from 1, or a list of them.
fn seeds(entry: Entry<'_>) -> Result<Vec<u64>, Error> {
    const MOST: u32 = 1 << 20;
    if !entry.is_list() {
        return Ok((1..=u64::from(entry.count(1, MOST)?)).collect());
    }
    let place = entry.place().clone();
    let seeds: Vec<u64> =
        entry.items()?.iter().map(|item| item.count(0, u32::MAX).map(u64::from)).collect::<Result<_, _>>()?;
    let mut sorted = seeds.clone();
    sorted.sort_unstable();
    sorted.dedup();
    if seeds.is_empty() || sorted.len() < seeds.len() {
        let bound = "at least one seed, each given only once";
        return Err(place.error(Problem::invalid(format!("a list of {}", seeds.len()), bound)));
    }
    Ok(seeds)
}

/// The number of draws, their method and its seed.
fn draws(entry: Entry<'_>) -> Result<(u64, Method, u64), Error> {
    let most = MOST_POINTS.min(MOST_DRAWS) as u32;
    if entry.written().is_some() {
        return Ok((entry.count(1, most)?.into(), Method::Sobol, 1));
    }
    let mut section = entry.section()?;
    let count = section.take("count")?.count(1, most)?;
    let method = section.take_if_there("method").map(|entry| entry.one_of(&Method::ALL)).transpose()?;
    let seed = section.take_if_there("seed").map(|entry| entry.count(0, u32::MAX)).transpose()?;
    section.finish()?;
    Ok((count.into(), method.unwrap_or(Method::Sobol), seed.unwrap_or(1).into()))
}

/// All parameters. A table without `from` or `to` is a part of dotted keys: `costs.fault` may be written so.
fn parameters(section: Section<'_>) -> Result<Vec<(Place<'_>, Values)>, Error> {
    fn collect<'a>(
        all: &mut Vec<(Place<'a>, Values)>,
        before: &str,
        mut section: Section<'a>,
    ) -> Result<(), Error> {
        for (name, entry) in section.take_all() {
            let (place, key) = (entry.place().clone(), format!("{before}{name}"));
            let is_range =
                |mut inner: Section<'_>| ["from", "to"].iter().any(|end| inner.take_if_there(end).is_some());
            if entry.clone().section().is_ok_and(|inner| !is_range(inner)) {
                collect(all, &format!("{key}."), entry.section()?)?;
            } else {
                all.push((place, values(key, entry)?));
            }
        }
        Ok(())
    }
    let mut all = Vec::new();
    collect(&mut all, "", section)?;
    Ok(all)
}

/// Checks each value of a list on each machine.
fn checked_axis(axis: Axis, place: &Place<'_>, subjects: &[Subject]) -> Result<Axis, Error> {
    for value in axis.decisive() {
        check(&value, place, subjects)?;
    }
    Ok(axis)
}

/// Checks the ends of a range on each machine, and finds out whether its values are whole.
fn checked_range(
    mut range: Drawn,
    place: &Place<'_>,
    subjects: &[Subject],
    is_drawn: bool,
) -> Result<Drawn, Error> {
    if !is_drawn {
        let bound = "drawn: say `draws = N`, or `steps` for a list of equal steps";
        return Err(place.error(Problem::invalid("a range", bound)));
    }
    range.is_whole = match range.key() {
        "cpus" | "threads" => true,
        "scale" => false,
        _ => subjects.iter().any(|subject| is_whole(range.key(), &subject.machine)),
    };
    for end in range.ends() {
        check(&end, place, subjects)?;
    }
    Ok(range)
}

/// Checks that every machine takes a setting.
fn check(setting: &Setting, place: &Place<'_>, subjects: &[Subject]) -> Result<(), Error> {
    let mut chosen = Chosen::default();
    let of_value = |bound: &str| place.error(Problem::invalid(format!("{:?}", setting.value), bound));
    chosen.take(setting).map_err(|bound| of_value(&bound))?;
    for subject in subjects {
        if let Some(change) = chosen.changes.first() {
            let known =
                subject.machine.parameter(&change.key).and_then(|_| subject.machine.in_own_unit(change));
            known.map_err(|error| match error.problem {
                Problem::Unknown(None) => {
                    let bound = format!("a number of {}, or one of {}", error.file, OF_RUN.join(", "));
                    place.error(Problem::invalid(&change.key, bound))
                }
                problem => place.error(problem),
            })?;
        }
        subject.machine(&chosen).map_err(|error| place.error(error.problem))?;
    }
    Ok(())
}

/// Checks that the first values of all lists can run with each experiment, machine and mechanism, so that a wrong choice
/// fails at once. A draw that cannot run is a row with its error.
fn first_can_run(study: &Study, place: &Place<'_>) -> Result<(), Error> {
    let settings: Vec<Setting> = study.axes.iter().map(|axis| axis.value(0)).collect();
    for subject in &study.subjects {
        for &mechanism in &subject.mechanisms {
            let point = Point::new(subject, mechanism, settings.clone(), study.seeds[0], false);
            point.plan().map_err(|error| place.error(Problem::Refused(error)))?;
        }
    }
    Ok(())
}
