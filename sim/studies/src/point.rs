//! A point of a study: one run with one set of numbers.

use std::fmt::Write as _;

use ceasefire_experiments::{available_memory, caught, metrics, Host, Mechanism, Plan};
use ceasefire_machine::config::sha256;

use crate::row::{Row, Setting as Value};
use crate::shell::quoted;
use crate::study::{Chosen, Setting, Subject};

/// The number of hexadecimal digits of a name. With 2^32 points, two have the same name with a probability of 2^-65.
const DIGITS: usize = 32;

/// One run of a study, with one set of numbers.
#[derive(Debug, Clone)]
pub struct Point<'a> {
    subject: &'a Subject,
    mechanism: Mechanism,
    settings: Vec<Setting>,
    seed: u64,
    is_checked: bool,
}

impl<'a> Point<'a> {
    pub(crate) fn new(
        subject: &'a Subject,
        mechanism: Mechanism,
        settings: Vec<Setting>,
        seed: u64,
        is_checked: bool,
    ) -> Self {
        let settings = settings.into_iter().map(|setting| subject.in_own_unit(setting)).collect();
        Self { subject, mechanism, settings, seed, is_checked }
    }

    /// The point's name: the hash of all that determines its figures, the version of the program included.
    pub fn id(&self) -> String {
        hash(&format!("{}mechanism {}\nchecked {}\n", self.description(), self.mechanism, self.is_checked))
    }

    /// The name of the points that differ from this one in nothing but the mechanism, and whether they are checked.
    pub fn case(&self) -> String {
        hash(&self.description())
    }

    /// All that determines the figures but the mechanism and the checkers, in words.
    fn description(&self) -> String {
        let Subject { experiment, machine_hash, .. } = self.subject;
        let mut text = format!(
            "ceasefire {}\nexperiment {}\nmachine {machine_hash}\nseed {}\n",
            env!("CARGO_PKG_VERSION"),
            experiment.content,
            self.seed
        );
        let mut settings: Vec<&Setting> = self.settings.iter().collect();
        settings.sort_unstable();
        for setting in settings {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{setting}");
        }
        text
    }

    /// The plan of the run, checked.
    ///
    /// # Errors
    /// The machine or the experiment refuses the numbers, in one line.
    pub fn plan(&self) -> Result<Plan, String> {
        let plan = self.unchecked()?;
        let named = |error| format!("{} on {}: {error}", self.subject.experiment.name, plan.machine.name);
        plan.check().map_err(named)?;
        Ok(plan)
    }

    fn unchecked(&self) -> Result<Plan, String> {
        let mut chosen = Chosen::default();
        for setting in &self.settings {
            let refused = |bound| format!("{}: {:?}: must be {bound}", setting.key, setting.value);
            chosen.take(setting).map_err(refused)?;
        }
        let machine = self.subject.machine(&chosen).map_err(|error| error.to_string())?;
        let plan = self.subject.plan(&chosen, machine, self.mechanism);
        Ok(Plan { seed: self.seed, oracle: self.is_checked, shadow: self.is_checked, ..plan })
    }

    /// An upper bound of the host's memory that the run takes, in bytes; 0 for a run that cannot begin.
    pub fn host_bytes(&self) -> u64 {
        self.plan().map_or(0, |plan| plan.host_bytes())
    }

    /// Runs the point, when the host admits it, as long as `keep_on` says so. `None`: it was stopped.
    pub fn run(&self, host: &Host, keep_on: impl FnMut() -> bool) -> Option<Row> {
        // A panic is a bug in the run. It is this point's failure alone.
        let run = caught(|| self.simulate(host, keep_on));
        run.unwrap_or_else(|message| Some(self.failed(format!("panicked: {message}"))))
    }

    fn simulate(&self, host: &Host, mut keep_on: impl FnMut() -> bool) -> Option<Row> {
        let mut row = self.row();
        let plan = match self.plan() {
            Ok(plan) => plan,
            Err(error) => return Some(self.failed(error)),
        };
        row.figures.push(("scale".to_owned(), plan.scale));
        row.figures.push(("cpus".to_owned(), plan.machine.topology.cpu_count().into()));
        let result = plan.check_host(available_memory()).and_then(|()| {
            let _admitted = host.admit(&plan);
            plan.run_while(|_| keep_on())
        });
        match result {
            Ok(report) => {
                row.figures.push(("threads".to_owned(), report.threads as f64));
                row.figures.extend(metrics(&report));
                let (rules, loads) = (report.violations, report.loads_wrong.unwrap_or(0));
                if (rules, loads) != (0, 0) {
                    let first = report.broken.first().map_or(String::new(), |rule| format!(": {rule}"));
                    row.error = Some(format!("{rules} violations of rules, {loads} wrong loads{first}"));
                }
                Some(row)
            }
            Err(ceasefire_experiments::RunError::Stopped) => None,
            Err(error) => Some(Row { error: Some(error.to_string()), ..row }),
        }
    }

    /// The row of a run that failed.
    pub fn failed(&self, error: String) -> Row {
        Row { error: Some(error), ..self.row() }
    }

    /// What the study set, and what the run takes where the command line would take a workload's own sweep.
    fn chosen(&self) -> Vec<Setting> {
        let mut chosen = self.settings.clone();
        for (key, value) in self.unchecked().iter().flat_map(Plan::varied) {
            if self.settings.iter().all(|setting| setting.key != key) {
                chosen.push(Setting { key: key.to_owned(), value });
            }
        }
        chosen
    }

    /// The row without figures.
    fn row(&self) -> Row {
        let chosen = self.chosen();
        let settings = chosen.iter().map(|one| (one.key.clone(), Value::of(&one.key, &one.value)));
        Row {
            point: self.id(),
            case: self.case(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            experiment: self.subject.experiment.name.clone(),
            machine: self.subject.machine.machine().name.clone(),
            mechanism: self.mechanism.name().to_owned(),
            command: self.command_of(&chosen),
            seed: self.seed,
            checked: self.is_checked,
            settings: self.subject.experiment.parameters.iter().cloned().chain(settings).collect(),
            figures: Vec::new(),
            error: None,
        }
    }

    /// The command that repeats the run.
    pub fn command(&self) -> String {
        self.command_of(&self.chosen())
    }

    fn command_of(&self, chosen: &[Setting]) -> String {
        let mut command = format!("ceasefire compare {}", quoted(self.subject.experiment.definition.name));
        let mut option = |name: &str, value: &str| {
            // Writing to a string does not fail.
            let _ = write!(command, " --{name} {}", quoted(value));
        };
        option("machine", &self.subject.machine_name);
        option("mechanism", self.mechanism.name());
        option("seed", &self.seed.to_string());
        option("repeats", "1");
        for setting in chosen {
            match setting.key.as_str() {
                "scale" | "cpus" | "threads" | "kernel" => option(&setting.key, &setting.value),
                _ => option("set", &setting.to_string()),
            }
        }
        if !self.is_checked {
            command.push_str(" --check none");
        }
        command
    }
}

/// The first digits of the SHA-256 of a text.
pub(crate) fn hash(text: &str) -> String {
    let mut hash = sha256(text.as_bytes());
    hash.truncate(DIGITS);
    hash
}
