//! `ceasefire list`: the experiments, the machines, the mechanisms and the releases of Linux.

use std::fmt::Write as _;

use ceasefire_experiments::{Experiment, Mechanism, Overview, EXPERIMENTS, KERNELS};
use ceasefire_machine::config::{builtin, Machine, Parameter, BUILTIN};

use crate::args::{ListArguments, Listed};
use crate::failure::{Done, Failure};
use crate::host::host;
use crate::number::{compact, scale};
use crate::stdout::print;
use crate::terminal;

pub(crate) fn run(arguments: &ListArguments) -> Done {
    if arguments.parameters && arguments.what != Some(Listed::Machines) {
        return Err(Failure::input("--parameters works only with 'list machines'"));
    }
    let text = match arguments.what {
        None => names()?,
        Some(Listed::Experiments) => experiments(),
        Some(Listed::Machines) => machines(arguments.parameters)?,
        Some(Listed::Mechanisms) => mechanisms(),
        Some(Listed::Kernels) => kernels(),
    };
    print(&text)
}

// Writing to a string does not fail, so the results of `writeln!` below are ignored.

fn experiments() -> String {
    let mut text = String::new();
    for experiment in EXPERIMENTS.iter() {
        let mechanisms: Vec<&str> = experiment.mechanisms.iter().map(|mechanism| mechanism.name()).collect();
        let _ = writeln!(
            text,
            "{}\n{}\n{}\n  machines: {}\n  needs: {} with CPUs\n  mechanisms: {}\n  kernel: {}\n  \
             default scale: {}\n  seeds: {}\n  runs: {}",
            experiment.name,
            indented(experiment.description, "  ", "  "),
            indented(experiment.paper, "  ", "  "),
            experiment.machines.join(", "),
            if experiment.nodes == 1 { "1 node".into() } else { format!("{} nodes", experiment.nodes) },
            mechanisms.join(", "),
            experiment.kernel.name(),
            scale(experiment.scale),
            experiment.repeats,
            match experiment.overview {
                Some(Overview { scale: size, repeats }) => {
                    format!("in the overview too, at scale {} with {repeats} seeds", scale(size))
                }
                None => "only if named".into(),
            },
        );
    }
    text
}

/// Every name with a line on it.
fn names() -> Result<String, Failure> {
    let mut text = String::new();
    let mut list = |what: &str, more: &str, names: Vec<(String, String)>| {
        let widest = names.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        let _ =
            writeln!(text, "{}", indented(&format!("{what} (ceasefire list {more} says more)"), "", "  "));
        for (name, line) in names {
            let indent = " ".repeat(widest + 4);
            let first = format!("  {name:<widest$}  ");
            let _ = writeln!(text, "{}", indented(&line, &first, &indent));
        }
        text.push('\n');
    };
    let experiment = |one: &Experiment| {
        let named = if one.overview.is_some() { "" } else { " (only if named)" };
        (one.name.to_owned(), format!("{}{named}", one.description))
    };
    list("Experiments", "experiments", EXPERIMENTS.iter().map(experiment).collect());
    let host = ("host".into(), "this computer, as far as Linux describes it".into());
    let machines = built_in()?.into_iter().map(|machine| (machine.name, machine.description)).chain([host]);
    list("Machines", "machines", machines.collect());
    let mechanisms = Mechanism::ALL.map(|one| (one.name().to_owned(), one.description().to_owned()));
    list("Mechanisms", "mechanisms", mechanisms.into());
    let kernels = KERNELS.map(|(name, linux)| {
        let changes: Vec<String> = linux.changes().map(|(what, ..)| what).collect();
        (
            name.to_owned(),
            if changes.is_empty() { "as the one before".to_owned() } else { changes.join("; ") },
        )
    });
    list("Kernels", "kernels", kernels.into());
    text.pop();
    Ok(text)
}

/// A text broken into lines that fit the terminal.
fn indented(text: &str, first: &str, rest: &str) -> String {
    textwrap::fill(text, terminal::lines(terminal::width(), first, rest))
}

fn mechanisms() -> String {
    let mut text = String::new();
    for mechanism in Mechanism::ALL {
        let first = format!("{:<10} ", mechanism.name());
        let _ = writeln!(text, "{}", indented(mechanism.description(), &first, &" ".repeat(first.len())));
    }
    text
}

/// What each release changed, with the version that has it and its source, a commit where one is known.
fn kernels() -> String {
    let mut text = String::new();
    for (name, linux) in KERNELS {
        let _ = writeln!(text, "{name}");
        let change = |(what, version, source)| format!("{what} ({version}: {source})");
        let mut changes: Vec<String> = linux.changes().map(change).collect();
        if changes.is_empty() {
            changes.push("nothing for TLBs or these locks".to_owned());
        }
        for line in changes {
            let _ = writeln!(text, "{}", indented(&line, "  ", "    "));
        }
    }
    text
}

fn machines(parameters: bool) -> Result<String, Failure> {
    let mut text = String::new();
    let mut all = Vec::new();
    for machine in built_in()? {
        describe(&mut text, &machine, parameters);
        all.extend(machine.sources);
    }
    match host() {
        Ok(host) => {
            describe(&mut text, &host, parameters);
            all.extend(host.sources);
        }
        Err(error) => {
            let _ = writeln!(text, "host\n{}", indented(&format!("cannot be read: {error}"), "  ", "  "));
        }
    }
    if parameters {
        let _ = writeln!(text, "{}", indented(&format!("in all: {}", counts(&all)), "", "    "));
    }
    Ok(text)
}

/// The machines that come with the program.
fn built_in() -> Result<Vec<Machine>, Failure> {
    let machine = |name: &&str| {
        let machine = builtin(name).ok_or_else(|| Failure::input(format!("{name} is missing")))?;
        machine.map_err(Failure::input)
    };
    BUILTIN.iter().map(machine).collect()
}

fn describe(text: &mut String, machine: &Machine, parameters: bool) {
    let topology = &machine.topology;
    let gib = topology.bytes() as f64 / f64::from(1 << 30);
    let size = format!(
        "CPUs: {}, nodes: {}, memory: {} GiB",
        topology.cpu_count(),
        topology.nodes().len(),
        compact(gib)
    );
    let _ = writeln!(
        text,
        "{}\n{}\n{}",
        machine.name,
        indented(&machine.description, "  ", "  "),
        indented(&size, "  ", "    ")
    );
    let assumed = machine.sources.iter().filter(|parameter| parameter.is_assumed()).count();
    let count =
        format!("parameters: {}, of which {assumed} are assumed, not measured", machine.sources.len());
    let _ = writeln!(text, "{}", indented(&count, "  ", "    "));
    if parameters {
        for parameter in &machine.sources {
            let line = format!("{} = {}", parameter.key, parameter.described());
            let _ = writeln!(text, "{}", indented(&line, "    ", "        "));
        }
        let _ = writeln!(text, "{}", indented(&counts(&machine.sources), "    ", "        "));
    }
}

/// How many of the numbers are fitted and tuned.
fn counts<'a>(parameters: impl IntoIterator<Item = &'a Parameter>) -> String {
    let (mut fitted, mut tuned, mut all) = (0, 0, 0);
    for parameter in parameters {
        fitted += u32::from(parameter.is_fitted());
        tuned += u32::from(parameter.is_tuned());
        all += 1;
    }
    format!(
        "{all} numbers: {fitted} fitted to a published figure, {tuned} tuned in sight of published figures"
    )
}
