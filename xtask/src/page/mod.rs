//! `cargo xtask page`: checks a page of results in a browser.
//!
//! A tiny `ceasefire compare --html` makes a page. Headless Chromium lays it out as wide as a phone, a tablet and a
//! desktop screen, and reports faults: figures without size, anything wider than the screen, text that leaves its
//! figure, overlaps other text or is too small to read, and requests for other resources. Then it prints the page. The
//! check does not compare pixels, so fonts and versions may differ. The files stay in `target/page`.

mod browser;

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::failure::{self, Failure};
use crate::workspace::Workspace;
use browser::Browser;

/// The widths of the layouts, in CSS pixels: the narrowest phone that is still common, a usual one, a tablet and a
/// desktop screen.
const WIDTHS: [u32; 4] = [360, 390, 820, 1280];
/// The command that makes the page: every default experiment, on a few CPUs.
const COMPARE: &str = "run --quiet --package ceasefire-cli -- compare --cpus 4 --scale 0.004 --html";
/// The script that checks the page in the browser.
const CHECK: &str = include_str!("check.js");

/// Makes the page and checks it.
pub(crate) fn run() -> Result<(), Failure> {
    let browser = Browser::find()?;
    let workspace = Workspace::load()?;
    let folder = workspace.target.join("page");
    fs::create_dir_all(&folder).map_err(|error| cannot(&folder, &error))?;
    let page = folder.join("results.html");
    failure::output(workspace.cargo(COMPARE).arg(&page))?;
    let text = fs::read_to_string(&page).map_err(|error| cannot(&page, &error))?;

    let frames = folder.join("frames.html");
    fs::write(&frames, framed(&text)).map_err(|error| cannot(&frames, &error))?;
    let report = report(&browser.dom(&frames, &folder)?)?;
    let faults = faults(&report, &WIDTHS)?;
    if !faults.is_empty() {
        return Err(Failure::new(format!("{}:\n{}", page.display(), faults.join("\n"))));
    }
    let figures =
        report.as_array().map_or(0, |seen| seen.iter().map(|one| one["figures"].as_u64().unwrap_or(0)).sum());
    println!("==> {figures} figures laid out at {WIDTHS:?} CSS pixels");

    let paper = folder.join("results.pdf");
    browser.print(&page, &paper, &folder)?;
    let bytes = fs::read(&paper).map_err(|error| cannot(&paper, &error))?;
    let pages = pages(&bytes);
    if pages == 0 {
        return Err(Failure::new(format!("{}: no pages", paper.display())));
    }
    println!("==> printed on {pages} pages: {}", paper.display());
    let picture = folder.join("results.png");
    browser.picture(&page, &picture, &folder)?;
    println!("==> {}", picture.display());
    Ok(())
}

fn cannot(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("{}: {error}", path.display()))
}

/// A page with the same page in frames of all widths, and the script that checks them.
fn framed(page: &str) -> String {
    let escaped = page.replace('&', "&amp;").replace('"', "&quot;");
    let frame = |width: u32| {
        format!("<iframe style=\"width:{width}px;height:800px;border:0;display:block\" srcdoc=\"{escaped}\"></iframe>\n")
    };
    let frames: String = WIDTHS.into_iter().map(frame).collect();
    format!("<!doctype html><meta charset=\"utf-8\"><title>frames</title>\n{frames}<pre id=\"report\"></pre><script>\n{CHECK}</script>\n")
}

/// The script's report, taken from the document that the browser returns.
fn report(dom: &str) -> Result<Value, Failure> {
    let nothing = || Failure::new("the browser ran no script of the page of frames");
    let (_, rest) = dom.split_once("<pre id=\"report\">").ok_or_else(nothing)?;
    let (text, _) = rest.split_once("</pre>").ok_or_else(nothing)?;
    let text = text.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&");
    serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("the page of frames reported `{text}`: {error}")))
}

/// The faults, a line each.
fn faults(report: &Value, widths: &[u32]) -> Result<Vec<String>, Failure> {
    let unexpected = || Failure::new(format!("the page of frames reported {report}"));
    let frames = report.as_array().filter(|frames| frames.len() == widths.len()).ok_or_else(unexpected)?;
    let mut faults = Vec::new();
    for (frame, width) in frames.iter().zip(widths) {
        if frame["width"].as_u64() != Some(u64::from(*width))
            || frame["figures"].as_u64().is_none_or(|count| count == 0)
        {
            return Err(unexpected());
        }
        let list = frame["faults"].as_array().ok_or_else(unexpected)?;
        faults.extend(list.iter().map(|fault| format!("  at {width} px: {}", fault.as_str().unwrap_or("?"))));
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn faults_are_read_from_the_browsers_report() {
        let dom = "<body><pre id=\"report\">[{\"width\":360,\"figures\":2,\"faults\":[\"a &lt;b&gt; &amp; c\"]}]</pre></body>";
        let seen = report(dom).unwrap();
        assert_eq!(faults(&seen, &[360]).unwrap(), ["  at 360 px: a <b> & c"]);
        assert!(faults(&json!([{"width": 360, "figures": 3, "faults": []}]), &[360]).unwrap().is_empty());
    }

    #[test]
    fn a_page_that_was_not_checked_is_a_failure() {
        assert!(report("<body></body>").is_err());
        assert!(report("<pre id=\"report\"></pre>").is_err());
        let good = json!({"width": 360, "figures": 1, "faults": []});
        assert!(faults(&json!([good]), &[360, 390]).is_err(), "one frame of two");
        assert!(
            faults(&json!([{"width": 500, "figures": 1, "faults": []}]), &[360]).is_err(),
            "another width"
        );
        assert!(
            faults(&json!([{"width": 360, "figures": 0, "faults": []}]), &[360]).is_err(),
            "nothing to see"
        );
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
            WIDTHS.len()
        );
    }
}
