//! `ceasefire list`: the experiments, the machines and the mechanisms.

use std::fmt::Write as _;

use ceasefire_experiments::{Mechanism, EXPERIMENTS};
use ceasefire_machine::config::{builtin, Machine, BUILTIN};

use crate::args::{ListArguments, Listed};
use crate::failure::{Done, Failure};
use crate::number::compact;
use crate::stdout::print;

pub(crate) fn run(arguments: &ListArguments) -> Done {
    if arguments.parameters && arguments.what != Listed::Machines {
        return Err(Failure::input("--parameters works only with 'list machines'"));
    }
    let text = match arguments.what {
        Listed::Experiments => experiments(),
        Listed::Machines => machines(arguments.parameters)?,
        Listed::Mechanisms => mechanisms(),
    };
    print(&text)
}

// Writing to a string does not fail, so the results of `writeln!` below are ignored.

fn experiments() -> String {
    let mut text = String::new();
    for experiment in EXPERIMENTS {
        let mechanisms: Vec<&str> = experiment.mechanisms.iter().map(|mechanism| mechanism.name()).collect();
        let _ = writeln!(
            text,
            "{}\n  {}\n  {}\n  machines: {}\n  needs: {} with CPUs\n  mechanisms: {}\n  default scale: {}\n  \
             runs: {}",
            experiment.name,
            experiment.description,
            experiment.paper,
            experiment.machines.join(", "),
            if experiment.nodes == 1 { "1 node".into() } else { format!("{} nodes", experiment.nodes) },
            mechanisms.join(", "),
            experiment.scale,
            if experiment.by_default { "by default" } else { "only if named" },
        );
    }
    text
}

fn mechanisms() -> String {
    let mut text = String::new();
    for mechanism in Mechanism::ALL {
        let _ = writeln!(text, "{:<10} {}", mechanism.name(), mechanism.description());
    }
    text
}

fn machines(parameters: bool) -> Result<String, Failure> {
    let mut text = String::new();
    for name in BUILTIN {
        let machine = builtin(name).ok_or_else(|| Failure::input(format!("{name} is missing")))?;
        describe(&mut text, &machine.map_err(Failure::input)?, parameters);
    }
    match Machine::host() {
        Ok(host) => describe(&mut text, &host, parameters),
        Err(error) => {
            let _ = writeln!(text, "host\n  cannot be read: {error}");
        }
    }
    Ok(text)
}

fn describe(text: &mut String, machine: &Machine, parameters: bool) {
    let topology = &machine.topology;
    let gib = topology.bytes() as f64 / f64::from(1 << 30);
    let _ = writeln!(
        text,
        "{}\n  {}\n  CPUs: {}, nodes: {}, memory: {} GiB",
        machine.name,
        machine.description,
        topology.cpu_count(),
        topology.nodes().len(),
        compact(gib),
    );
    if parameters {
        for parameter in &machine.sources {
            let unit = if parameter.unit.is_empty() { String::new() } else { format!(" {}", parameter.unit) };
            let _ =
                writeln!(text, "    {} = {}{unit}  ({})", parameter.key, parameter.value, parameter.source);
        }
    }
}
