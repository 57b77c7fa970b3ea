//! The paper's figures after its change are compared with those of the proposed mechanism, even if others were run too,
//! in any order.

use std::fs;

mod common;

use common::ceasefire;

/// Runs `tlb-flush2` on `milan-72` and returns its output and the page.
fn run(mechanisms: &str, more: &[&str]) -> (String, String) {
    let page = std::env::temp_dir().join(format!(
        "ceasefire-{}-{mechanisms}{}.html",
        std::process::id(),
        more.concat()
    ));
    let run =
        ["compare", "tlb-flush2", "--machine", "milan-72", "--lru-drain", "batched", "--scale", "0.0002"];
    let html = ["--mechanism", mechanisms, "--html", page.to_str().expect("UTF-8")];
    let output = ceasefire(&[&run[..], &html, more].concat());
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    let html = fs::read_to_string(&page).expect("a page");
    let _ = fs::remove_file(page);
    (String::from_utf8(output.stdout).expect("UTF-8"), html)
}

/// Three cells of the summary's row: our figure after, our ratio, and the verdict.
fn ours(text: &str) -> [String; 3] {
    let line = text.lines().rfind(|line| line.contains("loops/s")).expect("a row");
    let cells: Vec<&str> = line.split_whitespace().collect();
    let [.., after, ratio, _, is] = &cells[..] else { panic!("{line}") };
    [after, ratio, is].map(|cell| (*cell).to_owned())
}

#[test]
fn the_proposed_mechanism_is_compared_with_the_paper() {
    let four = ["--threads", "4"];
    let (alone, _) = run("batched,broadcast", &four);
    let (among, page) = run("lazy,batched,all,broadcast", &four);
    assert_eq!(ours(&among), ours(&alone), "{among}");
    assert_eq!(ours(&among)[2], "tuned");
    assert!(page.contains(">tuned in sight</td>"), "{page}");
    // The row in the experiment's own table, and the bars of the page.
    let row = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("| operations per second")).expect("a row");
        line.split('|').rev().nth(2).expect("the difference of the ratios").trim().to_owned()
    };
    assert_eq!(row(&among), row(&alone), "{among}");
    assert!(page.contains("<td class=\"word\">broadcast</td>"));
    assert!(!page.contains("<td class=\"word\">lazy</td>") && !page.contains("loops per second, ours"));
    // The paper's line has the name of the proposed mechanism.
    let (_, page) = run("batched,lazy,broadcast", &["--threads", "1,4"]);
    assert!(page.contains("broadcast, published") && !page.contains("lazy, published"));
}

#[test]
fn another_mechanism_does_not_predict_the_papers_figure() {
    let (text, page) = run("batched,all", &["--threads", "4"]);
    assert_eq!(ours(&text)[2], "all", "{text}");
    assert!(text.contains("ours is all"), "{text}");
    assert!(page.contains("loops per second, ours all") && page.contains("A mechanism's name"));
    let (_, page) = run("batched,all", &["--threads", "1,4"]);
    assert!(page.contains("broadcast, published") && !page.contains("all, published"));
}

#[test]
fn a_machine_of_another_size_than_the_papers_is_noted() {
    let (text, page) = run("batched,broadcast", &["--cpus", "8", "--threads", "4,8"]);
    for text in [text, page] {
        assert!(text.contains("The published figures are for 72 CPUs, not 8."), "{text}");
        // The fitted figure, for one thread, is not shown here.
        assert!(!text.contains("'fitted'"), "{text}");
    }
}
