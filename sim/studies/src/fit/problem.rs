//! The numbers of a machine that are fitted, and the figures that they are fitted to.

use ceasefire_experiments::{Figure, Plan, RunError};
use ceasefire_machine::config::{Change, MachineFile, Parameter};

use super::error::FitError;
use super::runs::Runner;
use super::sensitivity::Sensitivity;
use super::solve::{elasticities, solve, Stuck, Unknown};
use crate::study::is_whole;

/// The range of a number that is fitted: its first value divided by this, to its first value times this.
const RANGE: f64 = 10.0;
/// The difference from a target at which a fit ends.
const AIM: f64 = 1e-3;
/// The steps in which the end of the allowed values is looked for.
const HALVINGS: usize = 40;

/// A number of the machine that is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Its key in the machine file, such as `costs.access`.
    pub key: String,
    /// Its unit in the machine file.
    pub unit: String,
    /// The value with which the search begins: that of the machine file.
    pub start: f64,
    /// The least value that is tried.
    pub least: f64,
    /// The greatest value that is tried.
    pub most: f64,
    /// Whether it is a count, as of lines.
    pub is_whole: bool,
}

/// A figure, and the number that it is to have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Target {
    /// The figure.
    pub figure: Figure,
    /// The number, for the paper's size.
    pub value: f64,
}

/// Numbers of a machine, and as many figures: number `n` is fitted to figure `n`.
#[derive(Debug, Clone)]
pub struct Fit {
    /// The machine, and the other machines on which figures are measured.
    machines: Vec<MachineFile>,
    fitted: Vec<Fitted>,
    targets: Vec<Target>,
    scale: f64,
    seed: u64,
    aim: f64,
}

/// The figures of the values with which a fit begins, and the way in which they move.
#[derive(Debug, Clone)]
pub struct Measured {
    /// The figures, in the order of the targets, for the paper's size.
    pub figures: Vec<f64>,
    /// Their elasticities.
    pub sensitivity: Sensitivity,
}

/// The values that a fit found.
#[derive(Debug, Clone)]
pub struct Solution {
    /// The values, in the units of the machine file.
    pub values: Vec<f64>,
    /// The figures that they give, in the order of the targets, for the paper's size.
    pub figures: Vec<f64>,
    /// The elasticities, measured where the search began.
    pub sensitivity: Sensitivity,
    /// The number of runs that it took.
    pub runs: u64,
}

impl Fit {
    /// The fit of all numbers that the machine marks as fitted, to the published figures.
    ///
    /// # Errors
    /// [`FitError`] if no number is fitted, or if a mark is of no use.
    pub fn of(machine: &MachineFile) -> Result<Self, FitError> {
        let marked = marked(machine)?;
        if marked.is_empty() {
            return Err(FitError::NothingFitted(machine.machine().name.clone()));
        }
        Self::new(machine, marked)
    }

    /// The fit to these published figures. The numbers are those that the machine marks as fitted to them; figures
    /// without such a number get those of `vary`, in their order.
    ///
    /// # Errors
    /// [`FitError`] if there are not as many numbers as figures, or one of them is of no use.
    pub fn to(machine: &MachineFile, figures: &[Figure], vary: &[String]) -> Result<Self, FitError> {
        let marked = marked(machine)?;
        let mut vary = vary.iter();
        let mut pairs = Vec::new();
        for &figure in figures {
            let mut of_figure = marked.iter().filter(|(_, marked)| *marked == figure).peekable();
            if of_figure.peek().is_some() {
                pairs.extend(of_figure.cloned());
                continue;
            }
            let no_parameter = || FitError::NoParameter { machine: machine.machine().name.clone(), figure };
            let key = vary.next().ok_or_else(no_parameter)?;
            pairs.push((machine.parameter(key)?.clone(), figure));
        }
        match vary.next() {
            Some(key) => Err(FitError::NoFigure(key.clone())),
            None => Self::new(machine, pairs),
        }
    }

    fn new(machine: &MachineFile, pairs: Vec<(Parameter, Figure)>) -> Result<Self, FitError> {
        let mut fit = Self {
            machines: vec![machine.clone()],
            fitted: Vec::new(),
            targets: Vec::new(),
            scale: 0.0,
            seed: 1,
            aim: AIM,
        };
        for (parameter, figure) in pairs {
            let same = fit.targets.iter().position(|target| target.figure == figure);
            let same = same.or_else(|| fit.fitted.iter().position(|fitted| fitted.key == parameter.key));
            if let Some(place) = same {
                let keys = [fit.fitted[place].key.clone(), parameter.key];
                return Err(FitError::Twice { figure, keys });
            }
            let value = figure.value().ok_or(FitError::Relative(figure))?;
            let name = figure.row.machine;
            if fit.machines.iter().all(|known| known.machine().name != name) {
                fit.machines.extend(MachineFile::builtin(name).transpose()?);
            }
            let of_figure = fit.machines.iter().find(|known| known.machine().name == name);
            let machine_of_figure = of_figure.unwrap_or(machine).machine().clone();
            fit.scale = fit.scale.max(figure.plan(machine_of_figure).scale);
            fit.fitted.push(fitted(machine, &parameter)?);
            fit.targets.push(Target { figure, value });
        }
        Ok(fit)
    }

    /// The scale of all runs: the greatest of the experiments' own, unless another one was chosen.
    pub fn scale(&self) -> f64 {
        self.scale
    }

    /// The same fit at another scale. [`check`](Self::check) says whether the runs can have it.
    #[must_use]
    pub fn with_scale(self, scale: f64) -> Self {
        Self { scale, ..self }
    }

    /// The seed of all runs: 1, unless another one was chosen.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The same fit with another seed.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }

    /// The same fit, which ends when each figure is so near its target: by default 0.001, which stands for 0.1%. At a
    /// small scale figures jump by more, and a closer fit would take more runs for no gain.
    #[must_use]
    pub fn with_aim(self, aim: f64) -> Self {
        Self { aim, ..self }
    }

    /// The numbers that are fitted.
    pub fn fitted(&self) -> &[Fitted] {
        &self.fitted
    }

    /// The figures that they are fitted to.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The same fit to other numbers than the published ones, in the order of the targets.
    ///
    /// # Errors
    /// A number is not above 0.
    pub fn with_targets(mut self, values: &[f64]) -> Result<Self, FitError> {
        for (target, &value) in self.targets.iter_mut().zip(values) {
            target.value = value;
            if value.is_nan() || value <= 0.0 {
                return Err(FitError::Target { figure: target.figure, value });
            }
        }
        Ok(self)
    }

    /// The same fit on a machine with other numbers. A change of a number that is fitted changes the value with which
    /// the search begins, and the range about it. Another machine on which figures are measured has those changes whose
    /// numbers it has in common with this one.
    ///
    /// # Errors
    /// A machine refuses its changes.
    pub fn changed(&self, changes: &[Change]) -> Result<Self, FitError> {
        let machine = &self.machines[0];
        let number = |machine: &MachineFile, key: &str| {
            machine.parameter(key).map(|parameter| (parameter.value, parameter.unit.clone())).ok()
        };
        let mut fit = self.clone();
        for other in &mut fit.machines {
            let is_common = |change: &&Change| number(other, &change.key) == number(machine, &change.key);
            let changes: Vec<Change> = changes.iter().filter(is_common).cloned().collect();
            other.set_all(&changes)?;
        }
        let machine = &fit.machines[0];
        for known in &mut fit.fitted {
            *known = fitted(machine, machine.parameter(&known.key)?)?;
        }
        Ok(fit)
    }

    /// The machine with these values of the fitted numbers.
    ///
    /// # Errors
    /// The machine refuses them.
    pub fn machine(&self, values: &[f64]) -> Result<MachineFile, FitError> {
        let mut machine = self.machines[0].clone();
        machine.set_all(&self.changes(&machine, values)?)?;
        Ok(machine)
    }

    /// The machine with these values, marked as fitted. The source names the scale and the seed.
    ///
    /// # Errors
    /// The machine refuses them, or a number has no source of its own.
    pub fn marked(&self, values: &[f64]) -> Result<MachineFile, FitError> {
        let mut machine = self.machines[0].clone();
        let names = self.targets.iter().map(|target| target.figure.to_string());
        let fitted: Vec<(Change, String)> = self.changes(&machine, values)?.into_iter().zip(names).collect();
        machine.set_fitted(
            &fitted,
            &format!("fitted by ceasefire fit, at scale {} and with seed {}", self.scale, self.seed),
        )?;
        Ok(machine)
    }

    /// The changes of a machine that these values are, in its own units.
    fn changes(&self, machine: &MachineFile, values: &[f64]) -> Result<Vec<Change>, FitError> {
        let change = |(fitted, &value): (&Fitted, &f64)| {
            let change = Change { key: fitted.key.clone(), value, unit: Some(fitted.unit.clone()) };
            // Counts have a unit in the file, and take none in a change.
            Ok(Change { unit: None, ..machine.in_own_unit(&change)? })
        };
        self.fitted.iter().zip(values).map(change).collect()
    }

    /// Checks that every run can begin.
    ///
    /// # Errors
    /// The first that cannot.
    pub fn check(&self) -> Result<(), FitError> {
        let start: Vec<f64> = self.fitted.iter().map(|fitted| fitted.start).collect();
        let (plans, served) = self.plans(&start)?;
        for (plan, served) in plans.iter().zip(served) {
            let failed = |error| self.failed(served[0], plan, Box::new(error));
            plan.check().map_err(failed)?;
        }
        Ok(())
    }

    /// The figures of the values with which the search begins, and their elasticities.
    ///
    /// # Errors
    /// A run fails, or gives no figure.
    pub fn measure(&self, runner: &Runner<'_>) -> Result<Measured, FitError> {
        let evaluate = |points: &[Vec<f64>]| self.figures(points, runner);
        let (figures, sensitivity) = elasticities(&self.unknowns(), &evaluate)?;
        Ok(Measured { figures, sensitivity })
    }

    /// Looks for the values with which the figures have their targets. With `known` elasticities, as of the same
    /// machine with a few other numbers, it takes about two runs of each figure.
    ///
    /// # Errors
    /// A run fails, a target is out of reach, or two figures determine their numbers alike.
    pub fn solve(&self, runner: &Runner<'_>, known: Option<&Sensitivity>) -> Result<Solution, FitError> {
        let before = runner.runs();
        let targets: Vec<f64> = self.targets.iter().map(|target| target.value).collect();
        let evaluate = |points: &[Vec<f64>]| self.figures(points, runner);
        let found = solve(&self.unknowns(), &targets, self.aim, known, &evaluate)
            .map_err(|stuck| self.stuck(stuck))?;
        let (values, figures, sensitivity) = (found.values, found.figures, found.sensitivity);
        Ok(Solution { values, figures, sensitivity, runs: runner.runs() - before })
    }

    /// By how many percent each value differs with other seeds: the standard deviation over `seeds` of them, this fit's
    /// own included. The figures are measured with each seed, and the elasticities say which values would meet the
    /// targets. `None` for a value that is not determined.
    ///
    /// # Errors
    /// A run fails.
    pub fn spread(
        &self,
        solution: &Solution,
        seeds: u16,
        runner: &Runner<'_>,
    ) -> Result<Vec<Option<f64>>, FitError> {
        let mut all = vec![vec![0.0; self.fitted.len()]];
        let determined = solution.sensitivity.determined();
        for seed in 1..u64::from(seeds) {
            let other = Self { seed: self.seed.wrapping_add(seed), ..self.clone() };
            let figures = other.figures(std::slice::from_ref(&solution.values), runner)?.concat();
            let by: Vec<f64> =
                determined.iter().map(|&place| (solution.figures[place] / figures[place]).ln()).collect();
            let mut steps = vec![0.0; self.fitted.len()];
            let solved = solution.sensitivity.solve(&determined, &by);
            for (&place, step) in determined.iter().zip(solved.into_iter().flatten()) {
                steps[place] = step;
            }
            all.push(steps);
        }
        let deviation = |place: usize| {
            let mean = all.iter().map(|steps| steps[place]).sum::<f64>() / all.len() as f64;
            let squares: f64 = all.iter().map(|steps| (steps[place] - mean).powi(2)).sum();
            (squares / (all.len() as f64 - 1.0).max(1.0)).sqrt() * 100.0
        };
        Ok((0..self.fitted.len())
            .map(|place| determined.contains(&place).then(|| deviation(place)))
            .collect())
    }

    /// The figures at each point, for the paper's size.
    fn figures(&self, points: &[Vec<f64>], runner: &Runner<'_>) -> Result<Vec<Vec<f64>>, FitError> {
        let (mut plans, mut served) = (Vec::new(), Vec::new());
        for (number, point) in points.iter().enumerate() {
            let (of_point, figures) = self.plans(point)?;
            plans.extend(of_point);
            served.extend(figures.into_iter().map(|figures| (number, figures)));
        }
        let values = runner.run(&plans, |run, report| -> Vec<Option<f64>> {
            let value = |&place: &usize| report.at_full_size(&self.targets[place].figure);
            served[run].1.iter().map(value).collect()
        });
        let values = values.map_err(|(run, error)| self.failed(served[run].1[0], &plans[run], error))?;
        let mut all = vec![vec![0.0; self.targets.len()]; points.len()];
        for ((point, places), values) in served.iter().zip(values) {
            for (&place, value) in places.iter().zip(values) {
                let value = value.filter(|value| value.is_finite() && *value > 0.0);
                all[*point][place] = value.ok_or(FitError::NoValue(self.targets[place].figure))?;
            }
        }
        Ok(all)
    }

    /// The runs of a point, and the places of the figures that each serves: at least one.
    fn plans(&self, values: &[f64]) -> Result<(Vec<Plan>, Vec<Vec<usize>>), FitError> {
        let (mut plans, mut served): (Vec<Plan>, Vec<Vec<usize>>) = (Vec::new(), Vec::new());
        for (place, target) in self.targets.iter().enumerate() {
            let name = target.figure.row.machine;
            let of_figure = self.machines.iter().find(|machine| machine.machine().name == name);
            let mut machine = of_figure.unwrap_or(&self.machines[0]).clone();
            machine.set_all(&self.changes(&machine, values)?)?;
            let plan = target.figure.plan(machine.machine().clone());
            let plan = Plan { scale: self.scale, seed: self.seed, ..plan };
            let is_same = |known: &&Plan| {
                (known.experiment.name, &known.machine.name) == (plan.experiment.name, &plan.machine.name)
                    && (known.mechanism, known.threads, known.lru_drain)
                        == (plan.mechanism, plan.threads, plan.lru_drain)
            };
            if let Some(run) = plans.iter().position(|known| is_same(&known)) {
                served[run].push(place);
            } else {
                plans.push(plan);
                served.push(vec![place]);
            }
        }
        Ok((plans, served))
    }

    fn unknowns(&self) -> Vec<Unknown> {
        let unknown =
            |&Fitted { start, least, most, is_whole, .. }: &Fitted| Unknown { start, least, most, is_whole };
        self.fitted.iter().map(unknown).collect()
    }

    fn failed(&self, place: usize, plan: &Plan, error: Box<RunError>) -> FitError {
        if matches!(*error, RunError::Stopped) {
            return FitError::Stopped;
        }
        let machine = plan.machine.name.clone();
        FitError::Run { figure: self.targets[place].figure, machine, error }
    }

    fn stuck(&self, stuck: Stuck<FitError>) -> FitError {
        match stuck {
            Stuck::Evaluation(error) => error,
            Stuck::Alike => FitError::Alike(self.fitted.iter().map(|fitted| fitted.key.clone()).collect()),
            Stuck::Bound { value, at, figures } => {
                let Target { figure, value: target } = self.targets[value];
                let Fitted { key, unit, .. } = &self.fitted[value];
                FitError::Bound {
                    value: format!("{key} = {at} {unit}"),
                    figure,
                    ours: figures[value],
                    target,
                }
            }
            Stuck::Far { value, figures } => {
                let Target { figure, value: target } = self.targets[value];
                FitError::Far { key: self.fitted[value].key.clone(), figure, ours: figures[value], target }
            }
        }
    }
}

/// The numbers that the machine marks as fitted, with the figures.
fn marked(machine: &MachineFile) -> Result<Vec<(Parameter, Figure)>, FitError> {
    let marked = machine.machine().sources.iter().filter_map(|parameter| {
        let mark = parameter.marks.fitted.as_ref()?;
        Some(Figure::of_mark(mark).map(|figure| (parameter.clone(), figure)))
    });
    Ok(marked.collect::<Result<_, _>>()?)
}

/// The number with its range: a factor of [`RANGE`] either way, as far as the machine allows.
fn fitted(machine: &MachineFile, parameter: &Parameter) -> Result<Fitted, FitError> {
    let Parameter { key, value: start, unit, .. } = parameter;
    if *start <= 0.0 {
        return Err(FitError::Zero(key.clone()));
    }
    let allowed = |value: f64| {
        let change = Change { key: key.clone(), value, unit: None };
        machine.clone().set(&change).is_ok()
    };
    let is_whole = is_whole(key, machine);
    // The allowed value that is farthest towards `end`.
    let farthest = |end: f64| {
        let end = if is_whole { end.round().max(1.0) } else { end };
        if allowed(end) {
            return end;
        }
        let (mut good, mut bad) = (*start, end);
        for _ in 0..HALVINGS {
            let middle = f64::midpoint(good, bad);
            let middle = if is_whole { middle.round() } else { middle };
            if is_whole && (good - bad).abs() <= 1.0 {
                break;
            }
            *(if allowed(middle) { &mut good } else { &mut bad }) = middle;
        }
        good
    };
    let (least, most) = (farthest(start / RANGE), farthest(start * RANGE));
    Ok(Fitted { key: key.clone(), unit: unit.clone(), start: *start, least, most, is_whole })
}
