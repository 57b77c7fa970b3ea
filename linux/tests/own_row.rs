//! Every recording is replayed as its own kernel. The replay asks as many CPUs, and interrupts as many, as the kernel did.
//! `docs/data/replays.csv` has the figures, and the book's chapter on trust those of whole recordings.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ceasefire_linux::recording::{Count, Recording};
use ceasefire_linux::replay::{replay, Asked, Mechanism, Replay};
use ceasefire_linux::shootdowns::Cause;

/// The requests of a cause from which on it is compared by itself.
const ENOUGH: u64 = 100;

/// The recordings that are replayed, in order: all in these folders.
fn recordings() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let mut found = Vec::new();
    for folder in ["", "guests", "worked", "16-cpus"] {
        for entry in root.join(folder).read_dir().expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.extension().is_some_and(|extension| extension == "parquet") {
                let name = path.strip_prefix(&root).expect("below it").with_extension("");
                found.push((name.to_str().expect("a name").to_owned(), path));
            }
        }
    }
    found.sort();
    found
}

fn replayed(path: &Path) -> Replay {
    let mut recording = Recording::open(path).expect("a recording");
    let linux = Mechanism::of_linux(recording.facts().release());
    replay(&mut recording, &[linux]).expect("a full recording")
}

/// What was observed and replayed of a cause.
fn of_cause(replayed: &Replay, cause: Cause) -> [Asked; 2] {
    let observed = replayed.observed.totals.causes.get(&cause).copied().unwrap_or_default();
    let predicted = replayed.predicted[0].causes.get(&cause).copied().unwrap_or_default();
    [Asked { requests: observed.requests, interrupts: observed.interrupts }, predicted]
}

fn is_near(observed: u64, replayed: u64) -> bool {
    replayed.abs_diff(observed) * 10 <= observed
}

#[test]
fn a_replay_of_the_recorded_kernel_is_right_to_a_tenth() {
    let mut table = String::from(
        "recording,kernel,cpus,cause,requests,requests_replayed,interrupts,interrupts_replayed\n",
    );
    let mut quoted = Vec::new();
    let mut compared = 0;
    for (name, path) in recordings() {
        let replayed = replayed(&path);
        let facts = &replayed.facts;
        let all = [
            Asked { requests: replayed.observed_requests(), ..replayed.observed.asked },
            replayed.predicted[0].asked,
        ];
        // Events of kernels without `csd:*` do not tell which requests interrupt.
        let interrupts = |asked: [Asked; 2]| match facts.counted {
            Count::Sent => asked.map(|asked| asked.interrupts.to_string()),
            Count::Flushed => [const { String::new() }; 2],
        };
        let mut row = |cause: &str, asked: [Asked; 2]| {
            let [requests, replayed] = asked.map(|asked| asked.requests);
            let interrupts = interrupts(asked).join(",");
            let (release, cpus) = (facts.release(), facts.cpus.len());
            let _ = writeln!(table, "{name},{release},{cpus},{cause},{requests},{replayed},{interrupts}");
        };
        row("all", all);
        let [requests, replays] = all.map(|asked| asked.requests);
        let [sent, sends] = interrupts(all);
        let line = format!("{name:<32} {requests:>8} {replays:>10} {sent:>11} {sends:>10}");
        quoted.push(line.trim_end().to_owned());
        // Nor do they tell its cause.
        if facts.counted == Count::Flushed {
            assert!(is_near(requests, replays), "{name}: {all:?}");
            continue;
        }
        let is_right = |[observed, predicted]: [Asked; 2]| {
            is_near(observed.requests, predicted.requests)
                && is_near(observed.interrupts, predicted.interrupts)
        };
        assert!(is_right(all), "{name}: {all:?}");
        let causes: BTreeSet<Cause> = replayed.observed.totals.causes.keys().copied().collect();
        for cause in causes {
            let asked = of_cause(&replayed, cause);
            if asked[0].requests > 0 {
                row(cause.name(), asked);
            }
            if asked[0].requests >= ENOUGH {
                compared += 1;
                assert!(is_right(asked), "{name}, {}: {asked:?}", cause.name());
            }
        }
    }
    assert!(compared >= 23, "{compared}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/data/replays.csv");
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    if committed != table {
        let new = std::env::temp_dir().join("replays.csv");
        std::fs::write(&new, &table).expect("a file");
        panic!("{} is not what was computed: {}", file.display(), new.display());
    }
    let chapter = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/src/linux/trust.md");
    let chapter = std::fs::read_to_string(chapter).unwrap_or_default();
    let table = chapter.split("```").nth(1).unwrap_or_default();
    let rows: Vec<&str> = table.lines().skip(2).collect();
    assert_eq!(rows, quoted, "{}", quoted.join("\n"));
}

#[test]
fn answered_requests_are_those_of_the_tlb_row_to_the_last_one() {
    for (name, path) in recordings() {
        let replayed = replayed(&path);
        let observed = &replayed.observed;
        let row = replayed.facts.tlb_row.filter(|_| replayed.facts.counted == Count::Sent);
        let Some(row) = row else { continue };
        // Where the load goes on after the last reading, its recorder counted up to there.
        let goes_on = ["worked/lmdb", "reclaim"].contains(&name.as_str());
        let counted = if goes_on { replayed.facts.answered } else { observed.answered };
        assert_eq!(counted, row, "{name}");
    }
}
