//! Recordings for strangers: replays give the same figures, and nothing of the programs' names is left.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use ceasefire::Schedule;
use ceasefire_linux::difference::{differences, Difference, Figure, Profile};
use ceasefire_linux::events::{Kind, Name, Names};
use ceasefire_linux::recording::{anonymize, Facts, Recording, RecordingError, Row, COLUMNS};
use ceasefire_linux::replay::{replay, Calls, Mechanism, Replay};

/// The kept recordings.
fn kept() -> Vec<PathBuf> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let folders = ["", "guests", "worked"].map(|name| folder.join(name));
    let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("recordings"));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    assert!(paths.len() > 20, "{paths:?}");
    paths
}

fn open(path: &Path) -> Recording {
    Recording::open(path).expect("a recording")
}

/// The recording for strangers of another one.
fn anonymous(path: &Path) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    anonymize(&mut open(path), file.as_file()).expect("a recording");
    file
}

fn rows(recording: &mut Recording) -> (Vec<Row>, Names) {
    let (mut rows, mut names) = (Vec::new(), Names::default());
    let each = recording.each::<RecordingError>(&mut names, |row, _| {
        rows.push(row);
        Ok(())
    });
    each.expect("a whole recording");
    (rows, names)
}

/// The names of programs in a row.
fn programs(row: &Row) -> impl Iterator<Item = Name> {
    let other = match row.event.kind {
        Kind::ThreadBegan { name, .. } | Kind::ThreadNamed { name, .. } => Some(name),
        _ => None,
    };
    std::iter::once(row.program).chain(other)
}

/// Everything that a replay says, but for names and for the addresses of locks.
fn figures(replayed: &Replay) -> String {
    let observed = &replayed.observed;
    let totals = &observed.totals;
    let hash_maps = (
        totals.processes.iter().collect::<BTreeMap<_, _>>(),
        totals.victims.iter().collect::<BTreeMap<_, _>>(),
        totals.hit.iter().collect::<BTreeMap<_, _>>(),
        totals.pairs.iter().collect::<BTreeMap<_, _>>(),
    );
    let locks = observed.locks.rows();
    let locks: Vec<_> =
        locks.iter().map(|row| (row.kind, row.cause, row.process.id, row.sum, row.locks)).collect();
    format!(
        "{:?} {:?} {:?} {:?} {:?} {:?} {hash_maps:?} {locks:?} {:?} {:?} {} {} {} {} {}",
        observed.asked,
        observed.parts,
        totals.all,
        totals.causes,
        totals.cpus,
        observed.timeline.causes().collect::<Vec<_>>(),
        observed.locks.beside_flushes(),
        replayed.predicted,
        replayed.events,
        replayed.left_out,
        replayed.unknown_pages,
        replayed.assumed_pages,
        replayed.most_frames,
    )
}

#[test]
fn a_replay_gives_the_same_figures() {
    for path in kept() {
        let linux = Mechanism::of_linux(open(&path).facts().release());
        let with = |calls| Mechanism { calls, ..linux };
        let mechanisms = [
            linux,
            Mechanism::new(Schedule::Lazy, false),
            Mechanism::new(Schedule::PerPage, true),
            with(Calls::Together(40)),
            with(Calls::ProcessMadvise),
            with(Calls::Later(1_000_000)),
        ];
        let replayed =
            |mut recording: Recording| replay(&mut recording, &mechanisms).expect("a full recording");
        let file = anonymous(&path);
        let after = open(file.path());
        assert_eq!(Mechanism::of_linux(after.facts().release()), linux, "{}", path.display());
        assert_eq!(figures(&replayed(open(&path))), figures(&replayed(after)), "{}", path.display());
    }
}

#[test]
fn a_comparison_finds_no_difference_but_in_names() {
    for path in kept() {
        let file = anonymous(&path);
        let profile = |mut recording| Profile::of(&mut recording).expect("a whole recording");
        let found = differences(&profile(open(&path)), &profile(open(file.path())));
        let rates = |named: bool, at: usize| {
            let of_kind =
                |difference: &&Difference| matches!(difference.figure, Figure::OfProgram(_)) == named;
            let mut rates: Vec<f64> =
                found.iter().filter(of_kind).map(|difference| difference.rates[at]).collect();
            if named {
                // Each name is one of a single recording.
                rates.retain(|rate| *rate > 0.0);
                rates.sort_by(f64::total_cmp);
            }
            rates
        };
        for named in [false, true] {
            assert_eq!(rates(named, 0), rates(named, 1), "{}: {found:?}", path.display());
        }
    }
}

#[test]
fn no_name_and_no_word_of_the_command_is_left() {
    let mut searched = 0;
    for path in kept() {
        let ((before, names), facts) = (rows(&mut open(&path)), open(&path).facts().clone());
        let file = anonymous(&path);
        let mut recording = open(file.path());
        let (after, neutral) = rows(&mut recording);
        let Facts { command, kernel, began_unix_s, .. } = recording.facts();
        assert_eq!((command.len(), *began_unix_s), (0, 0.0));
        assert!(kernel.chars().all(|c| "Linux ".contains(c) || c == '.' || c.is_ascii_digit()), "{kernel}");
        // One neutral name for each name, and the other way round.
        let mut of_names = BTreeMap::new();
        assert_eq!(before.len(), after.len());
        for (row, other) in before.iter().zip(&after) {
            for (name, other) in programs(row).zip(programs(other)) {
                let known = of_names.entry(names.get(name)).or_insert(neutral.get(other));
                assert_eq!(*known, neutral.get(other), "{}", path.display());
            }
        }
        assert_eq!(of_names.values().collect::<BTreeSet<_>>().len(), of_names.len(), "{of_names:?}");
        let kept = ["kswapd", "kcompactd", "khugepaged", "kworker/u"];
        for (name, neutral) in &of_names {
            let stays =
                name == neutral && (name.is_empty() || kept.iter().any(|kept| name.starts_with(kept)));
            assert!(stays || neutral.starts_with("program-"), "{name}: {neutral}");
        }
        // A name of a program may be a word of all recordings, such as that of a call.
        let facts_left = serde_json::to_string(recording.facts()).expect("JSON");
        let columns = COLUMNS.iter().map(|column| column.name);
        let common: Vec<&str> = neutral
            .since(0)
            .chain(columns)
            .chain(["recording", "ceasefire.facts", facts_left.as_str()])
            .collect();
        let bytes = fs::read(file.path()).expect("a file");
        let bytes = String::from_utf8_lossy(&bytes);
        let replaced = of_names.iter().filter(|(name, neutral)| name != neutral).map(|(name, _)| *name);
        let words = facts.command.iter().map(String::as_str).chain(facts.kernel.split_whitespace().skip(2));
        for word in replaced.chain(words).filter(|word| word.len() > 4) {
            let is_common = common.iter().any(|text| text.contains(word));
            assert!(is_common || !bytes.contains(word), "{}: {word}", path.display());
            searched += u64::from(!is_common);
        }
    }
    assert!(searched > 100, "{searched} words were searched");
}
