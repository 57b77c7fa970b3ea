//! The basis of our figures: whether numbers of the machine were fitted to the published ones, or chosen in sight of
//! them.

use ceasefire_machine::config::{Machine, MachineError, Parameter};

use super::figures::UNMODELLED;
use super::name::{figures, Figure, Side};

/// The basis of one of our ratios, or of one of its two sides, from the strongest evidence to the weakest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Basis {
    /// No parameter was fitted to it, and none that the run used was chosen with the published figure in sight.
    Predicted,
    /// A parameter that the run used was chosen with the published figure in sight.
    Tuned,
    /// It follows from figures that parameters were fitted to.
    Follows,
    /// Parameters were fitted to one of its two sides.
    Partly,
    /// Parameters were fitted to it; for a ratio, to both of its sides.
    Fitted,
    /// The model is known not to predict it.
    Unmodelled,
    /// Effects were left out of the model.
    Altered,
}

impl Basis {
    /// Every basis, from the strongest evidence to the weakest.
    pub const ALL: [Self; 7] = [
        Self::Predicted,
        Self::Tuned,
        Self::Follows,
        Self::Partly,
        Self::Fitted,
        Self::Unmodelled,
        Self::Altered,
    ];

    /// The word for the basis in JSON and in tables of data.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Predicted => "predicted",
            Self::Tuned => "tuned in sight",
            Self::Follows => "follows",
            Self::Partly => "half fitted",
            Self::Fitted => "fitted",
            Self::Unmodelled => "not modelled",
            Self::Altered => "altered",
        }
    }

    /// The word in texts and on pages: `tuned` for `tuned in sight`.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Tuned => "tuned",
            _ => self.name(),
        }
    }

    /// What the word says of a ratio, in one sentence.
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Predicted => "no parameter was fitted to it or chosen with it in sight.",
            Self::Tuned => "a parameter that the run used was chosen with the published figure in sight.",
            Self::Follows => "it follows from parts that parameters were fitted to.",
            Self::Partly => "parameters were fitted to one of its two sides.",
            Self::Fitted => "parameters were fitted to both sides, so it is not a prediction.",
            Self::Unmodelled => "the model lacks the cause of it and is known not to predict it.",
            Self::Altered => "effects were left out of the model, or it has the locks of another Linux than where it was fitted: the ratio is neither fitted nor predicted.",
        }
    }
}

/// The published figures that determined a machine's numbers.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Influences {
    /// The figures that numbers were fitted to.
    fitted: Vec<Figure>,
    /// The figures in sight of which numbers were chosen, of those numbers that the run used.
    seen: Vec<Figure>,
}

impl Influences {
    /// The figures that determined the machine's numbers. `seen` covers the numbers that `used` accepts.
    ///
    /// # Errors
    /// A mark names no published figure, or `fitted` names several.
    pub fn new(machine: &Machine, used: impl Fn(&Parameter) -> bool) -> Result<Self, MachineError> {
        let mut influences = Self::default();
        for parameter in &machine.sources {
            if let Some(mark) = &parameter.marks.fitted {
                influences.fitted.push(Figure::of_mark(mark)?);
            }
            for mark in &parameter.marks.seen {
                let figures = figures(mark)?;
                if used(parameter) {
                    influences.seen.extend(figures);
                }
            }
        }
        Ok(influences)
    }

    /// The basis of one side of the figure `metric` of a run.
    pub(crate) fn side(&self, run: &Run<'_>, metric: &str, side: Side) -> Basis {
        let has =
            |figures: &[Figure]| figures.iter().any(|figure| figure.side == side && run.is(figure, metric));
        if run.altered {
            Basis::Altered
        } else if UNMODELLED.contains(&metric) {
            Basis::Unmodelled
        } else if has(&self.fitted) {
            Basis::Fitted
        } else if has(&self.seen) {
            Basis::Tuned
        } else {
            Basis::Predicted
        }
    }

    /// The basis of our ratio of `metric`: the run's figure divided by that of the baseline, which has `before`.
    pub(crate) fn ratio(&self, before: &Self, run: &Run<'_>, metric: &str) -> Basis {
        let fitted = |metric| [before.side(run, metric, Side::Before), self.side(run, metric, Side::After)];
        let is_fitted = |metric| fitted(metric).map(|basis| basis == Basis::Fitted);
        match is_fitted(metric) {
            _ if run.altered => Basis::Altered,
            _ if UNMODELLED.contains(&metric) => Basis::Unmodelled,
            [true, true] => Basis::Fitted,
            [false, false] if metric == "elapsed" && ["user", "system"].map(is_fitted) != [[false; 2]; 2] => {
                Basis::Follows
            }
            [false, false] if fitted(metric).contains(&Basis::Tuned) => Basis::Tuned,
            [false, false] => Basis::Predicted,
            _ => Basis::Partly,
        }
    }
}

/// The settings of a run that decide which published figures are its own.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Run<'a> {
    pub(crate) experiment: &'a str,
    pub(crate) machine: &'a str,
    pub(crate) threads: usize,
    pub(crate) lru_drain: Option<&'a str>,
    /// Whether effects were left out of the model, or a release of Linux was chosen that does not do the same.
    pub(crate) altered: bool,
}

impl Run<'_> {
    /// Whether the published figure is that of the run's `metric`.
    fn is(&self, figure: &Figure, metric: &str) -> bool {
        let row = figure.row;
        (row.experiment, row.machine, row.metric) == (self.experiment, self.machine, metric)
            && row.case.is_none_or(|case| case.is(self.threads, self.lru_drain))
    }
}

#[cfg(test)]
mod tests {
    use ceasefire_machine::config::{builtin, BUILTIN};

    use super::*;

    const MMAP_READ: Run<'_> =
        Run { experiment: "mmap-read", machine: "1-socket", threads: 8, lru_drain: None, altered: false };

    /// `1-socket` without its marks, and without the ranges, which no fitted number has.
    fn unmarked() -> String {
        let mut text = String::from(include_str!("../../../machine/machines/1-socket.toml"));
        for (open, close) in [("\nfitted = \"", "\""), ("\nseen = [", "]"), ("\nrange.from", "\n\n")] {
            while let Some(at) = text.find(open) {
                let end = text[at + open.len()..].find(close).map(|length| at + open.len() + length);
                let end = end.map_or(text.len(), |end| end + close.trim_end().len());
                text.replace_range(at..end, "");
            }
        }
        text
    }

    /// The head of the table of a cost.
    fn head(key: &str) -> String {
        format!("[costs.{key}]\n")
    }

    /// `1-socket` with marks on `l2_hit` and, if it is another, on a second parameter.
    fn influences(marks: &[(&str, &str)]) -> Result<Influences, String> {
        let mut text = unmarked();
        for (key, mark) in marks {
            let at = text.find(&head(key)).expect("a key") + head(key).len();
            text.insert_str(at, &format!("{mark}\n"));
        }
        let machine = Machine::from_toml("f", &text, "".as_ref()).map_err(|error| error.to_string())?;
        Influences::new(&machine, |parameter| parameter.key != "costs.broadcast_wait")
            .map_err(|error| error.to_string())
    }

    fn ratio(marks: &[(&str, &str)], metric: &str) -> Basis {
        let influences = influences(marks).expect("valid marks");
        influences.ratio(&influences, &MMAP_READ, metric)
    }

    #[test]
    fn a_figure_that_no_mark_names_is_predicted() {
        for metric in ["user", "system", "elapsed", "interrupts_per_second"] {
            assert_eq!(ratio(&[], metric), Basis::Predicted, "{metric}");
        }
        // The figures of another machine, metric or experiment.
        for mark in ["mmap-read 4-node-48-cpu", "mmap-read system", "migrate"] {
            let mark = format!("seen = ['{mark}']");
            assert_eq!(ratio(&[("l2_hit", &mark)], "user"), Basis::Predicted, "{mark}");
        }
    }

    #[test]
    fn a_figure_of_another_model_has_no_other_label() {
        let fitted = [("l2_hit", "fitted = 'mmap-read 1-socket system before'")];
        let influences = influences(&fitted).expect("valid marks");
        for (run, metric, basis) in [
            (Run { altered: true, ..MMAP_READ }, "system", Basis::Altered),
            (Run { altered: true, ..MMAP_READ }, "time_range", Basis::Altered),
            (MMAP_READ, "time_range", Basis::Unmodelled),
            (MMAP_READ, "time_stddv", Basis::Unmodelled),
        ] {
            assert_eq!(influences.ratio(&influences, &run, metric), basis);
            assert_eq!(influences.side(&run, metric, Side::Before), basis);
        }
    }

    #[test]
    fn a_figure_that_a_used_parameter_saw_is_tuned_in_sight() {
        for mark in ["mmap-read", "mmap-read 1-socket user", "migrate', 'mmap-read user before"] {
            let mark = format!("seen = ['{mark}']");
            assert_eq!(ratio(&[("l2_hit", &mark)], "user"), Basis::Tuned, "{mark}");
            // The run of these tests does not use it.
            assert_eq!(ratio(&[("broadcast_wait", &mark)], "user"), Basis::Predicted, "{mark}");
        }
    }

    #[test]
    fn a_side_is_tuned_only_if_a_parameter_of_its_own_run_saw_it() {
        let none = influences(&[]).expect("valid");
        let saw = influences(&[("l2_hit", "seen = ['mmap-read user after']")]).expect("valid");
        assert_eq!(saw.side(&MMAP_READ, "user", Side::After), Basis::Tuned);
        assert_eq!(saw.side(&MMAP_READ, "user", Side::Before), Basis::Predicted);
        assert_eq!(saw.ratio(&none, &MMAP_READ, "user"), Basis::Tuned);
        assert_eq!(none.ratio(&saw, &MMAP_READ, "user"), Basis::Predicted);
    }

    #[test]
    fn a_fitted_figure_is_never_called_a_prediction() {
        let before = ("l2_hit", "fitted = 'mmap-read 1-socket system before'\nseen = ['mmap-read']");
        let after = ("walk_step", "fitted = 'mmap-read 1-socket system after'");
        assert_eq!(ratio(&[before, after], "system"), Basis::Fitted);
        assert_eq!(ratio(&[before], "system"), Basis::Partly);
        assert_eq!(ratio(&[after], "system"), Basis::Partly);
        assert_eq!(ratio(&[after], "elapsed"), Basis::Follows);
        assert_eq!(ratio(&[before], "elapsed"), Basis::Follows, "even if a parameter saw it");
        assert_eq!(ratio(&[before], "user"), Basis::Tuned);
        // A run without that parameter is not called a prediction either.
        assert_eq!(ratio(&[("broadcast_wait", after.1)], "system"), Basis::Partly);
    }

    #[test]
    fn a_mark_names_one_number_of_threads_or_all() {
        let milan = builtin("milan-72").expect("a listed name").expect("a valid file");
        let only = |key: &'static str| {
            Influences::new(&milan, move |parameter| parameter.key == key).expect("valid marks")
        };
        let run = |threads| Run {
            experiment: "tlb-flush2",
            machine: "milan-72",
            threads,
            lru_drain: Some("batched"),
            altered: false,
        };
        let basis = |key, threads| only(key).side(&run(threads), "loops_per_second", Side::After);
        assert_eq!(
            [2, 4, 8, 16].map(|threads| basis("costs.broadcast_wait", threads)),
            [Basis::Predicted, Basis::Tuned, Basis::Tuned, Basis::Predicted]
        );
        assert_eq!([2, 4, 72].map(|threads| basis("contention.shared", threads)), [Basis::Tuned; 3]);
        let fitted = |threads| only("").side(&run(threads), "loops_per_second", Side::Before);
        assert_eq!([1, 2].map(fitted), [Basis::Fitted, Basis::Predicted]);
    }

    #[test]
    fn an_unknown_figure_is_refused_in_one_line_with_the_known_ones() {
        let head = unmarked().lines().position(|line| line == head("l2_hit").trim_end()).expect("a key");
        for (mark, expected) in [
            (
                "seen = ['mmap-read user', 'mmap-read user befor']",
                "costs.l2_hit.seen[1]: \"mmap-read user befor\": must be \"mmap-read user\" and then one of \
                 4-node-48-cpu, before, after, 1-socket",
            ),
            (
                "fitted = 'mmap-read 1-socket user'",
                "costs.l2_hit.fitted: \"mmap-read 1-socket user\": must be one figure, not 2; it can be narrowed by \
                 before, after",
            ),
        ] {
            // The line below the head; lines are counted from 1.
            let expected = format!("f:{}: {expected}", head + 2);
            assert_eq!(influences(&[("l2_hit", mark)]).expect_err("must be refused"), expected);
        }
    }

    #[test]
    fn every_mark_of_the_built_in_machines_names_published_figures() {
        for name in BUILTIN {
            let machine = builtin(name).expect("a listed name").expect("a valid file");
            assert!(Influences::new(&machine, |_| true).is_ok(), "{name}");
        }
    }
}
