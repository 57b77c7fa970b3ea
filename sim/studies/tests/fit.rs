//! Numbers of machines are found again from the figures that they give.

use ceasefire_experiments::Figure;
use ceasefire_machine::config::{Change, MachineFile};
use ceasefire_studies::fit::{Fit, FitError, Runner};

fn file(name: &str) -> MachineFile {
    MachineFile::builtin(name).expect("a listed name").expect("a valid file")
}

/// The fit of `1-socket` at the smallest scale.
fn small() -> Fit {
    Fit::of(&file("1-socket")).expect("it has fitted numbers").with_scale(0.002)
}

fn change(text: &str) -> Change {
    text.parse().expect("a change")
}

fn figure(name: &str) -> Figure {
    name.parse().expect("one figure")
}

#[test]
fn numbers_that_were_changed_are_found_again_from_the_figures() {
    let (fit, runner) = (small(), Runner::new(Some(2)));
    let nominal = fit.measure(&runner).expect("runs");
    assert_eq!(runner.runs(), 3, "one run for both figures, and one for each number that is varied");
    let changes = [change("costs.access=4.4 ns"), change("costs.reclaim_page=500 ns")];
    let fit = fit.changed(&changes).expect("allowed").with_targets(&nominal.figures).expect("above 0");
    assert_eq!(fit.fitted().iter().map(|fitted| fitted.start).collect::<Vec<_>>(), [4.4, 500.0]);
    let solution = fit.solve(&runner, None).expect("a solution");
    for (found, known) in solution.values.iter().zip([3.382, 711.0]) {
        assert!((found / known - 1.0).abs() < 0.02, "{solution:?}");
    }
    assert!(solution.runs <= 8, "{solution:?}");
    let width = solution.sensitivity.width(0).expect("it is determined");
    assert!((0.9..2.0).contains(&width), "user time is little more than accesses: {width}");
    assert_eq!(fit.spread(&solution, 1, &runner).expect("no run"), [Some(0.0); 2]);
    let spread = fit.spread(&solution, 2, &runner).expect("a run");
    assert!(spread.iter().all(|spread| spread.is_some_and(|spread| spread < 5.0)), "{spread:?}");
}

#[test]
fn a_machine_with_another_number_is_fitted_anew_in_a_few_runs() {
    let (fit, runner) = (small(), Runner::new(Some(2)));
    let nominal = fit.measure(&runner).expect("runs");
    let drawn = fit.changed(&[change("costs.cache_insert=400 ns")]).expect("allowed");
    let drawn = drawn.with_targets(&nominal.figures).expect("above 0").with_aim(0.01);
    let solution = drawn.solve(&runner, Some(&nominal.sensitivity)).expect("a solution");
    assert!(solution.runs <= 5, "{solution:?}");
    assert!(
        solution.values[1] < 670.0,
        "other work of a page takes longer, so reclaim takes less: {solution:?}"
    );
    let machine = drawn.machine(&solution.values).expect("allowed");
    let value = |key| machine.parameter(key).expect("a known key").value.to_bits();
    let expected = [400.0, solution.values[1]].map(f64::to_bits);
    assert_eq!(["costs.cache_insert", "costs.reclaim_page"].map(value), expected);
}

#[test]
fn a_figure_of_another_machine_is_measured_there() {
    let runner = Runner::new(Some(2));
    // Both machines have the two numbers, each fitted to a figure of one of them.
    let figures = ["milan-36", "milan-72"].map(|name| {
        let fit = Fit::of(&file(name)).expect("it has fitted numbers").with_scale(0.0002);
        assert!(
            fit.fitted().iter().all(|one| one.is_whole == (one.key == "contention.guarded")),
            "a count of lines"
        );
        // A number of both machines, changed on both.
        let slower = fit.changed(&[change("costs.unmap=800 ns")]).expect("allowed");
        [fit, slower].map(|fit| fit.measure(&runner).expect("runs").figures)
    });
    assert_eq!(figures[0], figures[1]);
    let [as_is, slower] = &figures[0];
    assert!(slower.iter().zip(as_is).all(|(slower, as_is)| slower < as_is), "{figures:?}");
}

#[test]
fn a_number_that_moves_no_figure_is_told() {
    let rows = ["mmap-read 1-socket user before", "mmap-read 1-socket system before"].map(figure);
    // No run of these broadcasts. The last figure has no number of its own.
    let more = [&rows[..], &[figure("mmap-read 1-socket elapsed before")]].concat();
    let fit =
        Fit::to(&file("1-socket"), &more, &["costs.broadcast_wait".to_owned()]).expect("as many numbers");
    let fit = fit.with_scale(0.002);
    let solution = fit.solve(&Runner::new(Some(2)), None).expect("a solution");
    assert_eq!([0, 1, 2].map(|place| solution.sensitivity.is_determined(place)), [true, true, false]);
    assert_eq!((solution.values[2], solution.sensitivity.width(2)), (845.0, None));
}

#[test]
fn a_fitted_machine_keeps_its_marks() {
    let fit = small();
    let marked = fit.marked(&[4.0, 700.0]).expect("allowed");
    let again = Fit::of(&marked).expect("it has fitted numbers");
    assert_eq!(again.targets(), fit.targets());
    assert_eq!(again.fitted().iter().map(|fitted| fitted.start).collect::<Vec<_>>(), [4.0, 700.0]);
    let source = &marked.parameter("costs.access").expect("a known key").source;
    assert_eq!(source, "fitted by ceasefire fit, at scale 0.002 and with seed 1");
}

#[test]
fn a_fit_that_cannot_be_is_refused_in_one_line() {
    let socket = file("1-socket");
    let to = |rows: &[&str], vary: &[&str]| {
        let rows: Vec<Figure> = rows.iter().map(|name| figure(name)).collect();
        let vary: Vec<String> = vary.iter().map(|&key| key.to_owned()).collect();
        Fit::to(&socket, &rows, &vary).map(|_| ()).expect_err("must be refused").to_string()
    };
    let (user, elapsed) = ("mmap-read 1-socket user before", "mmap-read 1-socket elapsed before");
    for (error, expected) in [
        (
            to(&[elapsed], &[]),
            "no number of '1-socket' is fitted to \"mmap-read 1-socket elapsed before\": name a number to vary",
        ),
        (
            to(&[user], &["costs.fault"]),
            "costs.fault: must be fitted to a published figure: name one more",
        ),
        (
            to(&[elapsed], &["costs.fautl"]),
            "1-socket: costs.fautl: unknown key; did you mean 'costs.fault'?",
        ),
        (
            to(&[user, elapsed], &["costs.access"]),
            "\"mmap-read 1-socket elapsed before\" for costs.access and for costs.access: must be a figure for each \
             number",
        ),
        (
            to(&["migrate 2-socket-intel tlb_interrupts after"], &["costs.fault"]),
            "\"migrate 2-socket-intel tlb_interrupts after\": must be a published number, but the paper gives only the \
             ratio",
        ),
        (
            Fit::of(&file("128-core-arm64")).expect_err("must be refused").to_string(),
            "no number of '128-core-arm64' is fitted: name a published figure, and a number to vary",
        ),
        (
            small().with_targets(&[-3.0]).expect_err("must be refused").to_string(),
            "\"mmap-read 1-socket user before\": -3: must be above 0",
        ),
        (
            small().with_scale(1e-6).check().expect_err("must be refused").to_string(),
            "\"mmap-read 1-socket user before\" on 1-socket: scale 1e-6 is out of range: must be at least 0.002",
        ),
    ] {
        assert_eq!(error, expected);
    }
}

#[test]
fn a_figure_out_of_reach_is_refused_with_the_bound() {
    let fit = Fit::to(&file("1-socket"), &[figure("mmap-read 1-socket user before")], &[]).expect("a number");
    let fit = fit.with_scale(0.002).with_targets(&[1e6]).expect("above 0");
    let error = fit.solve(&Runner::new(Some(2)), None).expect_err("out of reach").to_string();
    assert!(
        error.starts_with("\"mmap-read 1-socket user before\" out of reach: ")
            && error.ends_with(" at the bound costs.access = 33.82 ns: must be 1000000"),
        "{error}"
    );
}

#[test]
fn a_fit_that_is_stopped_says_so() {
    let runner = Runner::new(Some(2)).watched(&|| false, &|_| ());
    assert!(matches!(small().solve(&runner, None), Err(FitError::Stopped)));
}
