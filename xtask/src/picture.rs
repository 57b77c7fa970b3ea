//! `cargo xtask picture`: draws the picture of the README from results of the simulator.
//!
//! `ceasefire` runs every experiment of the papers. For each machine, the picture has two bars: how
//! many times faster the paper's mechanism made the workload, in the paper and here. The thin line is the range over
//! seeds. It comes in a light and in a dark version, since GitHub shows both.

use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;

use serde_json::Value;

use crate::failure::{self, Failure};
use crate::workspace::Workspace;

/// The command that runs the experiments, and the experiments with their sizes: `mmap-read` at the smallest size whose
/// ratios are those of the paper's size.
const COMPARE: &str = "run --release --quiet --package ceasefire-cli -- --quiet --json -";
const EXPERIMENTS: [&str; 2] = ["mmap-read --scale 1/32", "migrate tiered-inference tlb-flush2"];
/// The folder of the pictures.
const FOLDER: &str = "docs/src/pictures";

/// The width of the picture, the ends of its axis, and the height of a row, in its own units.
const WIDTH: f64 = 740.0;
const AXIS: (f64, f64) = (250.0, 610.0);
const ROW: f64 = 38.0;
const TOP: f64 = 34.0;
/// The ticks of the axis.
const TICKS: [f64; 4] = [1.0, 2.0, 5.0, 10.0];

/// The colours of a version.
struct Theme {
    name: &'static str,
    text: &'static str,
    quiet: &'static str,
    rule: &'static str,
    published: &'static str,
    ours: &'static str,
}

const THEMES: [Theme; 2] = [
    Theme {
        name: "light",
        text: "#1b1b1b",
        quiet: "#5c5c5c",
        rule: "#d6d6d6",
        published: "#9a9a9a",
        ours: "#0b6aa8",
    },
    Theme {
        name: "dark",
        text: "#e8e6e1",
        quiet: "#a8a59f",
        rule: "#3c3c3c",
        published: "#7d7d7d",
        ours: "#63b3e8",
    },
];

/// A row: a workload on a machine.
#[derive(Debug, Clone, PartialEq)]
struct Row {
    name: String,
    machine: String,
    /// How many times faster in the paper, and here: least, median, most.
    published: f64,
    ours: [f64; 3],
    label: String,
}

/// Runs the experiments and draws the pictures.
pub(crate) fn run() -> Result<(), Failure> {
    let workspace = Workspace::load()?;
    let mut rows = Vec::new();
    for experiments in EXPERIMENTS {
        let mut compare = workspace.cargo(&format!("{COMPARE} {experiments}"));
        let text = failure::stdout(compare.stderr(Stdio::inherit()))?;
        let results: Value = serde_json::from_str(&text)
            .map_err(|error| Failure::new(format!("the results are not JSON: {error}")))?;
        rows.extend(of(&results));
    }
    if rows.is_empty() {
        return Err(Failure::new("the results have no published figure"));
    }
    let folder = workspace.root.join(FOLDER);
    let cannot = |error: std::io::Error| Failure::new(format!("{}: {error}", folder.display()));
    fs::create_dir_all(&folder).map_err(cannot)?;
    for theme in &THEMES {
        let file = folder.join(format!("savings-{}.svg", theme.name));
        fs::write(&file, drawn(&rows, theme)).map_err(cannot)?;
        println!("==> {}", file.display());
    }
    Ok(())
}

/// A row for each workload and machine. Of several numbers of threads, the largest stands for all.
fn of(results: &Value) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for headline in results["summary"].as_array().into_iter().flatten() {
        let Some(row) = row(headline) else { continue };
        match rows.iter_mut().find(|other| (&other.name, &other.machine) == (&row.name, &row.machine)) {
            Some(other) => *other = row,
            None => rows.push(row),
        }
    }
    rows
}

fn row(headline: &Value) -> Option<Row> {
    let text = |key: &str| headline[key].as_str().map(str::to_owned);
    let number = |value: &Value| value.as_f64().filter(|number| *number > 0.0);
    let ours = &headline["ours"];
    let ratios = [
        number(&ours["least"])?,
        number(&ours["median"])?,
        number(&ours["most"])?,
        number(&headline["published"])?,
    ];
    // A time that is halved is a workload twice as fast.
    let is_time = text("metric")?.ends_with(" time");
    let [least, median, most, published] = ratios.map(|ratio| if is_time { 1.0 / ratio } else { ratio });
    Some(Row {
        name: text("experiment")?,
        machine: text("machine")?,
        published,
        ours: [least.min(most), median, least.max(most)],
        // The book's word is shorter than the JSON's.
        label: text("label")?.trim_end_matches(" in sight").to_owned(),
    })
}

/// The place of a ratio on the logarithmic axis. Beyond its ends it is at the nearer one.
fn place(ratio: f64) -> f64 {
    let most = TICKS[TICKS.len() - 1];
    let part = (ratio.ln() / most.ln()).clamp(-0.1, 1.0);
    AXIS.0 + part * (AXIS.1 - AXIS.0)
}

/// The picture, as SVG.
fn drawn(rows: &[Row], theme: &Theme) -> String {
    let Theme { text, quiet, rule, published, ours, .. } = theme;
    let bottom = TOP + ROW * rows.len() as f64;
    let height = bottom + 44.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" font-family=\"system-ui, \
         'Segoe UI', Roboto, 'DejaVu Sans', sans-serif\" font-size=\"13\" fill=\"{text}\">\n<title>How many times \
         faster: published and simulated</title>\n"
    );
    // Writing to a string does not fail.
    let _ = writeln!(
        svg,
        "<rect x=\"250\" y=\"6\" width=\"12\" height=\"9\" fill=\"{published}\"/><text x=\"268\" y=\"15\">published</text>\
         <rect x=\"350\" y=\"6\" width=\"12\" height=\"9\" fill=\"{ours}\"/><text x=\"368\" y=\"15\">simulated, with its \
         range over seeds</text>"
    );
    for tick in TICKS {
        let x = place(tick);
        let _ = writeln!(
            svg,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\" stroke=\"{rule}\"/>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{quiet}\">{tick}</text>",
            bottom + 17.0
        );
    }
    for (number, row) in rows.iter().enumerate() {
        let top = TOP + ROW * number as f64;
        let [least, median, most] = row.ours;
        let bar = |ratio: f64, y: f64, colour: &str| {
            let (from, to) = (place(1.0).min(place(ratio)), place(1.0).max(place(ratio)));
            format!(
                "<rect x=\"{from:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"10\" fill=\"{colour}\"/>",
                (to - from).max(1.0)
            )
        };
        let _ = writeln!(
            svg,
            "<text x=\"0\" y=\"{:.1}\">{}</text><text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\" \
             fill=\"{quiet}\">{}</text>",
            top + 22.0,
            row.name,
            AXIS.0 - 10.0,
            top + 22.0,
            row.machine
        );
        let _ = writeln!(
            svg,
            "{}{}<line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{text}\"/>",
            bar(row.published, top + 6.0, published),
            bar(median, top + 17.0, ours),
            place(least),
            place(most),
            y = top + 22.0,
        );
        let _ = writeln!(
            svg,
            "<text x=\"{x:.1}\" y=\"{:.1}\" font-size=\"11\" fill=\"{quiet}\">{:.2}</text>\
             <text x=\"{x:.1}\" y=\"{:.1}\" font-size=\"11\">{median:.2}<tspan fill=\"{quiet}\"> {}</tspan></text>",
            top + 15.0,
            row.published,
            top + 27.0,
            row.label,
            x = AXIS.1 + 10.0,
        );
    }
    let _ = writeln!(
        svg,
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\" fill=\"{quiet}\">times faster than the paper's baseline \
         (logarithmic)</text>\n</svg>",
        f64::midpoint(AXIS.0, AXIS.1),
        bottom + 37.0
    );
    svg
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn headline(metric: &str, case: Option<&str>, published: f64, median: f64) -> Value {
        json!({
            "experiment": "e", "machine": "m", "case": case, "metric": metric, "published": published,
            "ours": {"median": median, "least": median * 0.9, "most": median * 1.1}, "label": "predicted",
        })
    }

    #[test]
    fn a_shorter_time_and_a_higher_rate_are_both_faster() {
        let row_of = |headline| of(&json!({ "summary": [headline] })).remove(0);
        let time = row_of(headline("elapsed time", None, 0.5, 0.25));
        assert_eq!((time.published, time.ours[1]), (2.0, 4.0));
        assert!(time.ours[0] < 4.0 && time.ours[2] > 4.0, "{time:?}");
        let rate = row_of(headline("loops per second", None, 0.5, 0.25));
        assert_eq!((rate.published, rate.ours[1]), (0.5, 0.25));
    }

    #[test]
    fn the_largest_number_of_threads_stands_for_all_and_others_are_left_out() {
        let none =
            json!({"experiment": "e", "machine": "n", "metric": "ops", "published": null, "ours": null});
        let few = headline("loops per second", Some("x1"), 1.0, 1.0);
        let many = headline("loops per second", Some("x72"), 1.6, 1.3);
        let rows = of(&json!({ "summary": [few, none, many] }));
        assert_eq!(rows.len(), 1);
        assert!((rows[0].published - 1.6).abs() < f64::EPSILON);
    }

    #[test]
    fn both_versions_are_drawn_inside_the_frame() {
        let rows = of(&json!({ "summary": [headline("elapsed time", None, 0.756, 1e-9)] }));
        for theme in &THEMES {
            let svg = drawn(&rows, theme);
            assert!(svg.contains(theme.ours) && svg.contains(">1.32<") && svg.ends_with("</svg>\n"), "{svg}");
            for part in svg.split("<rect x=\"").skip(1) {
                let x: f64 = part.split('"').next().and_then(|x| x.parse().ok()).expect("a number");
                assert!((0.0..=WIDTH).contains(&x), "{part}");
            }
        }
    }
}
