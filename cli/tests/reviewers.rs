//! The experiments that reviewers of LUF requested, at a tiny size: they run under memory pressure, and break no rule.

use serde_json::Value;

use crate::common::{printed, results};

/// The results of an experiment, from its JSON: per-page, batched and lazy.
fn quick_answer(experiment: &str, more: &[&str]) -> [Value; 3] {
    let results = results(&[&[experiment, "--repeats", "1"], more].concat());
    for result in &results {
        let count = |field: &str| result[field].as_u64().unwrap_or_else(|| panic!("{field}"));
        assert!(count("operations") > 0 && count("pages_reclaimed") > 0, "{result}");
        assert!(count("loads_compared") > 0, "{result}");
        assert_eq!((count("violations"), count("loads_wrong")), (0, 0), "{result}");
        assert!(result["published"].as_object().is_some_and(serde_json::Map::is_empty), "{result}");
    }
    results.try_into().expect("three mechanisms")
}

#[test]
fn the_requested_experiments_run_under_pressure_and_break_no_rule() {
    for (experiment, scale) in [("write-heavy", "0.002"), ("fork-heavy", "0.004"), ("small-machine", "0.05")]
    {
        let results = quick_answer(experiment, &["--scale", scale]);
        assert!(results.iter().all(|result| result["latency"].is_null()), "{experiment}");
        assert!(
            results.iter().all(|result| result["operations"] == results[0]["operations"]),
            "{experiment}: the same work"
        );
    }
    // With few CPUs, the programs share them.
    quick_answer("fork-heavy", &["--scale", "0.004", "--cpus", "1"]);
    quick_answer("write-heavy", &["--scale", "0.002", "--cpus", "1"]);
}

#[test]
fn the_percentiles_of_allocation_latency_are_in_order() {
    for more in [
        &["--machine", "1-socket", "--scale", "0.002"][..],
        &["--machine", "4-node-48-cpu", "--cpus", "4", "--scale", "0.0005"],
    ] {
        for result in quick_answer("allocation-latency", more) {
            let latency = &result["latency"];
            assert_eq!(latency["count"], result["operations"]);
            let times =
                ["p50_s", "p99_s", "p999_s", "max_s"].map(|field| latency[field].as_f64().expect(field));
            let atomic = &result["atomic"];
            assert_eq!((&atomic["failed"], &atomic["count"]), (&0.into(), &latency["count"]));
            assert!(
                atomic["max_s"].as_f64().expect("a number") < 1e-4,
                "atomic allocations do not wait: {atomic}"
            );
            assert!(times[0] > 1e-7 && times.is_sorted() && times[3] < 1.0, "{latency}");
        }
    }
    let run = ["allocation-latency", "--machine", "1-socket", "--scale", "0.002", "--repeats", "1"];
    assert!(printed(&[&run[..], &["--all", "--check=none"]].concat()).contains("latency, 99.9 %, us"));
}
