//! The rates of one interval.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use ceasefire_linux::events::Names;
use ceasefire_linux::live::Interval;
use ceasefire_linux::recording::{Count, Facts};
use ceasefire_linux::shootdowns::Sum;
use serde::Serialize;

/// The rates of an interval. Its fields are the keys of JSON.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Sample {
    pub(crate) ceasefire: String,
    pub(crate) kernel: String,
    /// The length of the interval.
    pub(crate) seconds: f64,
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
#[derive(Debug, Clone, Copy, Serialize)]
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
}

/// The requests from one CPU to another.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct PairRate {
    pub(crate) sender: u32,
    pub(crate) victim: u32,
    pub(crate) requests_per_s: f64,
}

impl Rates {
    fn of(sum: &Sum, rate: &impl Fn(u64) -> f64) -> Self {
        let part = |of: u64, whole: u64| (whole > 0).then(|| of as f64 / whole as f64);
        Self {
            flushes_per_s: rate(sum.flushes),
            requests_per_s: rate(sum.requests),
            interrupts_per_s: rate(sum.interrupts),
            cpus_per_flush: part(sum.requests, sum.flushes),
            pages_per_flush: part(sum.pages, sum.counted),
            whole_per_s: rate(sum.whole),
            sender_ms_per_s: rate(sum.sender_ns) / 1e6,
            victim_ms_per_s: rate(sum.victim_ns) / 1e6,
        }
    }
}

impl Sample {
    /// The rates of an interval with these names, on the machine of these facts.
    pub(crate) fn of(interval: &Interval, names: &Names, facts: &Facts) -> Self {
        let seconds = interval.seconds().max(1e-9);
        let rate = |count: u64| count as f64 / seconds;
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
        sums.extend(totals.senders().into_iter().map(|(process, sum)| (process.id, sum)));
        let processes = sums.iter().map(|(process, sum)| ProcessRates {
            process: *process,
            program: program(*process),
            cause: cause_of.get(process).map(|(_, Reverse(cause))| cause.name()),
            rates: Rates::of(sum, &rate),
            received_per_s: totals.victims.get(process).map_or(0.0, |(requests, _)| rate(*requests)),
        });
        let causes = totals.causes.iter().map(|(cause, sum)| CauseRates {
            cause: cause.name(),
            program: process_of
                .get(cause)
                .map_or_else(String::new, |(_, Reverse(process))| program(*process)),
            rates: Rates::of(sum, &rate),
        });
        let online = facts.cpus.iter().map(|(cpu, _)| *cpu);
        let cpus: BTreeSet<u32> = online.chain(totals.cpus.keys().copied()).collect();
        let per_cpu = cpus.iter().map(|cpu| {
            let sum = totals.cpus.get(cpu).copied().unwrap_or_default();
            CpuRates {
                cpu: *cpu,
                isolated: facts.isolated.contains(cpu),
                sent_per_s: rate(sum.sent.requests),
                received_per_s: rate(sum.received),
                handler_ms_per_s: rate(sum.handler_ns) / 1e6,
                slowest_us: sum.slowest_ns as f64 / 1e3,
                program: hit_on.get(cpu).map(|(_, Reverse(process))| program(*process)),
            }
        });
        let mut pairs: Vec<_> = totals.pairs.iter().collect();
        pairs.sort_unstable();
        let pairs = pairs.into_iter().map(|(&(sender, victim), requests)| PairRate {
            sender,
            victim,
            requests_per_s: rate(*requests),
        });
        Self {
            ceasefire: facts.ceasefire.clone(),
            kernel: facts.kernel.clone(),
            seconds,
            cpus: facts.cpus.len(),
            counted: facts.counted,
            handled_per_s: rate(interval.answered),
            tlb_row_per_s: interval.tlb_row.map(rate),
            all: Rates::of(&totals.all, &rate),
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

/// Raises the value of a key.
fn raise<K: std::hash::Hash + Eq, V: Ord + Copy>(greatest: &mut HashMap<K, V>, key: K, value: V) {
    let greatest = greatest.entry(key).or_insert(value);
    *greatest = value.max(*greatest);
}

#[cfg(test)]
mod tests {
    use crate::top::testing::sample;

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
        let line = sample(4).json();
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
}
