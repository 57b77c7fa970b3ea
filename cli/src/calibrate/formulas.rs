//! The costs of a machine file, from what was measured.
//!
//! Each formula inverts the model: the simulated machine with these costs takes as long as this computer took. With a
//! latency of L between CPUs and k CPUs interrupted, a simulated flush of one page takes longer than one without
//! interrupts by
//!
//! `k (interrupt_send + enqueue L) + interrupt_deliver + L + interruption + L - invalidate_page`,
//!
//! where the interruption of the last CPU is `interrupt_handle + invalidate_page + request L`, and the own invalidation
//! hides in the wait.

use ceasefire_linux::calibrate::{Line, Notes, Quantity, Quartiles};
use ceasefire_machine::config::{Machine, Picoseconds};

/// A cost of the machine file that was measured, in nanoseconds.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Cost {
    /// The key in `[costs]`.
    pub(super) key: &'static str,
    pub(super) value: f64,
    /// The value and its quartiles; none if a line through several figures determined it.
    pub(super) spread: Option<Quartiles>,
    pub(super) source: String,
}

impl Cost {
    /// A cost that is a measured figure less `rest`, and not less than 0.
    fn measured(key: &'static str, figure: Quartiles, rest: f64, source: String) -> Self {
        let spread = figure.map(|value| (value - rest).max(0.0));
        Self { key, value: spread.median, spread: Some(spread), source }
    }
}

/// The source of a number that is a measured quantity, and perhaps `more`.
pub(super) fn source(quantity: Quantity, spread: Quartiles, more: &str) -> String {
    let (part, name, unit) = (quantity.part().name(), quantity.name(), quantity.unit());
    format!("measured: ceasefire calibrate --only {part}: {name}: {}{more}", described(spread, unit))
}

fn described(spread: Quartiles, unit: &str) -> String {
    let Quartiles { median, low, high, rounds } = spread;
    if unit == "entries" {
        return format!("all of {median} pages held, not all of {high}");
    }
    format!("{median:.1} {unit}, median of {rounds}, quartiles {low:.1} to {high:.1}")
}

/// The mean latency between the measured CPUs; the machine's if none was measured.
pub(super) fn mean_latency(notes: &Notes, machine: &Machine) -> f64 {
    let latencies = notes.figures.iter().filter(|one| matches!(one.quantity, Quantity::Latency { .. }));
    let medians: Vec<f64> = latencies.map(|figure| figure.spread.median).collect();
    if medians.is_empty() {
        let cpus = machine.topology.cpu_count();
        return if cpus > 1 { nanoseconds(machine.latency.pair(0, cpus - 1)) } else { 0.0 };
    }
    medians.iter().sum::<f64>() / medians.len() as f64
}

pub(super) fn nanoseconds(time: Picoseconds) -> f64 {
    time as f64 / 1000.0
}

/// The measured costs, without those that need the model's own time ([`remainders`]). `machine` has the numbers that
/// were not measured.
pub(super) fn costs(notes: &Notes, machine: &Machine) -> Vec<Cost> {
    let mut costs = Vec::new();
    let zero = notes.figures.iter().find(|figure| matches!(figure.quantity, Quantity::Zero { .. }));
    for (key, quantity) in [
        ("l2_hit", Quantity::SecondHit),
        ("walk_step", Quantity::Walk),
        ("walk_memory", Quantity::WalkMemory),
        ("invalidate_page", Quantity::InvalidatePage),
        ("invalidate_asid", Quantity::InvalidateAll),
        ("context_switch", Quantity::ContextSwitch),
        ("system_call", Quantity::SystemCall),
    ]
    .into_iter()
    .chain(zero.map(|figure| ("frame_zero", figure.quantity)))
    {
        let Some(spread) = notes.get(quantity) else { continue };
        costs.push(Cost::measured(key, spread, 0.0, source(quantity, spread, "")));
    }
    costs.extend(interrupts(notes, machine));
    costs
}

/// The costs of an interrupt, as far as the numbers of CPUs allow.
fn interrupts(notes: &Notes, machine: &Machine) -> Vec<Cost> {
    let mut costs = Vec::new();
    let assumed = |cost: Picoseconds| nanoseconds(cost);
    let invalidate = notes.get(Quantity::InvalidatePage);
    let invalidate = invalidate.map_or(assumed(machine.costs.invalidate_page), |spread| spread.median);
    let latency = mean_latency(notes, machine);
    let lines = |count: u32| f64::from(count) * latency;
    let (enqueue, request) = (lines(machine.contention.enqueue), lines(machine.contention.request));

    let mut flushes: Vec<(usize, Quartiles)> = Vec::new();
    let mut interruption = None;
    for figure in &notes.figures {
        match figure.quantity {
            Quantity::Advise { threads } if threads > 0 => flushes.push((threads, figure.spread)),
            Quantity::Interruption { threads: 1 } => interruption = Some((figure.quantity, figure.spread)),
            _ => {}
        }
    }
    let points: Vec<(f64, f64)> =
        flushes.iter().map(|&(threads, spread)| (threads as f64, spread.median)).collect();
    let mut send = assumed(machine.costs.interrupt_send);
    if let Some(line) = Line::through(&points) {
        let (threads, spread) = flushes[flushes.len() - 1];
        send = (line.slope - enqueue).max(0.0);
        let more = format!(
            "; {:.1} ns more for each thread, less {enqueue:.1} ns for {} lines",
            line.slope, machine.contention.enqueue
        );
        let source = source(Quantity::Advise { threads }, spread, &more);
        costs.push(Cost { key: "interrupt_send", value: send, spread: None, source });
    }
    let Some((quantity, gap)) = interruption else { return costs };
    let more = format!(
        ", less {invalidate:.1} ns for the invalidation and {request:.1} ns for {} lines",
        machine.contention.request
    );
    let source_of_gap = source(quantity, gap, &more);
    let handle = Cost::measured("interrupt_handle", gap, invalidate + request, source_of_gap);
    let interruption = handle.value + invalidate + request;
    costs.push(handle);
    let alone = notes.get(Quantity::Advise { threads: 0 });
    let beside = Quantity::Advise { threads: 1 };
    if let Some((alone, spread)) = alone.zip(notes.get(beside)) {
        let rest = send + enqueue + interruption + 2.0 * latency;
        let more = format!(
            ", less {:.1} ns alone, less {rest:.1} ns for sending, interruption and lines, and {invalidate:.1} ns for \
             the own invalidation, which the wait hides",
            alone.median
        );
        let rest = alone.median - invalidate + rest;
        costs.push(Cost::measured("interrupt_deliver", spread, rest, source(beside, spread, &more)));
    }
    costs
}

/// The times that the model charges for what was measured if two of its costs are nothing, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Modelled {
    /// A store to a page that is not there, with a `fault` of 0.
    pub(super) fault: f64,
    /// madvise(DONTNEED) of one page without interrupts, with an `area_change` of 0.
    pub(super) advise: f64,
}

/// The costs that stand for the rest of a measured time, after the parts that the model charges apart. A rest below 0
/// is no cost, and the assumption stays.
pub(super) fn remainders(notes: &Notes, modelled: Modelled) -> Vec<Cost> {
    let fault = notes.figures.iter().find(|figure| matches!(figure.quantity, Quantity::Fault { .. }));
    let advise = Quantity::Advise { threads: 0 };
    let measured = [
        ("fault", fault.map(|figure| (figure.quantity, figure.spread)), modelled.fault),
        ("area_change", notes.get(advise).map(|spread| (advise, spread)), modelled.advise),
    ];
    let cost = |(key, found, rest): (_, Option<(Quantity, Quartiles)>, f64)| {
        let (quantity, spread) = found?;
        let more = format!(", less {rest:.1} ns that the model charges for its other parts");
        (spread.median >= rest).then(|| Cost::measured(key, spread, rest, source(quantity, spread, &more)))
    };
    measured.into_iter().filter_map(cost).collect()
}
