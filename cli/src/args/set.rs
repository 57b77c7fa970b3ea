//! The keys of `--set`: the numbers of the machine, and four choices of the model.

use ceasefire_experiments::{named, LruDrain, Payment, LRU_DRAINS, PAYMENTS};
use ceasefire_machine::config::{Change, Effect};

use crate::failure::Failure;

/// The choices of the model, under their names in the JSON. All other keys are numbers of the machine.
const CHOICES: [&str; 4] = ["settle", "lru_drain", "without", "speculate"];

/// One `KEY=VALUE`.
#[derive(Debug, Clone)]
pub(crate) enum Setting {
    /// A number of the machine.
    Number(Change),
    /// A choice of the model, and its value.
    Choice { key: &'static str, value: String },
}

impl Setting {
    fn key(&self) -> &str {
        match self {
            Self::Number(change) => &change.key,
            Self::Choice { key, .. } => key,
        }
    }
}

/// Parses a setting. The machine checks that it has the number, [`Settings::of`] that a choice has the value.
pub(super) fn setting(text: &str) -> Result<Setting, String> {
    if text.split_once('=').is_some_and(|(key, _)| ["linux", "kernel"].contains(&key.trim())) {
        return Err("the release of Linux is chosen with --kernel".to_owned());
    }
    let choice = text.split_once('=').and_then(|(key, value)| {
        let key = CHOICES.into_iter().find(|known| *known == key.trim())?;
        Some(Setting::Choice { key, value: value.trim().to_owned() })
    });
    choice.map_or_else(|| text.parse().map(Setting::Number), Ok).map_err(|_| {
        format!(
            "must be KEY=NUMBER or KEY=NUMBER UNIT, such as 'costs.fault=900 ns', or a value of {}",
            CHOICES.join(", ")
        )
    })
}

/// All that `--set` chose.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// The numbers of the machine.
    pub(crate) changes: Vec<Change>,
    /// How debts are settled.
    pub(crate) settle: Option<Payment>,
    /// When a CPU lists its new pages, with a run for each value.
    pub(crate) lru_drain: Vec<LruDrain>,
    /// The effects to leave out of the model.
    pub(crate) without: Vec<Effect>,
    /// The rate at which walkers fill translations by themselves.
    pub(crate) speculate: Option<f64>,
}

impl Settings {
    /// Reads the values of all settings.
    ///
    /// # Errors
    /// A key is given twice, or a choice has no such value.
    pub(crate) fn of(given: &[Setting]) -> Result<Self, Failure> {
        let mut all = Self::default();
        for (number, setting) in given.iter().enumerate() {
            let key = setting.key();
            if given[..number].iter().any(|earlier| earlier.key() == key) {
                return Err(Failure::Input(format!("--set {key}: must be given only once")));
            }
            match setting {
                Setting::Number(change) => all.changes.push(change.clone()),
                Setting::Choice { key: "settle", value } => {
                    all.settle = Some(named("settlement", value, &PAYMENTS).map_err(Failure::input)?);
                }
                Setting::Choice { key: "lru_drain", value } => {
                    all.lru_drain = list("LRU drain", value, &LRU_DRAINS)?;
                }
                Setting::Choice { key: "without", value } => {
                    let known = Effect::ALL.map(|effect| (effect.name(), effect));
                    all.without = list("effect", value, &known)?;
                }
                Setting::Choice { key, value } => {
                    let rate = value.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
                    let wrong = || Failure::Input(format!("--set {key}={value}: must be a number, 0 to 1"));
                    all.speculate = Some(rate.ok_or_else(wrong)?);
                }
            }
        }
        Ok(all)
    }
}

/// The values that a list names, separated by commas.
fn list<T: Copy>(kind: &str, names: &str, known: &[(&str, T)]) -> Result<Vec<T>, Failure> {
    names.split(',').map(|name| named(kind, name.trim(), known).map_err(Failure::input)).collect()
}
