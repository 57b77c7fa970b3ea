//! `ceasefire fit`: fits numbers of a machine to published figures.

use std::io::{stderr, IsTerminal as _};
use std::path::Path;
use std::time::Duration;

use ceasefire_experiments::machine_file;
use ceasefire_machine::config::Machine;
use ceasefire_studies::fit::{Fit, FitError, Fitted, Runner, Solution, Target, LEAST_ELASTICITY};
use indicatif::{ProgressBar, ProgressDrawTarget};

use crate::args::FitArguments;
use crate::failure::{Done, Failure};
use crate::number::{compact, ratio, scale};
use crate::output::interrupt;
use crate::output::replacement::Place;
use crate::output::text::is_file;
use crate::stdout::print;
use crate::tables::grid::{wrapped, Column, Grid};
use crate::terminal;

/// The time between two pictures of the progress.
const EVERY: Duration = Duration::from_millis(200);

pub(crate) fn run(arguments: &FitArguments) -> Done {
    let FitArguments { machine, to, vary, seed, repeats, jobs, output, quiet, .. } = arguments;
    is_file("--output", output.as_deref())?;
    let file = machine_file(machine, &[]).map_err(Failure::input)?;
    let fit = if to.is_empty() { Fit::of(&file) } else { Fit::to(&file, to, vary) };
    let fit = fit.map_err(|error| refused(&error))?;
    let scale = arguments.scale.unwrap_or(fit.scale());
    let fit = fit.with_scale(scale).with_seed(*seed);
    fit.check().map_err(Failure::input)?;
    if let Some(path) = output {
        is_readable(&fit, path)?;
    }
    let place = output.as_deref().map(Place::check).transpose()?;

    let bar = ProgressBar::new_spinner();
    let is_shown = stderr().is_terminal() && !quiet;
    bar.set_draw_target(if is_shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() });
    bar.enable_steady_tick(EVERY);
    let stopped = interrupt::stops_early();
    let (goes_on, ended) = (|| !stopped(), |runs| bar.set_message(format!("{runs} runs")));
    let runner = Runner::new(*jobs).watched(&goes_on, &ended);
    let solved = fit.solve(&runner, None).and_then(|solution| {
        let spread = (*repeats > 1).then(|| fit.spread(&solution, *repeats, &runner)).transpose()?;
        Ok((solution, spread))
    });
    bar.finish_and_clear();
    let (solution, spread) = solved.map_err(Failure::input)?;

    let written = match place {
        Some(place) => {
            let fitted = fit.marked(&solution.values).map_err(Failure::input)?;
            place.write(fitted.to_string().as_bytes())
        }
        None => Ok(()),
    };
    let text = text(&fit, &solution, spread.as_deref(), runner.runs(), file.machine(), terminal::width());
    Failure::both(written, print(&text))
}

/// The failure, with the options that help.
fn refused(error: &FitError) -> Failure {
    match error {
        FitError::NothingFitted(_) => Failure::Input(format!("{error}: --to ROW --vary KEY")),
        FitError::NoParameter { .. } => Failure::Input(format!("{error}: --vary KEY")),
        FitError::NoFigure(_) => Failure::Input(format!("{error}: --to ROW")),
        _ => Failure::input(error),
    }
}

/// Refuses a place where the machine file could not be read again, before the first run. A file names its matrix of
/// latencies by a path from its own folder.
fn is_readable(fit: &Fit, path: &Path) -> Done {
    let start: Vec<f64> = fit.fitted().iter().map(|fitted| fitted.start).collect();
    let text = fit.marked(&start).map_err(Failure::input)?.to_string();
    let folder = path.parent().unwrap_or(Path::new(""));
    Machine::from_toml(&path.to_string_lossy(), &text, folder).map(|_| ()).map_err(Failure::input)
}

/// The numbers, a table of them, and what it means.
fn text(
    fit: &Fit,
    solution: &Solution,
    spread: Option<&[Option<f64>]>,
    runs: u64,
    machine: &Machine,
    width: usize,
) -> String {
    let mut grid = Grid::new(&[
        Column::words("", 0),
        Column::numbers("file", 0),
        Column::numbers("fitted", 0),
        Column::numbers("published", 0),
        Column::numbers("ours", 0),
        Column::numbers("elasticity", 0),
        Column::numbers("width", 0),
        Column::numbers("seeds", 0),
    ]);
    let sensitivity = &solution.sensitivity;
    let percent = |value: f64| format!("{}%", ratio(Some(value)));
    let mut undetermined = Vec::new();
    for (place, (Fitted { key, unit, start, .. }, Target { figure, value })) in
        fit.fitted().iter().zip(fit.targets()).enumerate()
    {
        grid.heading(format!("{key}, {unit}, to {figure}"));
        let width =
            sensitivity.width(place).map_or_else(|| "-".to_owned(), |width| format!("±{}", percent(width)));
        let seeds = spread.map_or_else(String::new, |spread| {
            spread[place].map_or_else(|| "-".to_owned(), |spread| format!("±{}", percent(spread)))
        });
        grid.row([
            "  ".to_owned(),
            start.to_string(),
            solution.values[place].to_string(),
            compact(*value),
            compact(solution.figures[place]),
            ratio(Some(sensitivity.elasticity(place, place))),
            width,
            seeds,
        ]);
        if !sensitivity.is_determined(place) {
            undetermined.push(key.as_str());
        }
    }
    let mut text = format!(
        "Fit of {}: scale {}, seed {}; {runs} runs\n\n{}\n",
        machine.name,
        scale(fit.scale()),
        fit.seed(),
        grid.text(width)
    );
    let mut say = |line: &str| {
        for line in wrapped(line, width) {
            text.push_str(&line);
            text.push('\n');
        }
    };
    for key in undetermined {
        say(&format!(
            "No row determines {key}: its elasticities are below {LEAST_ELASTICITY}. It stays as it is."
        ));
    }
    say("elasticity: the change of the figure in percent if the number changes by 1%");
    say("width: the change of the number if each published figure is off by 1%");
    if spread.is_some() {
        say("seeds: the standard deviation of the number over the seeds");
    }
    if let Some(condition) = sensitivity.condition().filter(|_| sensitivity.len() > 1) {
        say(&format!(
            "condition: {}; 1 if each row tells a number of its own, great if two rows say nearly the same",
            ratio(Some(condition))
        ));
    }
    text
}
