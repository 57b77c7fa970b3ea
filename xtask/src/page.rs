//! `cargo xtask page`: checks a page of results in a browser.
//!
//! Three commands of `ceasefire compare --html` make pages: one of the papers' machines, one of a machine that no paper
//! measured, and one that says what a ratio depends on. Headless Chromium lays each out as wide as a phone, a tablet and a desktop screen, in light and in
//! dark colours, and reports faults: figures without size, anything wider than the screen, text that leaves its figure,
//! is crossed by a line, overlaps other text, is faint or too small to read, links without a target, downloads that
//! cannot be read, and requests for other resources. Then it prints the page. The check does not compare pixels, so
//! fonts and versions may differ. The files stay in `target/page`.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::failure::{self, ensure, At as _, Failure};
use crate::workspace::Workspace;

/// The widths of the layouts, in CSS pixels: the narrowest phone that is still common, a usual one, a tablet and a
/// desktop screen.
const WIDTHS: [u32; 4] = [360, 390, 820, 1280];
/// The schemes of colours that a reader may prefer.
const SCHEMES: [&str; 2] = ["light", "dark"];
/// The most bytes of a printed page: it has to fit into a mail.
const PRINTED: usize = 1_000_000;

/// A page: its name, the command that makes it, and parts that it must have for the check to see all kinds of figures.
struct Page {
    name: &'static str,
    compare: &'static str,
    parts: &'static [&'static str],
}

/// The pages. Machines keep their own size where published figures are to stand beside ours.
const PAGES: [Page; 3] = [
    Page {
        name: "results",
        compare: "--scale 0.0015 --check none",
        parts: &[
            "<b>Ratios.</b>",
            "<b>Throughput.</b>",
            "median of 2 runs",
            "not modelled",
            "class=\"other lazy\"",
        ],
    },
    Page {
        name: "own-machine",
        compare: "mmap-read tlb-flush2 --machine 1-socket --cpus 4 --scale 0.004",
        parts: &["No paper measured this machine", "The oracle checked", "<b>Speed.</b>"],
    },
    Page {
        name: "sensitivity",
        compare: "migrate --machine 2-socket-intel --cpus 2 --scale 0.0001 --draw sensitivity=2",
        parts: &["<b>What the ratios depend on.</b>", "costs."],
    },
];
/// The script that checks the page in the browser.
const CHECK: &str = include_str!("page/check.js");

/// Makes the pages and checks them.
pub(crate) fn run() -> Result<(), Failure> {
    let browser = find()?;
    let workspace = Workspace::load()?;
    let folder = workspace.target.join("page");
    fs::create_dir_all(&folder).at(&folder)?;
    PAGES.iter().try_for_each(|page| check(page, browser, &workspace, &folder))
}

fn check(
    Page { name, compare, parts }: &Page,
    browser: &str,
    workspace: &Workspace,
    folder: &Path,
) -> Result<(), Failure> {
    let page = folder.join(format!("{name}.html"));
    let mut program = workspace.program();
    program.arg("compare").args(compare.split(' ')).args(["--repeats", "2", "--quiet", "--html"]);
    failure::output(program.arg(&page))?;
    let text = fs::read_to_string(&page).at(&page)?;
    if let Some(part) = parts.iter().find(|part| !text.contains(**part)) {
        return Err(Failure::new(format!("{}: `{part}` is not on it", page.display())));
    }

    let frames = folder.join(format!("{name}-frames.html"));
    fs::write(&frames, framed(&text)).at(&frames)?;
    let report = report(&open(browser, &frames, &["--dump-dom"])?)?;
    let faults = faults(&report)?;
    ensure!(faults.is_empty(), new, "{}:\n{}", page.display(), faults.join("\n"));
    let figures =
        report.as_array().map_or(0, |seen| seen.iter().map(|one| one["figures"].as_u64().unwrap_or(0)).sum());
    println!("==> {figures} figures laid out at {WIDTHS:?} CSS pixels, {}", SCHEMES.join(" and "));

    let paper = folder.join(format!("{name}.pdf"));
    let print = format!("--print-to-pdf={}", paper.display());
    open(browser, &page, &[&print, "--no-pdf-header-footer"])?;
    let bytes = fs::read(&paper).at(&paper)?;
    let pages = pages(&bytes);
    ensure!(pages > 0, new, "{}: no pages", paper.display());
    let size = bytes.len();
    ensure!(size <= PRINTED, new, "{}: {size} bytes, at most {PRINTED}", paper.display());
    println!("==> printed on {pages} pages, {} kB: {}", size / 1000, paper.display());
    let picture = folder.join(format!("{name}.png"));
    let shoot = format!("--screenshot={}", picture.display());
    open(browser, &page, &[&shoot, "--window-size=1280,4000"])?;
    println!("==> {}", picture.display());
    Ok(())
}

/// The width and the scheme of each frame.
fn layouts() -> impl Iterator<Item = (u32, &'static str)> {
    SCHEMES.into_iter().flat_map(|scheme| WIDTHS.into_iter().map(move |width| (width, scheme)))
}

/// A page with the same page in frames of all widths and schemes, and the script that checks them.
fn framed(page: &str) -> String {
    let escaped = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = |(width, scheme): (u32, &str)| {
        format!(
            "<iframe style=\"color-scheme:{scheme};width:{width}px;height:800px;border:0;display:block\" \
             srcdoc=\"{escaped}\"></iframe>\n"
        )
    };
    let frames: String = layouts().map(frame).collect();
    format!("<!doctype html><meta charset=\"utf-8\"><title>frames</title>\n{frames}<pre id=\"report\"></pre><script>\n{CHECK}</script>\n")
}

/// The script's report, taken from the document that the browser returns.
fn report(dom: &str) -> Result<Value, Failure> {
    let nothing = || Failure::new("the browser ran no script of the page of frames");
    let (_, rest) = dom.split_once("<pre id=\"report\">").ok_or_else(nothing)?;
    let (text, _) = rest.split_once("</pre>").ok_or_else(nothing)?;
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    serde_json::from_str(&text).at(format!("the page of frames reported `{text}`"))
}

/// The faults, a line each.
fn faults(report: &Value) -> Result<Vec<String>, Failure> {
    let unexpected = || Failure::new(format!("the page of frames reported {report}"));
    let frames =
        report.as_array().filter(|frames| frames.len() == layouts().count()).ok_or_else(unexpected)?;
    let mut faults = Vec::new();
    for (frame, (width, scheme)) in frames.iter().zip(layouts()) {
        if frame["width"].as_u64() != Some(u64::from(width))
            || frame["dark"].as_bool() != Some(scheme == "dark")
            || frame["figures"].as_u64().is_none_or(|count| count == 0)
        {
            return Err(unexpected());
        }
        let list = frame["faults"].as_array().ok_or_else(unexpected)?;
        faults.extend(
            list.iter().map(|fault| format!("  {width} px, {scheme}: {}", fault.as_str().unwrap_or("?"))),
        );
    }
    Ok(faults)
}

/// The pages of a PDF, counted by their objects.
fn pages(pdf: &[u8]) -> usize {
    if !pdf.starts_with(b"%PDF-") {
        return 0;
    }
    let page = b"/Type /Page";
    pdf.windows(page.len() + 1)
        .filter(|bytes| bytes.starts_with(page) && !bytes[page.len()].is_ascii_alphabetic())
        .count()
}

/// The names of Chromium on different systems.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// A browser that has not ended after this many seconds is ended.
const PATIENCE: &str = "180";
/// Its sandbox needs rights that containers do not give. It shows only the project's own page.
const FLAGS: &str =
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking \
    --disable-component-update --disable-sync --hide-scrollbars --virtual-time-budget=5000";

/// The name of the first browser that is installed.
fn find() -> Result<&'static str, Failure> {
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let found = NAMES.into_iter().find(is_there);
    found.ok_or_else(|| Failure::new("no browser is installed: install Debian's `chromium`"))
}

/// Opens a page in headless Chromium, with an empty profile and without network, and returns what that prints.
fn open(browser: &str, page: &Path, options: &[&str]) -> Result<String, Failure> {
    let profile = page.with_extension(format!("profile-{}", std::process::id()));
    // A leftover of an earlier process with the same number.
    let _ = fs::remove_dir_all(&profile);
    let mut command = Command::new("timeout");
    command.args(["--kill-after=5", PATIENCE, browser]).args(FLAGS.split_whitespace());
    command.arg(format!("--user-data-dir={}", profile.display())).args(options).arg(page);
    let output = failure::output(&mut command);
    // A profile that stays does no harm.
    let _ = fs::remove_dir_all(&profile);
    output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The report of frames that are all in order.
    fn good() -> Vec<Value> {
        let frame =
            |(width, scheme)| json!({"width": width, "dark": scheme == "dark", "figures": 2, "faults": []});
        layouts().map(frame).collect()
    }

    #[test]
    fn faults_are_read_from_the_browsers_report() {
        let mut frames = good();
        frames[4]["faults"] = json!(["a <b> & c"]);
        let text = json!(frames).to_string().replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let seen = report(&format!("<body><pre id=\"report\">{text}</pre></body>")).unwrap();
        assert_eq!(faults(&seen).unwrap(), ["  360 px, dark: a <b> & c"]);
        assert!(faults(&json!(good())).unwrap().is_empty());
    }

    #[test]
    fn a_page_that_was_not_checked_is_a_failure() {
        assert!(report("<body></body>").is_err());
        assert!(report("<pre id=\"report\"></pre>").is_err());
        assert!(faults(&json!(good()[1..])).is_err(), "a frame is missing");
        for (field, value) in [("width", json!(500)), ("dark", json!(true)), ("figures", json!(0))] {
            let mut frames = good();
            frames[0][field] = value;
            assert!(faults(&json!(frames)).is_err(), "{field}");
        }
    }

    #[test]
    fn pages_are_counted_and_their_tree_is_not() {
        let pdf =
            b"%PDF-1.4\n<</Type /Pages /Count 2>>\n<</Type /Page\n/Parent 1>>\n<</Type /Page /Parent 1>>";
        assert_eq!(pages(pdf), 2);
        assert_eq!(pages(b"<html>/Type /Page "), 0);
    }

    #[test]
    fn a_page_in_a_frame_stays_one_attribute() {
        let text = framed("<p class=\"a\">&amp;</p>");
        assert_eq!(
            text.matches("srcdoc=\"<p class=&quot;a&quot;>&amp;amp;</p>\"></iframe>").count(),
            layouts().count()
        );
    }
}
