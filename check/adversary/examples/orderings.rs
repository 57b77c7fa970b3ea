//! Weakens the ordering of each atomic access of the engine by itself, by one step. Each must be missed by a scenario,
//! or a line beside the code must say why it is equivalent.
//!
//! `cargo run --profile checked -p ceasefire-adversary --example orderings [SCHEDULES] [PLACE]`: so many schedules of
//! each scenario that makes the access, 1000 if it is not said; only the accesses whose place contains PLACE.
//!
//! It exits with 1 if an ordering is not missed and not explained, if one that is explained is missed, or if no
//! scenario makes an access.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

use ceasefire_adversary::{
    accesses, all, check, random, sources, Access, Kind, Mark, Scenario, Source, Verdict, Weakening,
};

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let schedules = match arguments.next().map(|text| text.parse::<u64>()) {
        None => 1000,
        Some(Ok(schedules)) if schedules > 0 => schedules,
        Some(_) => {
            eprintln!("orderings: the number of schedules must be a whole number of at least 1");
            return ExitCode::from(2);
        }
    };
    match sources() {
        Ok(sources) => examine(&sources, schedules, &arguments.next().unwrap_or_default()),
        Err(error) => {
            eprintln!("orderings: {error}");
            ExitCode::from(2)
        }
    }
}

/// An access, its ordering, and the scenarios that make it.
type Users = BTreeMap<Access, (Ordering, Vec<&'static Scenario>)>;

fn examine(sources: &[Source], schedules: u64, place: &str) -> ExitCode {
    let users = users();
    let mut wrong = unmade(sources, &users, place);
    let scenarios: Vec<_> = all().chain(random()).collect();
    // A scenario that breaks by itself would miss everything.
    wrong.extend(in_parallel(&scenarios, |scenario| {
        match check(scenario, &[], 0, schedules, false).verdict {
            Verdict::Broken(found) => Some(format!("{} breaks by itself: {found:?}", scenario.name)),
            _ => None,
        }
    }));
    let questions: Vec<_> = users
        .iter()
        .filter(|(access, _)| access.site.to_string().contains(place))
        .flat_map(|(access, (order, scenarios))| {
            questions(sources, *access, *order).into_iter().map(move |asked| (asked, scenarios))
        })
        .collect();
    wrong.extend(in_parallel(&questions, |(question, scenarios)| {
        let (line, holds) = question.answer(scenarios, schedules);
        println!("{line}");
        (!holds).then_some(line)
    }));
    let equivalent = questions.iter().filter(|(question, _)| question.mark.is_some()).count();
    println!(
        "{} accesses, {schedules} schedules: {} weakenings must be missed, {equivalent} are equivalent; {} wrong",
        users.len(),
        questions.len() - equivalent,
        wrong.len()
    );
    for line in &wrong {
        println!("  {line}");
    }
    ExitCode::from(u8::from(!wrong.is_empty()))
}

/// What `wrong` says of the items, each on a CPU of the host.
fn in_parallel<T: Sync>(items: &[T], wrong: impl Fn(&T) -> Option<String> + Sync) -> Vec<String> {
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let jobs = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(item) = items.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let line = wrong(item);
                    found.lock().expect("no thread fails under it").extend(line);
                }
            });
        }
    });
    found.into_inner().expect("no thread failed under it")
}

/// The accesses of the engine.
fn users() -> Users {
    let mut users = Users::new();
    for scenario in all().chain(random()) {
        for (access, order) in accesses(scenario, 50) {
            users.entry(access).or_insert((order, Vec::new())).1.push(scenario);
        }
    }
    users
}

/// The orderings in the sources that belong to no access, and the marks.
fn unmade(sources: &[Source], users: &Users, place: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    for Source { path, marks, named } in sources {
        let made = |lines: std::ops::RangeInclusive<u32>| {
            users
                .keys()
                .any(|access| access.site.inside() == Some(&**path) && lines.contains(&access.site.line))
        };
        let marks = marks.iter().filter(|mark| !made(mark.line..=mark.line));
        wrong.extend(marks.map(|mark| format!("{path}:{}: the mark stands beside no access", mark.line)));
        let named = named.iter().filter(|named| !made(named.from..=named.line));
        wrong.extend(named.map(|named| format!("{path}:{}: no scenario makes the access", named.line)));
    }
    wrong.retain(|line| line.contains(place));
    wrong
}

/// An ordering that a scenario must miss; or, if there is a mark, that none may miss.
struct Question<'a> {
    weakening: Weakening,
    mark: Option<&'a Mark>,
}

fn questions(sources: &[Source], access: Access, from: Ordering) -> Vec<Question<'_>> {
    let source = sources.iter().find(|source| access.site.inside() == Some(&*source.path));
    let mark = source
        .and_then(|source| source.marks.iter().find(|mark| mark.line == access.site.line))
        .filter(|_| access.kind != Kind::Failure);
    let least = mark.map_or(from, |mark| mark.to);
    let asked = |to, mark| Question { weakening: Weakening { access, from, to }, mark };
    let weaker = access.kind.weaker(least).iter().map(|&to| asked(to, None));
    mark.map(|mark| asked(mark.to, Some(mark))).into_iter().chain(weaker).collect()
}

impl Question<'_> {
    /// The answer in words, and whether it is as it must be.
    fn answer(&self, scenarios: &[&'static Scenario], schedules: u64) -> (String, bool) {
        let Self { weakening, mark } = self;
        // It lives as long as the program: there is one for each question.
        let removed = Box::leak(Box::new([weakening.removed()]));
        // Most are missed soon in some scenario.
        let rounds = [0, schedules / 16, schedules / 4, schedules];
        let missed = rounds.windows(2).find_map(|round| {
            scenarios.iter().find_map(|scenario| {
                match check(scenario, removed, round[0], round[1] - round[0], false).verdict {
                    Verdict::Broken(found) => Some((scenario.name, found)),
                    _ => None,
                }
            })
        });
        match (missed, mark) {
            (Some((name, found)), None) => {
                (format!("{weakening}: {name}, seed {}, {}", found.seed, found.rule), true)
            }
            (None, None) => {
                (format!("{weakening}: no one of {} scenarios misses it", scenarios.len()), false)
            }
            (None, Some(mark)) => (format!("{weakening}: equivalent: {}", mark.reason), true),
            (Some((name, found)), Some(_)) => (
                format!("{weakening}: said to be equivalent, and {name} misses it, seed {}", found.seed),
                false,
            ),
        }
    }
}
