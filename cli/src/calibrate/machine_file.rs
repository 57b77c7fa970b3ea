//! The machine file: the assumptions about this computer, with the measured numbers in their places.

use ceasefire_linux::calibrate::{Computer, Distance, Notes, Quantity, Quartiles};
use ceasefire_machine::config::{Linux, Machine, MachineError, Parameter, TlbLevel, HOST};
use toml_edit::{value, ArrayOfTables, DocumentMut, Item, Table};

use super::formulas::{self, source, Cost};
use super::model;
use crate::failure::Failure;

const HEAD: &str = "\
# This computer, as `ceasefire calibrate` measured it. The source of a measured number names the command that repeats
# it. The source of any other begins with `assumed`, or names a file of Linux.
";

/// A calibrated machine and its file.
pub(super) struct Calibrated {
    pub(super) machine: Machine,
    pub(super) text: String,
}

/// The machine like this computer, `host`, with its Linux and every number that was measured.
pub(super) fn calibrated(
    host: &Machine,
    description: &str,
    linux: Option<Linux>,
    computer: &Computer,
    notes: &Notes,
) -> Result<Calibrated, Failure> {
    let read = |text: &str| -> Result<Machine, MachineError> {
        Machine::from_toml("the machine file", text, "".as_ref())
    };
    let mut document: DocumentMut = HOST.parse().map_err(Failure::input)?;
    document["description"] = value(description);
    if let Some(linux) = linux {
        document["linux"] = value(linux.name());
    }
    document["topology"] = Item::Table(topology(host));
    tlb(&mut document, host, notes);
    if let Some(latency) = latency(host, computer, notes) {
        document["latency"] = Item::Table(latency);
    }
    if let Some(copies) = copies(notes) {
        document["copy"] = Item::ArrayOfTables(copies);
    }
    set_costs(&mut document, formulas::costs(notes, host));
    if let Ok(modelled) = model::without_remainders(&read(&document.to_string()).map_err(Failure::input)?) {
        set_costs(&mut document, formulas::remainders(notes, modelled));
    }
    // The template's head says that nothing was measured.
    let text = document.to_string();
    let text = text.trim_start_matches(|c| c != '\n');
    let body = text.lines().skip_while(|line| line.is_empty() || line.starts_with('#'));
    let text = std::iter::once(HEAD.trim_end()).chain(body).collect::<Vec<_>>().join("\n") + "\n";
    Ok(Calibrated { machine: read(&text).map_err(Failure::input)?, text })
}

fn set_costs(document: &mut DocumentMut, costs: Vec<Cost>) {
    for Cost { key, value, spread, source } in costs {
        let range = spread.and_then(|spread| range(spread, "rounds"));
        replace(&mut document["costs"][key], quantity(value, &source, range));
    }
}

/// Puts a table in the place of another, below the same comment.
fn replace(item: &mut Item, mut table: Table) {
    if let Item::Table(former) = item {
        table.decor_mut().clone_from(former.decor());
        table.set_position(former.position());
    }
    *item = Item::Table(table);
}

/// A time in nanoseconds with its source, perhaps with its range.
fn quantity(number: f64, source: &str, range: Option<Table>) -> Table {
    let mut table = Table::new();
    table.insert("value", value(rounded(number)));
    table.insert("unit", value("ns"));
    table.insert("source", value(source));
    if let Some(range) = range {
        table.insert("range", Item::Table(range));
    }
    table
}

/// The range between the quartiles, unless they are the same. `counted` names their values: rounds or pairs.
fn range(spread: Quartiles, counted: &str) -> Option<Table> {
    let Quartiles { low, high, rounds, .. } = spread.map(rounded);
    let mut table = Table::new();
    table.set_dotted(true);
    table.insert("from", value(low));
    table.insert("to", value(high));
    table.insert("because", value(format!("the quartiles of {rounds} {counted}")));
    (low < high).then_some(table)
}

/// With two decimals.
fn rounded(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// The nodes, as Linux describes them.
fn topology(host: &Machine) -> Table {
    let parameter = |key: &str| host.sources.iter().find(|parameter| parameter.key == key);
    let source =
        |key: &str| parameter(key).map_or("assumed: as Linux", |parameter| parameter.source.as_str());
    let mut nodes = ArrayOfTables::new();
    for (index, node) in host.topology.nodes().iter().enumerate() {
        let mut memory = Table::new();
        memory.insert("value", value(node.bytes.cast_signed()));
        memory.insert("unit", value("B"));
        memory.insert("source", value(source(&format!("topology.nodes[{index}].memory"))));
        let mut table = Table::new();
        table.insert("cpus", value((node.cpus.len() as u64).cast_signed()));
        table.insert("memory", Item::Table(memory));
        nodes.push(table);
    }
    let mut table = Table::new();
    table.insert("source", value(source("topology.nodes[0].cpus")));
    table.insert("nodes", Item::ArrayOfTables(nodes));
    table
}

/// Sets the sizes of the TLB that were measured, and that of the second level if Linux reports it.
fn tlb(document: &mut DocumentMut, host: &Machine, notes: &Notes) {
    let levels = [
        ("l1", "tlb.l1.entries", host.tlb.l1, Quantity::FirstEntries),
        ("l2", "tlb.l2.entries", host.tlb.l2, Quantity::SecondEntries),
    ];
    for (name, key, given, quantity) in levels {
        let measured = notes.get(quantity).and_then(|spread| {
            let level = level(spread, given)?;
            let source = source(
                quantity,
                spread,
                "; ways: the fewest from the assumed on that make a power of two of sets",
            );
            Some((level, source))
        });
        let stated = || {
            let parameter = host.sources.iter().find(|parameter| parameter.key == key);
            parameter
                .filter(|parameter| !Parameter::is_assumed(parameter))
                .map(|parameter| (given, parameter.source.clone()))
        };
        let Some((level, source)) = measured.or_else(stated) else { continue };
        let mut table = Table::new();
        table.insert("entries", value(i64::from(level.entries)));
        table.insert("ways", value(i64::from(level.ways)));
        table.insert("source", value(source));
        replace(&mut document["tlb"][name], table);
    }
}

/// A level of as many entries as were measured.
fn level(spread: Quartiles, given: TlbLevel) -> Option<TlbLevel> {
    let entries = spread.median as u32;
    (given.ways.min(entries)..=entries).find_map(|ways| TlbLevel::new(entries, ways).ok())
}

/// The latencies: each pair if all CPUs were measured, else the mean of those that were.
fn latency(host: &Machine, computer: &Computer, notes: &Notes) -> Option<Table> {
    let pair = |a: u32, b: u32| notes.get(Quantity::Latency { a: a.min(b), b: a.max(b) });
    let cpus: Vec<u32> = computer.cpus().collect();
    let pairs: Vec<(u32, u32, Quartiles)> = notes
        .figures
        .iter()
        .filter_map(|figure| match figure.quantity {
            Quantity::Latency { a, b } => Some((a, b, figure.spread)),
            _ => None,
        })
        .collect();
    let all = Quartiles::of(pairs.iter().map(|pair| pair.2.median).collect())?;
    let (first, second, spread) = *pairs.first()?;
    let source = if pairs.len() == 1 {
        source(Quantity::Latency { a: first, b: second }, spread, "")
    } else {
        format!(
            "measured: ceasefire calibrate --only latency: {} pairs: {:.1} ns, quartiles {:.1} to {:.1}",
            pairs.len(),
            all.median,
            all.low,
            all.high
        )
    };
    let mut table = Table::new();
    if pairs.len() == 1 || cpus.len() != usize::from(host.topology.cpu_count()) {
        let range = if pairs.len() == 1 { range(spread, "rounds") } else { range(all, "pairs") };
        table.set_implicit(true);
        table.insert("uniform", Item::Table(quantity(all.median, &source, range)));
        return Some(table);
    }
    // The file numbers the CPUs node by node. The host's are numbered as Linux numbers the online ones.
    let order =
        host.topology.nodes().iter().flat_map(|node| node.cpus.iter().map(|&cpu| cpus[usize::from(cpu)]));
    let order: Vec<u32> = order.collect();
    let alike = |distance: Distance| {
        let pairs = pairs.iter().filter(|(a, b, _)| computer.distance(*a, *b) == distance);
        Quartiles::of(pairs.map(|pair| pair.2.median).collect()).unwrap_or(all).median
    };
    let latency = |a, b| pair(a, b).map_or_else(|| alike(computer.distance(a, b)), |spread| spread.median);
    table.insert("cells", value(cells(&order, latency)));
    table.insert("source", value(source));
    Some(table)
}

/// The latencies below the diagonal, as a matrix file has them.
fn cells(order: &[u32], latency: impl Fn(u32, u32) -> f64) -> String {
    let line = |row: usize| {
        let cell = |column: usize| {
            if column < row {
                format!("{:.1}", latency(order[row], order[column]))
            } else {
                String::new()
            }
        };
        (0..order.len()).map(cell).collect::<Vec<_>>().join(",") + "\n"
    };
    (0..order.len()).map(line).collect()
}

/// The costs of copying a page, within a node and between two.
fn copies(notes: &Notes) -> Option<ArrayOfTables> {
    let found = |is_same: bool| {
        let copies = notes.figures.iter().filter(|figure| match figure.quantity {
            Quantity::Copy { from, to } => (from == to) == is_same,
            _ => false,
        });
        let copies: Vec<_> = copies.collect();
        let spread = Quartiles::of(copies.iter().map(|figure| figure.spread.median).collect())?;
        let pairs = copies.len();
        let first = copies.first()?;
        let more = if pairs > 1 {
            format!("; the median of {pairs} pairs of nodes is {:.1} ns", spread.median)
        } else {
            String::new()
        };
        let range = if pairs > 1 { range(spread, "pairs of nodes") } else { range(first.spread, "rounds") };
        Some(quantity(spread.median, &source(first.quantity, first.spread, &more), range))
    };
    let mut table = Table::new();
    table.insert("from", value(0));
    table.insert("to", value(0));
    table.insert("same_node", Item::Table(found(true)?));
    if let Some(other) = found(false) {
        table.insert("other_node", Item::Table(other));
    }
    let mut copies = ArrayOfTables::new();
    copies.push(table);
    Some(copies)
}

#[cfg(test)]
mod tests {
    use ceasefire_linux::calibrate::Figure;
    use proptest::prelude::*;

    use super::*;

    fn figure(quantity: Quantity, median: f64) -> Figure {
        Figure { quantity, spread: Quartiles { median, low: median, high: median + 1.0, rounds: 7 } }
    }

    fn of(figures: Vec<Figure>) -> Calibrated {
        let host = Machine::host().expect("a computer with Linux");
        let computer = Computer::read().expect("Linux says which CPUs may be used");
        let notes = Notes { figures, missing: Vec::new() };
        calibrated(&host, "a \"computer\"", Some(Linux::V6_13), &computer, &notes).expect("valid")
    }

    fn parameter<'a>(machine: &'a Machine, key: &str) -> &'a Parameter {
        machine.sources.iter().find(|parameter| parameter.key == key).expect("a known key")
    }

    #[test]
    fn without_measurements_it_is_the_host() {
        let host = Machine::host().expect("a computer with Linux");
        let Calibrated { machine, text } = of(Vec::new());
        assert_eq!((machine.costs, machine.tlb, machine.copies), (host.costs, host.tlb, host.copies));
        assert_eq!(machine.topology.bytes(), host.topology.bytes());
        assert_eq!((machine.description.as_str(), machine.linux), ("a \"computer\"", Some(Linux::V6_13)));
        assert!(text.starts_with("# This computer, as `ceasefire calibrate` measured it."), "{text}");
        assert!(!text.contains("Nothing was measured"), "{text}");
        assert!(machine.sources.iter().all(|parameter| !parameter.source.starts_with("measured")));
    }

    #[test]
    fn measured_numbers_name_their_command() {
        let Calibrated { machine, .. } = of(vec![
            figure(Quantity::SystemCall, 123.456),
            figure(Quantity::FirstEntries, 72.0),
            figure(Quantity::SecondEntries, 1280.0),
            figure(Quantity::Copy { from: 0, to: 0 }, 500.0),
            figure(Quantity::Copy { from: 0, to: 1 }, 700.0),
            figure(Quantity::Copy { from: 1, to: 0 }, 900.0),
        ]);
        assert_eq!(machine.costs.system_call, 123_460);
        let source = &parameter(&machine, "costs.system_call").source;
        let expected =
            "measured: ceasefire calibrate --only switch: system call (getppid): 123.5 ns, median of 7, \
                        quartiles 123.5 to 124.5";
        assert_eq!(source, expected);
        let range = parameter(&machine, "costs.system_call").range.as_ref().expect("a spread");
        assert_eq!(
            (range.from, range.to, range.because.as_str()),
            (123.46, 124.46, "the quartiles of 7 rounds")
        );
        assert_eq!((machine.tlb.l1.entries, machine.tlb.l1.ways), (72, 9));
        assert_eq!((machine.tlb.l2.entries, machine.tlb.l2.ways % 5), (1280, 0));
        let [copy] = machine.copies[..] else { panic!("{:?}", machine.copies) };
        assert_eq!((copy.same_node, copy.other_node), (Some(500_000), Some(800_000)));
        let [same, other] = ["same_node", "other_node"]
            .map(|key| parameter(&machine, &format!("copy[0].{key}")).range.as_ref().expect("a spread"));
        assert_eq!((same.from, same.to, same.because.as_str()), (500.0, 501.0, "the quartiles of 7 rounds"));
        let because = "the quartiles of 2 pairs of nodes";
        assert_eq!((other.from, other.to, other.because.as_str()), (750.0, 850.0, because));
        assert!(parameter(&machine, "costs.root_load").is_assumed());
    }

    #[test]
    fn every_key_has_a_line_of_its_own() {
        let Calibrated { text, .. } = of(vec![
            figure(Quantity::Latency { a: 0, b: 1 }, 40.0),
            figure(Quantity::FirstEntries, 72.0),
            figure(Quantity::Copy { from: 0, to: 0 }, 500.0),
            figure(Quantity::SecondHit, 3.5),
        ]);
        for part in [
            "\nlinux = \"6.13\"\n\n",
            "\n[tlb.l1]\nentries = 72\nways = 9\n",
            "\n\n[latency.uniform]\nvalue = 40.0\nunit = \"ns\"\nsource = ",
            "range.from = 500.0\nrange.to = 501.0\nrange.because = \"the quartiles of 7 rounds\"\n",
            "\n# Hardware\n[costs.access]\n",
            "\n\n[costs.l2_hit]\nvalue = 3.5\nunit = \"ns\"\nsource = ",
            "\n\n[topology]\nsource = ",
            "\n\n[[topology.nodes]]\ncpus = ",
            "\n\n[topology.nodes.memory]\nvalue = ",
        ] {
            assert!(text.contains(part), "{part:?} in {text}");
        }
        assert!(!text.contains('{') && !text.contains("[latency]"), "{text}");
    }

    #[test]
    fn the_cells_follow_the_order_of_the_file() {
        let latency = |a: u32, b: u32| f64::from(10 * a.min(b) + a.max(b));
        assert_eq!(cells(&[2, 0, 1], latency), ",,\n2.0,,\n12.0,1.0,\n");
    }

    #[test]
    fn the_latency_of_one_pair_is_that_of_all() {
        let Calibrated { machine, .. } = of(vec![figure(Quantity::Latency { a: 0, b: 1 }, 40.0)]);
        let latency = parameter(&machine, "latency.uniform");
        assert!(latency.source.contains("CPU 0 to CPU 1: 40.0 ns"));
        assert_eq!(latency.range.as_ref().map(|range| (range.from, range.to)), Some((40.0, 41.0)));
    }

    proptest! {
        #[test]
        fn any_measurement_makes_a_valid_file(
            medians in prop::collection::vec(0.0_f64..1e6, 16), entries in 1_u32..70_000,
        ) {
            let quantities = [
                Quantity::Latency { a: 0, b: 1 }, Quantity::SystemCall, Quantity::ContextSwitch,
                Quantity::Zero { node: 0 }, Quantity::Copy { from: 0, to: 0 }, Quantity::Fault { node: 0 }, Quantity::InvalidatePage,
                Quantity::InvalidateAll, Quantity::Advise { threads: 0 }, Quantity::Advise { threads: 1 },
                Quantity::Advise { threads: 2 }, Quantity::Interruption { threads: 1 }, Quantity::SecondHit,
                Quantity::Walk, Quantity::WalkMemory, Quantity::Unmap { threads: 0 },
            ];
            let mut figures: Vec<Figure> =
                quantities.into_iter().zip(medians).map(|(quantity, median)| figure(quantity, median)).collect();
            figures.push(figure(Quantity::FirstEntries, f64::from(entries)));
            let Calibrated { machine, text } = of(figures);
            let again = Machine::from_toml("again", &text, "".as_ref()).expect("valid");
            prop_assert_eq!(again.hash(), machine.hash());
            prop_assert!(again.sources.iter().filter(|one| one.source.starts_with("measured")).count() >= 12);
        }
    }
}
