//! The paper's figures after its change are compared with those of the proposed mechanism, even if others were run too,
//! in any order.

use std::fs;

use crate::common::{printed, Folder};

/// Runs `tlb-flush2` on `milan-72` and returns its output and the page.
fn run(mechanisms: &str, more: &[&str]) -> (String, String) {
    let folder = Folder::new();
    let page = folder.file("page.html");
    let run = ["tlb-flush2", "--machine", "milan-72", "--set", "lru_drain=batched", "--scale", "0.0002"];
    let more = [&["--repeats", "1", "--mechanism", mechanisms, "--html", &page], more].concat();
    let text = printed(&[&run[..], &more].concat());
    (text, fs::read_to_string(&page).expect("a page"))
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
    assert!(page.contains(">tuned</td>"), "{page}");
    // The row in the experiment's own table, and the bars of the page.
    let row = |text: &str| {
        let mut lines = text.lines().skip_while(|line| !line.starts_with("operations per second"));
        let line = lines.find(|line| line.starts_with("  broadcast ")).expect("a row");
        line.split_whitespace().rev().nth(1).expect("the difference of the ratios").to_owned()
    };
    assert_eq!(row(&among), row(&alone), "{among}");
    // Other mechanisms have pale bars, and rows without a label.
    let bar = |kind, mechanism| page.contains(&format!("class=\"{kind} {mechanism}\" x="));
    assert!(bar("tuned", "broadcast") && bar("other", "lazy") && bar("other", "all"), "{page}");
    let labels = |label| page.matches(&format!("<td class=\"word\">{label}</td>")).count();
    assert_eq!((labels("lazy"), labels("tuned"), labels("")), (1, 1, 2), "{page}");
    // The paper's line has the name of the proposed mechanism.
    let (_, page) = run("batched,lazy,broadcast", &["--threads", "1,4"]);
    assert!(page.contains("broadcast, published") && !page.contains("lazy, published"));
}

#[test]
fn another_mechanism_does_not_predict_the_papers_figure() {
    let (text, page) = run("batched,all", &["--threads", "4"]);
    assert_eq!(ours(&text)[2], "all", "{text}");
    assert!(text.contains(" median published  ours\n"), "nothing differs from the paper: {text}");
    assert!(page.contains("class=\"other all\" x=") && page.contains("A mechanism's name"));
    let (_, page) = run("batched,all", &["--threads", "1,4"]);
    assert!(page.contains("broadcast, published") && !page.contains("all, published"));
}

#[test]
fn a_machine_of_another_size_than_the_papers_has_no_published_figures() {
    let (text, page) = run("batched,broadcast", &["--cpus", "8", "--threads", "4,8"]);
    for text in [text, page] {
        assert!(text.contains("No paper measured this machine"), "{text}");
        // The paper's 644 thousand loops per second, and the basis of ours.
        assert!(!text.contains("644k") && !text.contains("'tuned"), "{text}");
    }
}
