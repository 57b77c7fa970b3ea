//! The mutants that survive for a known reason.
//!
//! A mutant that behaves as the original is explained beside the code, in the comment above the changed line:
//!
//! ```text
//! // Equivalent mutant `replace < with <=`: a store of the same value changes nothing.
//! ```
//!
//! Other survivors are listed in the crate's `mutants.txt`, one a line, without line and column.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::mutant::Mutant;
use crate::failure::Failure;
use crate::workspace::Workspace;

/// How an explanation beside the code begins. The change follows in backticks, then the reason.
const MARK: &str = "// Equivalent mutant `";

/// An explanation in a comment.
#[derive(Debug, PartialEq, Eq)]
struct Comment {
    file: String,
    /// The line of the comment.
    at: usize,
    /// The first line of code below it.
    line: usize,
    change: String,
}

impl Comment {
    fn explains(&self, mutant: &Mutant) -> bool {
        // In a list the function follows the change.
        let is_change = mutant
            .change
            .strip_prefix(&self.change)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(" in "));
        mutant.file == self.file && mutant.line == self.line && is_change
    }
}

#[derive(Debug, Default)]
pub(crate) struct Explained {
    comments: Vec<Comment>,
    /// The file of the list, and how often each mutant is in it.
    list: String,
    listed: BTreeMap<String, usize>,
}

impl Explained {
    /// Reads the sources and the list of the crate in `folder`.
    pub(crate) fn read(workspace: &Workspace, folder: &str) -> Result<Self, Failure> {
        let read = |path: &Path| {
            fs::read_to_string(workspace.root.join(path))
                .map_err(|error| Failure::new(format!("{}: {error}", path.display())))
        };
        let mut explained = Self { list: format!("{folder}/mutants.txt"), ..Self::default() };
        for path in workspace.files()? {
            if path == Path::new(&explained.list) {
                explained.listed = listed(&read(&path)?);
            } else if path.starts_with(format!("{folder}/src")) {
                explained.comments.extend(comments(&path.display().to_string(), &read(&path)?)?);
            }
        }
        Ok(explained)
    }

    pub(crate) fn count(&self) -> usize {
        self.comments.len() + self.listed.values().sum::<usize>()
    }

    /// Fails if an explanation is of no mutant.
    pub(crate) fn exist_in(&self, mutants: &[Mutant]) -> Result<(), Failure> {
        let there = tally(mutants);
        let gone =
            self.comments.iter().filter(|comment| !mutants.iter().any(|mutant| comment.explains(mutant)));
        let gone = gone.map(|comment| {
            format!(
                "{}:{}: line {} has no mutant `{}`",
                comment.file, comment.at, comment.line, comment.change
            )
        });
        let mut wrong: Vec<String> = gone.collect();
        for (mutant, &count) in &self.listed {
            let of = there.get(mutant).copied().unwrap_or_default();
            if of < count {
                wrong.push(format!("{} has {count} of `{mutant}`, and the sources have {of}", self.list));
            }
        }
        fail(&wrong)
    }

    /// Fails if a survivor has no explanation, or if an explained mutant was tested and is no survivor.
    pub(crate) fn compare(&self, tested: &[Mutant], survivors: &[Mutant]) -> Result<(), Failure> {
        let mut wrong = Vec::new();
        for comment in &self.comments {
            let is_among = |mutants: &[Mutant]| mutants.iter().any(|mutant| comment.explains(mutant));
            if is_among(tested) && !is_among(survivors) {
                wrong.push(format!("{}:{}: a test notices `{}`", comment.file, comment.at, comment.change));
            }
        }
        let open =
            survivors.iter().filter(|mutant| !self.comments.iter().any(|comment| comment.explains(mutant)));
        let open: Vec<Mutant> = open.cloned().collect();
        let (tested, survived) = (tally(tested), tally(&open));
        for (mutant, &count) in &survived {
            let listed = self.listed.get(mutant).copied().unwrap_or_default();
            if listed < count {
                wrong.push(format!(
                    "{mutant}: survives {count} times, and {} has it {listed} times",
                    self.list
                ));
            }
        }
        // Several mutants of one function may be alike, and a shard may hold some of them.
        for mutant in self.listed.keys().filter(|mutant| tested.contains_key(*mutant)) {
            if !survived.contains_key(mutant) {
                wrong.push(format!("{}: a test notices `{mutant}`", self.list));
            }
        }
        fail(&wrong)
    }
}

/// The explanations in the comments of one source.
fn comments(file: &str, source: &str) -> Result<Vec<Comment>, Failure> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let marked = lines.iter().enumerate().filter_map(|(at, line)| Some((at, line.strip_prefix(MARK)?)));
    let comment = |(at, text): (usize, &str)| {
        let below = lines[at..].iter().take_while(|line| line.starts_with("//")).count();
        let Some((change, _)) = text.split_once("`: ") else {
            return Err(Failure::new(format!(
                "{file}:{}: after the change in backticks come `: ` and a reason",
                at + 1
            )));
        };
        Ok(Comment { file: file.to_owned(), at: at + 1, line: at + below + 1, change: change.to_owned() })
    };
    marked.map(comment).collect()
}

/// The mutants in a list, and how often each is there.
fn listed(list: &str) -> BTreeMap<String, usize> {
    let mut listed = BTreeMap::new();
    for line in list.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        *listed.entry(line.to_owned()).or_default() += 1;
    }
    listed
}

fn tally(mutants: &[Mutant]) -> BTreeMap<String, usize> {
    let mut tally = BTreeMap::new();
    for mutant in mutants {
        *tally.entry(mutant.lasting()).or_default() += 1;
    }
    tally
}

fn fail(wrong: &[String]) -> Result<(), Failure> {
    match wrong {
        [] => Ok(()),
        wrong => Err(Failure::new(format!("mutants:\n{}", wrong.join("\n")))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::mutant::parse;

    const SOURCE: &str = "\
fn f(a: u8) -> bool {
    // It is small.
    // Equivalent mutant `replace < with <=`: a is never 3.
    a < 3
}
";

    fn explained(list: &str) -> Explained {
        Explained {
            comments: comments("a.rs", SOURCE).unwrap(),
            list: "list".to_owned(),
            listed: listed(list),
        }
    }

    fn mutants(list: &str) -> Vec<Mutant> {
        parse(list).unwrap()
    }

    #[test]
    fn a_comment_explains_the_mutant_of_the_line_below_alone() {
        let comments = comments("a.rs", SOURCE).unwrap();
        let explains = |name: &str| comments[0].explains(&mutants(name)[0]);
        assert!(explains("a.rs:4:7: replace < with <= in f"));
        for other in [
            "a.rs:5:7: replace < with <= in f",
            "a.rs:4:7: replace < with == in f",
            "b.rs:4:7: replace < with <= in f",
        ] {
            assert!(!explains(other), "{other}");
        }
        assert!(super::comments("a.rs", "// Equivalent mutant `replace < with <=`\n").is_err());
    }

    #[test]
    fn an_explanation_of_no_mutant_is_refused() {
        let here = mutants("a.rs:4:7: replace < with <= in f\na.rs:9:1: x\n");
        explained("a.rs: x\n").exist_in(&here).unwrap();
        explained("").exist_in(&here[1..]).unwrap_err();
        explained("a.rs: x\na.rs: x\n").exist_in(&here).unwrap_err();
    }

    #[test]
    fn survivors_and_explanations_must_be_the_same() {
        let equivalent = "a.rs:4:7: replace < with <= in f\n";
        let all = mutants(&format!("{equivalent}a.rs:8:1: x\na.rs:9:1: x\n"));
        let survive = |list: &str, survivors: &str| {
            explained(list).compare(&all, &mutants(survivors)).map_err(|failure| failure.to_string())
        };
        survive("", equivalent).unwrap();
        survive("# list\na.rs: x\n", &format!("{equivalent}a.rs:9:1: x\n")).unwrap();
        let unexplained =
            survive("a.rs: x\n", &format!("{equivalent}a.rs:8:1: x\na.rs:9:1: x\n")).unwrap_err();
        assert!(unexplained.contains("a.rs: x: survives 2 times, and list has it 1 times"), "{unexplained}");
        let noticed = survive("a.rs: x\n", "").unwrap_err();
        assert!(noticed.contains("a.rs:3: a test notices `replace < with <=`"), "{noticed}");
        assert!(noticed.contains("list: a test notices `a.rs: x`"), "{noticed}");
    }

    #[test]
    fn what_a_shard_leaves_out_needs_no_survivor() {
        explained("a.rs: x\n").compare(&[], &[]).unwrap();
    }
}
