//! Studies on threads: complete, resumed, extended, merged, and failing.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use ceasefire_experiments::{Cells, Host, Linux};
use ceasefire_studies::{sweep, table, DataSet, DataSetError, Progress, Row, Study, SweepError, Watch};
use tempfile::TempDir;

/// A study of small runs with two draws.
const STUDY: &str = r#"
experiments = ["migrate"]
machines = ["2-socket-intel"]
mechanisms = ["per-page", "batched"]
seeds = 2
draws = 2

[parameters]
scale = 0.0001
cpus = 2
"costs.interrupt_deliver" = { from = "300 ns", to = "3000 ns", spacing = "log" }
"#;

/// The study with more draws, in most of which the sets of a TLB are no power of two.
fn failing() -> String {
    format!("{STUDY}\"tlb.l1.ways\" = {{ from = 1, to = 8 }}\n").replace("draws = 2", "draws = 8")
}

fn study(text: &str) -> Study {
    Study::from_text("study.toml", text, Path::new("")).expect("a valid study")
}

/// Stops a study when so many runs have been asked whether they go on.
struct Stop {
    asked: AtomicU64,
    most: u64,
    failures: AtomicU64,
}

fn stop(most: u64) -> Stop {
    Stop { asked: AtomicU64::new(0), most, failures: AtomicU64::new(0) }
}

impl Watch for Stop {
    fn goes_on(&self) -> bool {
        self.asked.fetch_add(1, Ordering::Relaxed) < self.most
    }

    fn progress(&self, _: &Progress) {}

    fn failed(&self, row: &Row) {
        assert!(row.error.is_some());
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

fn run(text: &str, folder: &Path) -> Progress {
    let mut data = DataSet::open(folder).expect("a folder");
    sweep(&study(text), &mut data, Some(2), false, &stop(u64::MAX)).expect("it ends")
}

/// The files of a data set without those that only this crate reads.
fn parts(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (folders, files): (Vec<_>, Vec<_>) = entries.partition(|path| path.is_dir());
    let own = |path: &PathBuf| path.extension().is_some_and(|end| end == "parquet");
    files.into_iter().filter(own).chain(folders.iter().flat_map(|folder| parts(folder))).collect()
}

/// Every figure of every point, but the host's times.
fn figures(folder: &Path) -> BTreeMap<(String, String), Vec<u64>> {
    use parquet::file::reader::{FileReader as _, SerializedFileReader};
    use parquet::record::Field;
    let mut found: BTreeMap<_, Vec<u64>> = BTreeMap::new();
    for path in parts(folder) {
        let reader = SerializedFileReader::new(fs::File::open(&path).expect("a file")).expect("Parquet");
        for row in reader.get_row_iter(None).expect("rows").map(|row| row.expect("a row")) {
            let point =
                row.get_column_iter().find(|(name, _)| *name == "point").map(|(_, field)| field.to_string());
            for (name, field) in
                row.get_column_iter().filter(|(name, _)| !["wall_s", "cpu_s"].contains(&name.as_str()))
            {
                if let Field::Double(value) = field {
                    let key = (point.clone().expect("every row is a point"), name.clone());
                    found.entry(key).or_default().push(value.to_bits());
                }
            }
        }
    }
    found
}

#[test]
fn a_study_that_is_stopped_goes_on_and_ends_as_if_it_was_not() {
    let (whole, resumed) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    let progress = run(STUDY, whole.path());
    assert_eq!((progress.all, progress.done, progress.failed, progress.broken), (8, 8, 0, 0));
    let mut stops = 0;
    for most in (3..).step_by(3) {
        let mut data = DataSet::open(resumed.path()).expect("a folder");
        match sweep(&study(STUDY), &mut data, Some(1), false, &stop(most)) {
            Ok(_) => break,
            Err(SweepError::Stopped(progress)) => {
                assert!(progress.left() > 0);
                assert_eq!(
                    data.points(true).expect("a data set").len() as u64,
                    progress.before + progress.done
                );
                stops += 1;
            }
            Err(SweepError::DataSet(error)) => panic!("{error}"),
        }
    }
    assert!(stops > 0, "the study was never stopped");
    let found = figures(resumed.path());
    assert_eq!(found, figures(whole.path()));
    assert!(found.values().all(|values| values.len() == 1), "no point is there twice");
    assert_eq!(parts(resumed.path()).len(), 2, "a file for each mechanism");
}

#[test]
fn a_study_is_extended_without_a_run_done_twice() {
    let folder = TempDir::new().expect("a folder");
    run(STUDY, folder.path());
    let more = STUDY.replace("draws = 2", "draws = 3").replace("seeds = 2", "seeds = 3");
    let progress = run(&more, folder.path());
    assert_eq!((progress.all, progress.before, progress.done), (18, 8, 10));
    assert_eq!(run(&more, folder.path()).done, 0);
}

#[test]
fn data_sets_that_are_copied_together_are_one() {
    let (one, other) = (TempDir::new().expect("a folder"), TempDir::new().expect("a folder"));
    run(STUDY, one.path());
    run(&STUDY.replace("seeds = 2", "seeds = [2, 3]"), other.path());
    for path in parts(other.path()) {
        let place = one.path().join(path.strip_prefix(other.path()).expect("it is within"));
        fs::copy(&path, place).expect("a copy");
    }
    let progress = run(&STUDY.replace("seeds = 2", "seeds = 3"), one.path());
    // The second study checks the first of its own seeds, the third the first of its own.
    assert_eq!((progress.all, progress.left()), (12, 0));
    assert!(figures(one.path()).values().all(|values| values.len() == 1), "no point is there twice");
}

#[test]
fn a_run_that_fails_is_a_row_and_does_not_stop_the_study() {
    let folder = TempDir::new().expect("a folder");
    let study = study(&failing());
    let (mut data, watch) = (DataSet::open(folder.path()).expect("a folder"), stop(u64::MAX));
    let progress = sweep(&study, &mut data, None, false, &watch).expect("it ends");
    assert_eq!((progress.all, progress.done), (32, 32));
    assert!(progress.failed > 0 && progress.failed < 32, "{progress:?}");
    assert_eq!(watch.failures.into_inner(), progress.failed);
    let good = data.points(false).expect("a data set").len() as u64;
    assert_eq!((good, data.points(true).expect("a data set").len() as u64), (32 - progress.failed, 32));
    let again = |again| {
        sweep(&study, &mut DataSet::open(folder.path()).expect("a folder"), None, again, &stop(u64::MAX))
    };
    drop(data);
    assert_eq!(again(false).expect("it ends").done, 0);
    assert_eq!(again(true).expect("it ends").done, progress.failed);
    assert_eq!(DataSet::open(folder.path()).expect("a folder").points(true).expect("a data set").len(), 32);
}

#[test]
fn a_run_that_fails_has_the_scale_that_was_set_beside_runs_that_have_it_as_a_figure() {
    let study = study(&failing());
    let rows: Vec<Row> =
        (0..study.len()).filter_map(|number| study.point(number).run(&Host::new(), || true)).collect();
    let failed = rows.iter().filter(|row| row.error.is_some()).count();
    assert!(failed > 0 && failed < rows.len());
    let scale = table(&rows).into_iter().find(|column| column.name == "scale").expect("a column");
    assert_eq!(scale.cells, Cells::NumberOrNone(vec![Some(0.0001); rows.len()]));
}

#[test]
fn every_point_has_a_name_of_its_own_and_mechanisms_share_a_case() {
    let study = study(STUDY);
    let points: Vec<_> = (0..study.len()).map(|number| study.point(number)).collect();
    let ids: HashSet<String> = points.iter().map(ceasefire_studies::Point::id).collect();
    let cases: HashSet<String> = points.iter().map(ceasefire_studies::Point::case).collect();
    assert_eq!((ids.len(), cases.len()), (8, 4));
    assert_eq!(
        points[1].command(),
        "ceasefire compare migrate --machine 2-socket-intel --mechanism per-page --seed 2 --repeats 1 \
         --scale 0.0001 --cpus 2 --set 'costs.interrupt_deliver=324.43892671039464 ns' --kernel 6.3 \
         --check none"
    );
}

#[test]
fn a_kernel_is_a_value_like_others() {
    let text = "experiments = ['migrate']\nmachines = ['2-socket-intel']\nmechanisms = ['batched']\n\
                [parameters]\nscale = 0.0001\ncpus = 2\nkernel = ['6.3', '7.2']\n";
    let study = study(text);
    let points: Vec<_> = (0..study.len()).map(|number| study.point(number)).collect();
    let kernels: Vec<_> = points.iter().map(|point| point.plan().expect("it can run").kernel).collect();
    assert_eq!(kernels, [Linux::V6_3, Linux::V7_2]);
    let columns = table(&points.iter().map(|point| point.failed(String::new())).collect::<Vec<_>>());
    let column = columns.iter().find(|column| column.name == "kernel").expect("a column");
    assert!(matches!(column.cells, Cells::Text(_) | Cells::TextOrNone(_)), "a name, and no number");
    assert!(points[1].command().ends_with(" --kernel 7.2"), "{}", points[1].command());
}

#[test]
fn a_parameter_of_a_workload_keeps_its_type_and_unit() {
    let folder = TempDir::new().expect("a folder");
    let workload = "kernel.linux = '$k'\n[sweep]\nk = ['6.9', '6.18']\ntime = ['1 us']\ntimes = [2]\n\
                    [[process]]\nname = 'p'\n[[process.phase]]\ntimes = '$times'\ndo = [{ compute = '$time' }]\n";
    fs::write(folder.path().join("w.toml"), workload).expect("a file");
    let text = "experiments = ['w.toml']\nmachines = ['1-socket']\nmechanisms = ['batched']\n\
                [parameters]\nworkload.k = ['6.9']\nworkload.time = ['2 us']\nworkload.times = [3]\n";
    let study = Study::from_text("s.toml", text, folder.path()).expect("a valid study");
    let row = study.point(0).failed(String::new());
    let columns = table(std::slice::from_ref(&row));
    let word = |text: &str| Cells::TextOrNone(vec![Some(text.to_owned())]);
    for (name, expected) in [
        ("workload.k", word("6.9")),
        ("workload.time", word("2 us")),
        ("workload.times", Cells::NumberOrNone(vec![Some(3.0)])),
        ("kernel", word("6.9")),
    ] {
        let column = columns.iter().find(|column| column.name == name).expect("a column");
        assert_eq!(column.cells, expected, "{name}");
    }
    assert!(row.command.contains("w.toml:k=6.9,time=2 us,times=3"), "{}", row.command);
}

#[test]
fn a_row_that_is_sent_as_json_is_the_same_to_the_bit() {
    let study = study(STUDY);
    let row = study.point(3).run(&Host::new(), || true).expect("it is not stopped");
    let text = serde_json::to_string(&row).expect("JSON");
    assert_eq!(serde_json::from_str::<Row>(&text).expect("a row"), row);
    assert!(row.figures.iter().any(|(name, value)| name == "elapsed_s" && *value > 0.0));
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_in_one_line() {
    let folder = TempDir::new().expect("a folder");
    run(STUDY, folder.path());
    let open = DataSet::open(folder.path()).expect("a folder");
    let busy = DataSet::open(folder.path()).expect_err("it is open");
    assert!(matches!(busy, DataSetError::Busy(_)), "{busy}");
    drop(open);
    let part = parts(folder.path()).pop().expect("a file");
    let bytes = fs::read(&part).expect("a file");
    // The format is a digit in the metadata, after its name.
    let name = b"ceasefire_study";
    let place = bytes.windows(name.len()).rposition(|window| window == name).expect("the format");
    let digit = (place + name.len()..bytes.len()).find(|&at| bytes[at] == b'1').expect("its value");
    let mut other = bytes.clone();
    other[digit] = b'2';
    fs::write(&part, &other).expect("a file");
    let refused = DataSet::open(folder.path()).expect_err("another format").to_string();
    assert!(refused.ends_with(": format 2: must be format 1, or use another folder"), "{refused}");
    fs::write(&part, &bytes[..bytes.len() / 2]).expect("a file");
    let refused = DataSet::open(folder.path()).expect_err("half a file");
    assert!(matches!(refused, DataSetError::File { .. }), "{refused}");
    assert!(!refused.to_string().contains('\n'), "{refused}");
    let refused = DataSet::open(Path::new("/dev/null/x")).expect_err("no folder");
    assert!(matches!(refused, DataSetError::Io { .. }), "{refused}");
}

#[test]
fn a_wrong_study_is_refused_in_one_line() {
    let with = |line: &str| format!("experiments = [\"migrate\"]\nmachines = [\"2-socket-intel\"]\n{line}");
    let parameter = |line: &str| with(&format!("draws = 2\n[parameters]\n{line}"));
    for (text, expected) in [
        (String::new(), "s.toml: experiments: missing"),
        ("experiments = []".into(), "s.toml:1: experiments: an empty list: must be at least one name"),
        (
            "experiments = ['migrat']".into(),
            "s.toml:1: experiments[0]: no experiment is called 'migrat'; did you mean 'migrate'?",
        ),
        (with("mechanisms = ['lazi']"), "s.toml:3: mechanisms[0]: no mechanism is called 'lazi'; did you mean 'lazy'?"),
        (with("seeds = 0"), "s.toml:3: seeds: 0: must be 1 to 1048576"),
        (with("seeds = [1, 1]"), "s.toml:3: seeds: a list of 2: must be at least one seed, each given only once"),
        (with("drwas = 3"), "s.toml:3: drwas: unknown key; did you mean 'draws'?"),
        (with("draws = 3"), "s.toml: draws = 3: must be left out, or some parameter a range, as { from = ..., to = ... }, or ranges = true"),
        (
            with("draws = { count = 3, method = 'halton' }"),
            "s.toml:3: draws.method: \"halton\": must be one of \"sobol\", \"latin-hypercube\", \"random\"",
        ),
        (
            parameter("costs.fautl = { from = 1, to = 2 }"),
            "s.toml:5: parameters.costs.fautl: unknown key; did you mean 'costs.fault'?",
        ),
        (
            parameter("speed = 3"),
            "s.toml:5: parameters.speed: speed: must be a number of 2-socket-intel, or one of scale, cpus, threads, \
             kernel, lru_drain, settle",
        ),
        (
            parameter("kernel = ['6.9', '6.10']"),
            "s.toml:5: parameters.kernel: \"6.10\": must be one of 4.2, 6.3, 6.9, 6.12, 6.13, 6.18, 7.2",
        ),
        (
            parameter("kernel = { from = 6.3, to = 6.9 }"),
            "s.toml:5: parameters.kernel: a range: must be a name or a list of names",
        ),
        (
            parameter("costs.fault = { from = '3 ns', to = '3 ns' }"),
            "s.toml:5: parameters.costs.fault: 3 to 3: must be a range: `from` below `to`",
        ),
        (
            parameter("costs.fault = { from = '3 ns', to = '3 us' }"),
            "s.toml:5: parameters.costs.fault: to = 3 us: must be in the same unit as `from`",
        ),
        (
            parameter("costs.fault = { from = 0, to = 3, spacing = 'log' }"),
            "s.toml:5: parameters.costs.fault: from = 0: must be above 0, since the spacing is log",
        ),
        (
            parameter("costs.fault = { from = 3, to = 1e12 }"),
            "s.toml:5: parameters.costs.fault: 1000000000000 ns: must be 0 to 1000 ms",
        ),
        (parameter("costs.fault = []"), "s.toml:5: parameters.costs.fault: a list of 0: must be 1 to 1048576 values"),
        (parameter("costs.fault = ['3 m']"), "s.toml:5: parameters.costs.fault: 3 m: must be in ns, or such a unit"),
        (parameter("costs.fault = [3, 3]"), "s.toml:5: parameters.costs.fault: \"3\" again: must be given only once"),
        (
            parameter("costs.fault = 3\n'costs.fault' = 4"),
            "s.toml: parameters.costs.fault again: must be given only once",
        ),
        (
            parameter("scale = [2]"),
            "s.toml:5: parameters.scale: \"2\": must be a number above 0 and at most 1, such as 0.0625 or 1/16",
        ),
        (
            with("[parameters]\ncosts.fault = { from = 3, to = 4 }"),
            "s.toml:4: parameters.costs.fault: a range: must be drawn: say `draws = N`, or `steps` for a list of equal \
             steps",
        ),
        (
            with("draws = 300000000\n[parameters]\ncosts.fault = { from = 3, to = 4 }"),
            "s.toml: 600000000 points: must be at most 300000000",
        ),
        (
            with("seeds = 1000000\ndraws = 300000000\n[parameters]\ncosts = { fault = { from = 3, to = 4 }, map = { from \
                  = 1, to = 9000, steps = 1000000 }, unmap = { from = 1, to = 9000, steps = 1000000 } }"),
            "s.toml: more points than can be counted: must be at most 300000000",
        ),
        (
            with("[parameters]\nscale = 1e-9"),
            "s.toml: migrate on 2-socket-intel: scale 1e-9 is out of range: must be at least 0.0005",
        ),
    ] {
        let error = Study::from_text("s.toml", &text, Path::new("")).expect_err(&text).to_string();
        assert!(error.starts_with(expected), "{text}\n{error}\n{expected}");
        assert!(!error.contains('\n'), "{error}");
    }
}

/// A workload with a parameter, for one machine.
const WORKLOAD: &str = r#"
machines = ["1-socket"]
mechanisms = ["per-page"]
memory = "64 MiB"

[sweep]
rounds = [2, 3]

[[process]]
name = "p"
[[process.phase]]
times = "$rounds"
do = [{ compute = "1 us" }]
"#;

#[test]
fn parameters_of_workloads_are_varied() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("rounds.toml");
    fs::write(&path, WORKLOAD).expect("written");
    let ids = |experiment: &str, parameters: &str| -> Vec<(String, String, String)> {
        let text = format!("experiments = [{experiment:?}]\n[parameters]\ncpus = 2\n{parameters}\n");
        let study =
            Study::from_text("study.toml", &text, folder.path()).unwrap_or_else(|error| panic!("{error}"));
        let points = (0..study.len()).map(|number| study.point(number));
        points.map(|point| (point.id(), point.command(), point.failed(String::new()).experiment)).collect()
    };
    let own = ids("rounds.toml", "");
    let varied = ids("rounds.toml", "workload.rounds = [3, 5, 7]");
    assert_eq!((own.len(), varied.len()), (2, 3));
    assert_eq!(own[1], varied[0], "the file has the value too");
    assert_eq!(varied[1..2], ids("rounds.toml:rounds=5", ""), "by its name");
    assert_eq!(varied[2].2, "rounds:rounds=7");
    assert!(varied[2].1.contains("rounds.toml:rounds=7 "), "{}", varied[2].1);
    let built_in = ids("wasm-pool", "workload.batch = { from = 8, to = 24, steps = 3 }");
    assert!(built_in.iter().any(|(.., name)| name == "wasm-pool:batch=16"), "{built_in:?}");

    // The value is a column of the results, and the command repeats the point.
    let text = "experiments = [\"rounds.toml\"]\n[parameters]\ncpus = 2\nworkload.rounds = [5, 7]\n";
    let study = Study::from_text("study.toml", text, folder.path()).expect("a valid study");
    let point = study.point(1);
    let row = point.run(&Host::new(), || true).expect("it is not stopped");
    assert_eq!(row.error, None);
    let columns = table(&[row]);
    let column = columns.iter().find(|column| column.name == "workload.rounds").expect("a column");
    assert_eq!(column.cells, Cells::NumberOrNone(vec![Some(7.0)]));

    for (parameters, expected) in [
        ("workload.rnds = [1]", "rounds.toml: parameter \"rnds\": must be one of its parameters: rounds"),
        ("workload.rounds = { from = 1, to = 5 }", "a range: must be a list"),
        ("workload.rounds = [\"many\"]", "process[0].phase[0].times"),
    ] {
        let text = format!("experiments = [\"rounds.toml\"]\n[parameters]\n{parameters}\n");
        let error =
            Study::from_text("study.toml", &text, folder.path()).expect_err("must be refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
}
