//! The ranges of the built-in machines: each number that is not certain has one.

use ceasefire_machine::config::{builtin, Machine, Parameter, BUILTIN, HOST};

/// Numbers that are structure, and are not drawn: they must fit each other, as the ways of a TLB and its entries do, or
/// are features that a processor has or has not.
const STRUCTURE: &[&str] = &[
    "topology.",
    "latency.matrix",
    "tlb.l1.",
    "tlb.l2.",
    "tlb.instruction.",
    "smt.apart",
    "processor.asid",
    "processor.broadcast_asids",
    "processor.broadcast_pages",
    "processor.broadcast_repeated",
    "processor.broadcast_everyone",
];

/// Numbers that Linux itself states, unless they are assumed.
const STATED: &[&str] = &["idle[", "costs.time_slice"];

fn needs_range(parameter: &Parameter) -> bool {
    let is_one_of = |keys: &[&str]| keys.iter().any(|key| parameter.key.starts_with(key));
    let is_stated = is_one_of(STATED) && !parameter.source.contains("assumed");
    !(parameter.is_fitted() || is_one_of(STRUCTURE) || is_stated)
}

/// The keys of the numbers that need a range and have none, or have one and must not.
fn wrong(machine: &Machine) -> Vec<&str> {
    let wrong = |parameter: &&Parameter| parameter.range.is_some() != needs_range(parameter);
    machine.sources.iter().filter(wrong).map(|parameter| parameter.key.as_str()).collect()
}

/// The built-in machines, and the assumptions about a computer that Linux describes.
fn machines() -> Vec<Machine> {
    let topology = "[topology]\nsource = 's'\n\
                    nodes = [{ cpus = 2, memory = { value = 1, unit = 'GiB', source = 's' } }]\n";
    let host = Machine::from_toml("host.toml", &format!("{HOST}\n{topology}"), "".as_ref());
    let all = BUILTIN.iter().map(|name| builtin(name).expect("a listed name")).chain([host]);
    all.map(|machine| machine.expect("a valid file")).collect()
}

#[test]
fn every_number_that_is_not_certain_has_a_range_with_its_reason() {
    for machine in machines() {
        assert_eq!(wrong(&machine), [""; 0], "{}", machine.name);
        for parameter in &machine.sources {
            let Some(range) = &parameter.range else { continue };
            let holds = (range.from..=range.to).contains(&parameter.value);
            assert!(holds && range.from < range.to && !range.because.is_empty(), "{parameter:?}");
        }
    }
}

#[test]
fn a_missing_range_is_found() {
    let mut machine = machines().remove(0);
    let lock = machine.sources.iter_mut().find(|parameter| parameter.key == "costs.lock");
    let range = lock.expect("a known key").range.take();
    assert_eq!(wrong(&machine), ["costs.lock"]);
    machine.sources[0].range = range;
    assert_eq!(wrong(&machine), [machine.sources[0].key.as_str(), "costs.lock"]);
}
