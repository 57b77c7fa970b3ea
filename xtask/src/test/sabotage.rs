//! Nothing that removes a guard is in a normal build's machine code.

use std::fs;
use std::path::Path;

use crate::failure::{self, Failure};
use crate::workspace::Workspace;

/// Words that no normal build may contain.
const WORDS: [&str; 2] = ["sabotage", "remove_guard"];

/// A program that uses a crate with guards.
struct User {
    package: &'static str,
    example: &'static str,
    /// How it is built with the cfg: the options, and the folder of that profile.
    sabotaged: (&'static str, &'static str),
    /// The mark of every build with the cfg that asks for a guard of the crate: a part of the symbol of the crate's own
    /// `guarded`, in its module `sabotage`.
    symbol: &'static str,
}

const USERS: [User; 2] = [
    User {
        package: "ceasefire",
        example: "costs",
        sabotaged: ("--release", "release"),
        symbol: "ceasefire..Engine$LT$P$GT$$GT$7guarded",
    },
    User {
        package: "ceasefire-experiments",
        example: "speed",
        // The tests have built this one.
        sabotaged: ("", "debug"),
        symbol: "ceasefire_memory..Memory$LT$P$GT$$GT$7guarded",
    },
];

/// Builds programs that use the engine and the memory manager, normally and with the cfg, and looks at both: the second
/// build shows that the look at the first can fail.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    USERS.iter().try_for_each(|user| check_user(workspace, user))
}

fn check_user(workspace: &Workspace, user: &User) -> Result<(), Failure> {
    let User { package, example, sabotaged: (options, profile), symbol } = user;
    let normal = workspace.example(package, example)?;
    failure::run(
        &mut workspace.cargo_sabotaged(&format!("build {options} --package {package} --example {example}")),
    )?;
    let sabotaged = workspace.sabotaged().join(profile).join("examples").join(example);
    let program = read(&normal)?;
    if let Some(word) = WORDS.into_iter().find(|word| contains(&program, word)) {
        return Err(Failure::new(format!("{}: `{word}` is in a normal build", normal.display())));
    }
    if !contains(&read(&sabotaged)?, symbol) {
        return Err(Failure::new(format!(
            "{}: built with the cfg, and `{symbol}` is not in it",
            sabotaged.display()
        )));
    }
    println!("==> no guard can be removed in {}", normal.display());
    Ok(())
}

fn read(file: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(file).map_err(|error| Failure::new(format!("{}: {error}", file.display())))
}

fn contains(program: &[u8], word: &str) -> bool {
    program.windows(word.len()).any(|bytes| bytes == word.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_wherever_they_are() {
        let program =
            b"\x7fELF_ZN9ceasefire8sabotage44_$LT$impl$u20$ceasefire..Engine$LT$P$GT$$GT$7guarded17hE";
        assert!(contains(program, USERS[0].symbol) && !contains(program, USERS[1].symbol));
        assert!(contains(program, WORDS[0]) && !contains(program, WORDS[1]));
    }
}
