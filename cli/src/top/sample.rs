//! The rates of one interval.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use ceasefire_linux::events::Names;
use ceasefire_linux::live::{Interval, Windows};
use ceasefire_linux::recording::{Count, Facts};
use ceasefire_linux::shootdowns::{CpuSum, Sum, Totals};
use ceasefire_linux::spread::Spread;
use serde::Serialize;

/// The rates of an interval. Its fields are the keys of JSON.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    pub(crate) ceasefire: String,
    pub(crate) kernel: String,
    /// The length of the interval, and the part of it for which events were on. If it is less than 1, figures are scaled.
    pub(crate) seconds: f64,
    pub(crate) watched: f64,
    /// The CPUs that are online.
    pub(crate) cpus: usize,
    pub(crate) counted: Count,
    /// Requests that were answered, and the change of the TLB row.
    pub(crate) handled_per_s: f64,
    pub(crate) tlb_row_per_s: Option<f64>,
    /// All shootdowns.
    pub(crate) all: Rates,
    pub(crate) lost: u64,
    pub(crate) lost_uncounted: bool,
    pub(crate) unreadable: u64,
    /// The parts of one CPU's time that this command used, and that the kernel used to write events.
    pub(crate) own_time: f64,
    pub(crate) tracing_time: f64,
    pub(crate) processes: Vec<ProcessRates>,
    pub(crate) causes: Vec<CauseRates>,
    pub(crate) per_cpu: Vec<CpuRates>,
    pub(crate) pairs: Vec<PairRate>,
}

/// The rates of some shootdowns.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Rates {
    pub(crate) flushes_per_s: f64,
    pub(crate) requests_per_s: f64,
    pub(crate) interrupts_per_s: f64,
    /// The CPUs that a flush asks.
    pub(crate) cpus_per_flush: Option<f64>,
    /// The pages of a flush that does not flush all.
    pub(crate) pages_per_flush: Option<f64>,
    /// Flushes of all translations.
    pub(crate) whole_per_s: f64,
    /// The time for which senders waited, and for which handlers ran.
    pub(crate) sender_ms_per_s: f64,
    pub(crate) victim_ms_per_s: f64,
    #[serde(flatten)]
    pub(crate) range: Range,
}

/// The lower and the upper ends of figures that are scaled, by their keys.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Range {
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) low: BTreeMap<&'static str, f64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) high: BTreeMap<&'static str, f64>,
}

/// The rates of a process.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ProcessRates {
    pub(crate) process: u32,
    pub(crate) program: String,
    /// The cause of most of its requests.
    pub(crate) cause: Option<&'static str>,
    #[serde(flatten)]
    pub(crate) rates: Rates,
    /// The requests that it suffers.
    pub(crate) received_per_s: f64,
}

/// The rates of a cause.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CauseRates {
    pub(crate) cause: &'static str,
    /// The program with the most requests of it.
    pub(crate) program: String,
    #[serde(flatten)]
    pub(crate) rates: Rates,
}

/// The rates of a CPU.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct CpuRates {
    pub(crate) cpu: u32,
    pub(crate) isolated: bool,
    pub(crate) sent_per_s: f64,
    pub(crate) received_per_s: f64,
    pub(crate) handler_ms_per_s: f64,
    /// The longest time between a request and its handler.
    pub(crate) slowest_us: f64,
    /// The program that was interrupted most.
    pub(crate) program: Option<String>,
    #[serde(flatten)]
    pub(crate) range: Range,
}

/// The requests from one CPU to another.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PairRate {
    pub(crate) sender: u32,
    pub(crate) victim: u32,
    pub(crate) requests_per_s: f64,
    #[serde(flatten)]
    pub(crate) range: Range,
}

/// A figure of some sums, with its key.
type Figure<T> = (&'static str, fn(&T) -> u64);

/// Makes rates of sums over an interval.
struct Clock<'a> {
    seconds: f64,
    windows: Option<&'a Windows>,
}

impl Range {
    /// Adds a figure, if it has a range.
    fn add(&mut self, key: &'static str, spread: Option<Spread>, scale: f64) {
        if let Some(Spread { low, high }) = spread {
            self.low.insert(key, low * scale);
            self.high.insert(key, high * scale);
        }
    }

    fn extend(&mut self, more: Self) {
        self.low.extend(more.low);
        self.high.extend(more.high);
    }

    /// Half of it, as a part of the value of a figure.
    pub(crate) fn part(&self, key: &str, value: f64) -> Option<f64> {
        let (low, high) = (self.low.get(key)?, self.high.get(key)?);
        (value > 0.0).then(|| (high - low) / 2.0 / value)
    }
}

impl Clock<'_> {
    fn rate(&self, count: u64) -> f64 {
        count as f64 / self.seconds
    }

    /// The values of a figure in the windows, which `of` takes of a window's sums.
    fn parts<T>(&self, of: impl Fn(&Totals) -> T) -> Vec<T> {
        self.windows.map_or_else(Vec::new, |windows| windows.parts.iter().map(of).collect())
    }

    /// The ranges of counts, which have these values in the windows. Times are in milliseconds.
    fn range<T>(&self, parts: &[T], figures: &[Figure<T>]) -> Range {
        let mut range = Range::default();
        let Some(windows) = self.windows else { return range };
        let values = |of: fn(&T) -> u64| parts.iter().map(of).collect::<Vec<u64>>();
        for &(key, of) in figures {
            let scale = if key.contains("_ms_") { 1e-6 } else { 1.0 };
            range.add(key, windows.spread(&values(of)), scale / self.seconds);
        }
        range
    }

    fn rates(&self, sum: &Sum, parts: &[Sum]) -> Rates {
        let part = |of: u64, whole: u64| (whole > 0).then(|| of as f64 / whole as f64);
        let mut range = self.range(
            parts,
            &[
                ("flushes_per_s", |sum| sum.flushes),
                ("requests_per_s", |sum| sum.requests),
                ("interrupts_per_s", |sum| sum.interrupts),
                ("whole_per_s", |sum| sum.whole),
                ("sender_ms_per_s", |sum| sum.sender_ns),
                ("victim_ms_per_s", |sum| sum.victim_ns),
            ],
        );
        if let Some(windows) = self.windows {
            let values = |of: fn(&Sum) -> u64| parts.iter().map(of).collect::<Vec<u64>>();
            let requests = windows.spread_of_ratio(&values(|sum| sum.requests), &values(|sum| sum.flushes));
            range.add("cpus_per_flush", requests, 1.0);
            let pages = windows.spread_of_ratio(&values(|sum| sum.pages), &values(|sum| sum.counted));
            range.add("pages_per_flush", pages, 1.0);
        }
        Rates {
            flushes_per_s: self.rate(sum.flushes),
            requests_per_s: self.rate(sum.requests),
            interrupts_per_s: self.rate(sum.interrupts),
            cpus_per_flush: part(sum.requests, sum.flushes),
            pages_per_flush: part(sum.pages, sum.counted),
            whole_per_s: self.rate(sum.whole),
            sender_ms_per_s: self.rate(sum.sender_ns) / 1e6,
            victim_ms_per_s: self.rate(sum.victim_ns) / 1e6,
            range,
        }
    }
}

impl Sample {
    /// The rates of an interval with these names, on the machine of these facts.
    pub(crate) fn of(interval: &Interval, names: &Names, facts: &Facts) -> Self {
        let seconds = interval.seconds().max(1e-9);
        let clock = Clock { seconds, windows: interval.windows.as_ref() };
        let rate = |count: u64| clock.rate(count);
        let totals = &interval.totals;
        let program = |process: u32| match totals.names.get(&process).map(|name| names.get(*name)) {
            _ if process == 0 => "(idle)".to_owned(),
            None | Some("") => "(unknown)".to_owned(),
            Some(name) => name.to_owned(),
        };
        // The greatest of each: of a process its cause, of a cause its process, of a CPU the process that it ran.
        let (mut cause_of, mut process_of) = (HashMap::new(), HashMap::new());
        for ((process, cause), sum) in &totals.processes {
            let size = (sum.requests, sum.flushes);
            raise(&mut cause_of, *process, (size, Reverse(*cause)));
            raise(&mut process_of, *cause, (size, Reverse(*process)));
        }
        let mut hit_on = HashMap::new();
        for ((cpu, process), requests) in &totals.hit {
            raise(&mut hit_on, *cpu, (*requests, Reverse(*process)));
        }

        let mut sums: BTreeMap<u32, Sum> = totals.victims.keys().map(|id| (*id, Sum::default())).collect();
        sums.extend(of_processes(totals));
        let senders = clock.parts(of_processes);
        let processes = sums.iter().map(|(process, sum)| {
            let parts: Vec<Sum> =
                senders.iter().map(|part| part.get(process).copied().unwrap_or_default()).collect();
            let mut rates = clock.rates(sum, &parts);
            let received = clock.parts(|part| part.victims.get(process).map_or(0, |(requests, _)| *requests));
            rates.range.extend(clock.range(&received, &[("received_per_s", |requests| *requests)]));
            ProcessRates {
                process: *process,
                program: program(*process),
                cause: cause_of.get(process).map(|(_, Reverse(cause))| cause.name()),
                rates,
                received_per_s: totals.victims.get(process).map_or(0.0, |(requests, _)| rate(*requests)),
            }
        });
        let causes = totals.causes.iter().map(|(cause, sum)| CauseRates {
            cause: cause.name(),
            program: process_of
                .get(cause)
                .map_or_else(String::new, |(_, Reverse(process))| program(*process)),
            rates: clock.rates(sum, &clock.parts(|part| part.causes.get(cause).copied().unwrap_or_default())),
        });
        let online = facts.cpus.iter().map(|(cpu, _)| *cpu);
        let cpus: BTreeSet<u32> = online.chain(totals.cpus.keys().copied()).collect();
        let per_cpu = cpus.iter().map(|cpu| {
            let sum = totals.cpus.get(cpu).copied().unwrap_or_default();
            let parts = clock.parts(|part| part.cpus.get(cpu).copied().unwrap_or_default());
            let figures: &[Figure<CpuSum>] = &[
                ("sent_per_s", |sum| sum.sent.requests),
                ("received_per_s", |sum| sum.received),
                ("handler_ms_per_s", |sum| sum.handler_ns),
            ];
            CpuRates {
                cpu: *cpu,
                isolated: facts.isolated.contains(cpu),
                sent_per_s: rate(sum.sent.requests),
                received_per_s: rate(sum.received),
                handler_ms_per_s: rate(sum.handler_ns) / 1e6,
                slowest_us: sum.slowest_ns as f64 / 1e3,
                program: hit_on.get(cpu).map(|(_, Reverse(process))| program(*process)),
                range: clock.range(&parts, figures),
            }
        });
        let mut pairs: Vec<_> = totals.pairs.iter().collect();
        pairs.sort_unstable();
        let pairs = pairs.into_iter().map(|(&pair, requests)| {
            let parts = clock.parts(|part| part.pairs.get(&pair).copied().unwrap_or_default());
            let range = clock.range(&parts, &[("requests_per_s", |requests| *requests)]);
            PairRate { sender: pair.0, victim: pair.1, requests_per_s: rate(*requests), range }
        });
        Self {
            ceasefire: facts.ceasefire.clone(),
            kernel: facts.kernel.clone(),
            seconds,
            watched: interval.watched(),
            cpus: facts.cpus.len(),
            counted: facts.counted,
            handled_per_s: rate(interval.answered),
            tlb_row_per_s: interval.tlb_row.map(rate),
            all: clock.rates(&totals.all, &clock.parts(|part| part.all)),
            lost: interval.lost.events,
            lost_uncounted: interval.lost.uncounted,
            unreadable: interval.lost.unreadable,
            own_time: interval.used.as_secs_f64() / seconds,
            tracing_time: interval.tracing.as_secs_f64() / seconds,
            processes: processes.collect(),
            causes: causes.collect(),
            per_cpu: per_cpu.collect(),
            pairs: pairs.collect(),
        }
    }

    /// The sample as a line of JSON. Its numbers are finite.
    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default() + "\n"
    }
}

/// The sums of each process that sent requests.
fn of_processes(totals: &Totals) -> BTreeMap<u32, Sum> {
    totals.senders().into_iter().map(|(process, sum)| (process.id, sum)).collect()
}

/// Raises the value of a key.
fn raise<K: std::hash::Hash + Eq, V: Ord + Copy>(greatest: &mut HashMap<K, V>, key: K, value: V) {
    let greatest = greatest.entry(key).or_insert(value);
    *greatest = value.max(*greatest);
}

#[cfg(test)]
mod tests {
    use crate::top::testing::{sample, sample_in_windows};

    #[test]
    fn rates_are_those_of_a_second() {
        let sample = sample(4);
        assert!(
            (sample.all.requests_per_s - sample.pairs.iter().map(|pair| pair.requests_per_s).sum::<f64>())
                .abs()
                < 1e-6
        );
        let java = sample.processes.iter().find(|process| process.program == "java").expect("a process");
        assert_eq!((java.cause, java.rates.cpus_per_flush), (Some("munmap"), Some(2.0)));
        let victim = sample.processes.iter().find(|process| process.program == "redis").expect("a victim");
        assert!(victim.received_per_s > 0.0 && victim.rates.flushes_per_s == 0.0 && victim.cause.is_none());
        assert!(sample.per_cpu[3].isolated && !sample.per_cpu[0].isolated);
    }

    #[test]
    fn json_is_one_line_with_documented_keys() {
        let line = sample_in_windows(4).json();
        assert_eq!(line.lines().count(), 1);
        let value: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        let book = include_str!("../../../docs/src/linux/top.md");
        let mut objects = vec![&value];
        while let Some(object) = objects.pop() {
            for (key, inner) in object.as_object().expect("an object") {
                assert!(book.contains(&format!("`{key}`")), "{key} is not in the book");
                objects.extend(
                    inner
                        .as_array()
                        .and_then(|all| all.first())
                        .into_iter()
                        .chain(Some(inner).filter(|inner| inner.is_object())),
                );
            }
        }
    }
    #[test]
    fn figures_of_windows_are_scaled_to_the_row_and_have_ranges() {
        let scaled = sample_in_windows(4);
        let row = scaled.tlb_row_per_s.expect("a row");
        assert!((scaled.watched - 0.1).abs() < 1e-9);
        // Each window is rounded.
        let is_row = |sum: f64| (sum - row).abs() < 20.0;
        assert!(is_row(scaled.all.requests_per_s) && is_row(scaled.handled_per_s));
        assert!(is_row(scaled.causes.iter().map(|cause| cause.rates.requests_per_s).sum()));
        assert!(is_row(scaled.processes.iter().map(|process| process.rates.requests_per_s).sum()));
        assert!(is_row(scaled.pairs.iter().map(|pair| pair.requests_per_s).sum()));
        assert!(is_row(scaled.per_cpu.iter().map(|cpu| cpu.received_per_s).sum()));
        let value = serde_json::to_value(&scaled).expect("JSON");
        let mut ranges = 0;
        for list in ["processes", "causes", "per_cpu", "pairs"] {
            for object in value[list].as_array().expect("a list") {
                for (key, low) in object["low"].as_object().expect("lower ends") {
                    let [low, figure, high] =
                        [low, &object[key], &object["high"][key]].map(serde_json::Value::as_f64);
                    assert!(low <= figure && figure <= high, "{list} {key}: {low:?} {figure:?} {high:?}");
                    ranges += 1;
                }
            }
        }
        assert!(ranges > 50, "{ranges}");
        assert!(!sample(4).json().contains("\"low\""), "nothing is scaled");
    }
}
