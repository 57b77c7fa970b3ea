//! `cargo xtask picture`: draws the picture of the README from `docs/figures.json`.
//!
//! For each paper the picture has two bars: how many times faster its mechanism made its workload, as published and in
//! the simulator. Where a paper leaves open what its figure depends on, ours is a band. It comes in a light and in a dark
//! version, since GitHub shows both.

use std::fs;

use serde_json::Value;

use crate::failure::{At as _, Failure};
use crate::workspace::Workspace;

const FIGURES: &str = "docs/figures.json";
const FOLDER: &str = "docs/src/pictures";

/// The width of the picture, the ends of its logarithmic axis, the height of a pair, and the ticks, in its own units.
const WIDTH: f64 = 740.0;
const AXIS: (f64, f64) = (90.0, 530.0);
const PAIR: f64 = 70.0;
const TOP: f64 = 34.0;
const TICKS: [f64; 5] = [1.0, 2.0, 4.0, 8.0, 16.0];

/// The versions: name, text, quiet text, rules, the papers' bars, and ours.
const THEMES: [[&str; 6]; 2] = [
    ["light", "#1b1b1b", "#5c5c5c", "#d6d6d6", "#9a9a9a", "#0b6aa8"],
    ["dark", "#e8e6e1", "#a8a59f", "#3c3c3c", "#7d7d7d", "#63b3e8"],
];

/// Draws both versions.
pub(crate) fn run() -> Result<(), Failure> {
    let root = Workspace::load()?.root;
    let text = fs::read_to_string(root.join(FIGURES)).at(FIGURES)?;
    let figures: Vec<Value> = serde_json::from_str(&text).at(FIGURES)?;
    for theme in THEMES {
        let file = root.join(FOLDER).join(format!("savings-{}.svg", theme[0]));
        fs::write(&file, drawn(&figures, theme).at(FIGURES)?).at(&file)?;
        println!("==> {}", file.display());
    }
    Ok(())
}

/// The place of a ratio on the axis.
fn place(ratio: f64) -> f64 {
    let most = TICKS[TICKS.len() - 1];
    AXIS.0 + (ratio.ln() / most.ln()).clamp(0.0, 1.0) * (AXIS.1 - AXIS.0)
}

/// The picture, as SVG, or the field that a figure lacks.
fn drawn(figures: &[Value], [_, ink, quiet, rule, published, ours]: [&str; 6]) -> Result<String, String> {
    let bottom = TOP + PAIR * figures.len() as f64;
    let (height, numbers) = (bottom + 24.0, bottom + 17.0);
    let mut lines = vec![
        format!(r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img""#),
        format!(r#"font-family="system-ui, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif" font-size="13" fill="{ink}">"#),
        "<title>How many times faster: published and simulated</title>".to_owned(),
        r#"<text y="16" font-size="15">How many times faster each paper's workload runs with its way to flush</text>"#.to_owned(),
    ];
    for tick in TICKS {
        let x = place(tick);
        lines.push(format!(r#"<path d="M{x:.1} {TOP}V{bottom}" stroke="{rule}"/>"#));
        lines.push(format!(
            r#"<text x="{x:.1}" y="{numbers}" text-anchor="middle" fill="{quiet}">{tick} x</text>"#
        ));
    }
    for (figure, number) in figures.iter().zip(0..) {
        let lacks = |key: &str| format!("figure {} has no `{key}`", number + 1);
        let word = |key: &str| figure[key].as_str().ok_or_else(|| lacks(key));
        let ratio =
            |value: &Value, key| value.as_f64().filter(|ratio| *ratio >= 1.0).ok_or_else(|| lacks(key));
        let paper = ratio(&figure["published"], "published")?;
        let (low, high) = (ratio(&figure["ours"][0], "ours")?, ratio(&figure["ours"][1], "ours")?);
        let shown = |ratio: f64| if ratio < 10.0 { format!("{ratio:.2}") } else { format!("{ratio:.1}") };
        let band = if low < high { format!("{} to {}", shown(low), shown(high)) } else { shown(low) };
        let top = TOP + PAIR * f64::from(number);
        let (head, name, workload) = (top + 20.0, word("paper")?, word("workload")?);
        lines.push(format!(r#"<text y="{head}"><tspan font-weight="600">{name}</tspan>: {workload}</text>"#));
        for (name, y, colour, [low, high], text) in [
            ("the paper", top + 26.0, published, [paper, paper], shown(paper)),
            ("simulated", top + 44.0, ours, [low, high], band),
        ] {
            // The bar is solid up to the low end of a band and faint from there to its high end.
            let (from, solid, end) = (AXIS.0, place(low), place(high));
            let (left, right, middle) = (from - 8.0, end + 6.0, y + 12.0);
            let (width, faint) = (solid - from, end - solid);
            let shape = format!(r#"y="{y}" height="15" fill="{colour}""#);
            lines.push(format!(r#"<text x="{left:.1}" y="{middle}" text-anchor="end">{name}</text>"#));
            lines.push(format!(r#"<rect x="{from:.1}" width="{width:.1}" {shape}/>"#));
            lines.push(format!(r#"<rect x="{solid:.1}" width="{faint:.1}" {shape} opacity="0.4"/>"#));
            lines.push(format!(r#"<text x="{right:.1}" y="{middle}">{text}</text>"#));
        }
    }
    Ok(lines.join("\n") + "\n</svg>\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_show_every_figure_inside_the_frame() {
        let text = include_str!("../../docs/figures.json");
        let mut figures: Vec<Value> = serde_json::from_str(text).unwrap();
        assert_eq!(figures.len(), 4, "one for each paper");
        for theme in THEMES {
            let svg = drawn(&figures, theme).unwrap();
            assert!(svg.contains(theme[5]) && svg.contains("2.52 to 15.2<"), "{svg}");
            for part in svg.split(" x=\"").skip(1) {
                let x: f64 = part.split('"').next().and_then(|x| x.parse().ok()).expect("a number");
                assert!((0.0..=WIDTH).contains(&x), "{part}");
            }
        }
        figures[1]["ours"] = Value::Null;
        assert_eq!(drawn(&figures, THEMES[0]).unwrap_err(), "figure 2 has no `ours`");
    }
}
