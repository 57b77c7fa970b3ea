//! Runs with several seeds: their seeds, their median and range, and the checkers, which change no figure.

use serde_json::Value;

use crate::common::{json, printed};

const RUN: &[&str] =
    &["mmap-read", "--machine", "1-socket", "--scale", "0.003", "--mechanism", "per-page,batched"];

#[test]
fn repeats_run_seed_after_seed_and_the_summary_is_theirs() {
    let json = json(&[RUN, &["--repeats", "3", "--seed", "5"]].concat());
    let results = json["results"].as_array().expect("a list");
    let of = |mechanism: &str| -> Vec<&Value> {
        results.iter().filter(|result| result["mechanism"] == mechanism).collect()
    };
    let (before, after) = (of("per-page"), of("batched"));
    for runs in [&before, &after] {
        assert_eq!(runs.iter().map(|run| run["seed"].as_u64()).collect::<Vec<_>>(), [5, 6, 7].map(Some));
        let checked: Vec<bool> =
            runs.iter().map(|run| run["oracle"] == true && run["shadow"] == true).collect();
        assert_eq!(checked, [true, false, false], "the first run alone is checked");
    }
    let elapsed = |run: &Value| run["elapsed_s"].as_f64().expect("a number");
    let mut ratios: Vec<f64> =
        before.iter().zip(&after).map(|(before, after)| elapsed(after) / elapsed(before)).collect();
    ratios.sort_by(f64::total_cmp);
    let ours = &json["summary"][0]["ours"];
    let said = ["least", "median", "most"].map(|field| ours[field].as_f64().expect("a number"));
    assert_eq!(said.map(f64::to_bits)[..], ratios.iter().map(|ratio| ratio.to_bits()).collect::<Vec<_>>());
    assert!(said[0] < said[2], "seeds make a difference: {said:?}");
}

#[test]
fn the_table_shows_the_median_of_the_seeds() {
    let run = [RUN, &["--check=none", "--seed", "5"]].concat();
    let rates = |more: &[&str]| {
        let text = printed(&[&run[..], more].concat());
        let mut lines = text.lines().skip_while(|line| *line != "operations per second");
        let line = lines.nth(1).unwrap_or_else(|| panic!("{text}"));
        (line.split_whitespace().nth(1).expect("a number").to_owned(), text)
    };
    let (median, text) = rates(&["--repeats", "3"]);
    assert!(text.contains("seeds 5 to 7"), "{text}");
    let single = ["5", "6", "7"].map(|seed| {
        let text =
            printed(&[RUN, &["--check=none", "--repeats", "1", "--seed", seed, "--table", "-"]].concat());
        let rows = text.lines().filter(|line| line.contains(",operations_per_s,"));
        let rates = rows.map(|row| row.split(',').rev().nth(3).and_then(|cell| cell.parse::<f64>().ok()));
        rates.map(|rate| rate.expect("a number")).next().expect("a row")
    });
    let mut sorted = single;
    sorted.sort_by(f64::total_cmp);
    // Four digits, as the table has.
    let shown = median.strip_suffix('k').and_then(|digits| digits.parse::<f64>().ok()).expect("thousands");
    assert!((shown * 1e3 / sorted[1] - 1.0).abs() < 1e-3, "{median} is the median of {single:?}");
}

#[test]
fn every_run_is_checked_on_request() {
    let json = json(&[RUN, &["--repeats", "2", "--check=all"]].concat());
    let results = json["results"].as_array().expect("a list");
    assert_eq!(results.len(), 4);
    assert!(results.iter().all(|result| result["oracle"] == true && result["loads_compared"].is_u64()));
}

/// The lines of the results that are not about the checkers or the host's time.
fn figures(arguments: &[&str]) -> Vec<String> {
    const OTHERS: [&str; 10] = [
        "command",
        "oracle",
        "shadow",
        "stale_hits",
        "violations",
        "broken",
        "loads_compared",
        "loads_wrong",
        "wall_s",
        "cpu_s",
    ];
    let text = printed(&[arguments, &["--json", "-"]].concat());
    let is_other =
        |line: &str| OTHERS.iter().any(|field| line.trim_start().starts_with(&format!("\"{field}\"")));
    text.lines().filter(|line| !is_other(line)).map(str::to_owned).collect()
}

#[test]
fn checkers_change_no_figure() {
    let lazy = ["--mechanism", "per-page,lazy", "--repeats", "1"];
    let sweep =
        ["tlb-flush2", "--machine", "milan-36", "--threads", "3", "--scale", "0.0002", "--repeats", "1"];
    for run in [
        &["mmap-read", "--machine", "1-socket", "--scale", "0.003"][..],
        &["switching", "--machine", "small-vm", "--scale", "0.001"],
    ] {
        let run = [run, &lazy].concat();
        let checked = figures(&run);
        assert!(checked.len() > 100);
        assert_eq!(checked, figures(&[&run[..], &["--check=none"]].concat()), "{run:?}");
    }
    let checked = figures(&sweep);
    assert_eq!(checked, figures(&[&sweep[..], &["--check=none"]].concat()));
}
