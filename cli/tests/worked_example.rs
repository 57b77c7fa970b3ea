//! The book's worked example, and its chapter on replays: the outputs are what the commands print of the kept recordings.

use crate::common::ceasefire;

/// The chapter's commands on kept recordings, each with the lines of output that follow it.
fn quoted(chapter: &str) -> Vec<(Vec<&str>, Vec<&str>)> {
    let mut blocks = chapter.split("```");
    let mut found = Vec::new();
    // Text and blocks of code take turns.
    blocks.next();
    let code: Vec<&str> = blocks.step_by(2).collect();
    for pair in code.windows(2) {
        let Some(command) = pair[0].strip_prefix("sh\n").and_then(|lines| lines.trim().lines().last()) else {
            continue;
        };
        let words: Vec<&str> = command.split_whitespace().collect();
        if words.first() == Some(&"ceasefire") && command.contains("linux/recordings/") {
            let lines =
                pair[1].lines().skip(1).filter(|line| !line.trim().is_empty() && line.trim() != "...");
            found.push((words[1..].to_vec(), lines.collect()));
        }
    }
    found
}

#[test]
fn the_chapters_quote_what_the_commands_print() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let chapters = ["start/worked-example", "linux/replay"].map(|chapter| {
        let path = format!("{root}/docs/src/{chapter}.md");
        std::fs::read_to_string(path).expect("the chapter")
    });
    let [worked, replays] = chapters.each_ref().map(|chapter| quoted(chapter));
    assert_eq!(worked.len(), 6, "a replay and a diff of each program: {worked:?}");
    assert_eq!(replays.len(), 1, "{replays:?}");
    for (words, lines) in worked.into_iter().chain(replays) {
        let words: Vec<String> = words
            .iter()
            .map(
                |word| {
                    if word.starts_with("linux/") {
                        format!("{root}/{word}")
                    } else {
                        (*word).to_owned()
                    }
                },
            )
            .collect();
        let output = ceasefire(&words.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
        let printed = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(lines.len() >= 2, "{words:?}");
        for line in lines {
            assert!(
                printed.lines().any(|printed| printed == line),
                "{words:?}: '{line}' is not in\n{printed}"
            );
        }
    }
}
