//! Nothing that removes a guard is in a normal build's machine code.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection};

use crate::failure::{self, Failure};
use crate::workspace::Workspace;

/// Words that no normal build may contain.
const WORDS: [&str; 2] = ["sabotage", "remove_guard"];

/// A program that uses a crate with guards.
struct User {
    package: &'static str,
    example: &'static str,
    /// The profile of the normal build.
    normal: Profile,
    /// The profile of the build with the cfg.
    sabotaged: Profile,
    /// The mark of every build with the cfg that asks for a guard of the crate: a part of the symbol of the crate's own
    /// `guarded`, in its module `sabotage`.
    symbol: &'static str,
}

/// An optimised profile, or the one of tests: its option, and its folder.
type Profile = (&'static str, &'static str);

const RELEASE: Profile = ("--release", "release");
const TESTS: Profile = ("", "debug");

const USERS: [User; 2] = [
    User {
        package: "ceasefire",
        example: "costs",
        normal: RELEASE,
        sabotaged: RELEASE,
        symbol: "ceasefire..Engine$LT$P$GT$$GT$7guarded",
    },
    User {
        package: "ceasefire-machine",
        example: "own_workload",
        normal: TESTS,
        sabotaged: TESTS,
        symbol: "ceasefire_memory..Memory$LT$P$GT$$GT$7guarded",
    },
];

/// Builds programs that use the engine and the memory manager, normally and with the cfg, and looks at both: the second
/// build shows that the look at the first can fail.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    USERS.iter().try_for_each(|user| check_user(workspace, user))
}

fn check_user(workspace: &Workspace, user: &User) -> Result<(), Failure> {
    let User { package, example, normal, sabotaged, symbol } = user;
    let build = |of: &str, option: &str| format!("build {option} {of} --example {example}");
    let alone = format!("--package {package}");
    // With the features that dependencies have where the tests are built: they have built it then.
    let of = if *sabotaged == TESTS { "--workspace" } else { &alone };
    failure::run(&mut workspace.cargo(&build(&alone, normal.0)))?;
    failure::run(&mut workspace.cargo_sabotaged(&build(of, sabotaged.0)))?;
    let program = |target: &Path, profile: &str| target.join(profile).join("examples").join(example);
    let normal = program(&workspace.target, normal.1);
    let sabotaged = program(&workspace.sabotaged(), sabotaged.1);
    let program = read(&normal)?;
    let parts = parts(&normal, &program)?;
    let is_in = |word: &&str| parts.iter().any(|part| contains(part, word));
    if let Some(word) = WORDS.into_iter().find(is_in) {
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

/// The sections of a program that are not for debuggers alone: those name the file of a constant that was inlined.
fn parts<'a>(name: &Path, program: &'a [u8]) -> Result<Vec<&'a [u8]>, Failure> {
    let wrong = |error: object::Error| Failure::new(format!("{}: {error}", name.display()));
    let file = object::File::parse(program).map_err(wrong)?;
    let is_kept = |name: &str| !name.starts_with(".debug");
    let kept = file.sections().filter(|section| section.name().is_ok_and(is_kept));
    kept.map(|section| section.data().map_err(wrong)).collect()
}

fn contains(program: &[u8], word: &str) -> bool {
    program.windows(word.len()).any(|bytes| bytes == word.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_programs_symbols_are_among_its_parts() {
        let own = std::env::current_exe().unwrap();
        let program = read(&own).unwrap();
        let parts = parts(&own, &program).unwrap();
        assert!(parts.iter().any(|part| contains(part, "a_programs_symbols_are_among_its_parts")));
        assert!(parts.iter().map(|part| part.len()).sum::<usize>() < program.len(), "debuggers have more");
    }

    #[test]
    fn words_are_found_wherever_they_are() {
        let program =
            b"\x7fELF_ZN9ceasefire8sabotage44_$LT$impl$u20$ceasefire..Engine$LT$P$GT$$GT$7guarded17hE";
        assert!(contains(program, USERS[0].symbol) && !contains(program, USERS[1].symbol));
        assert!(contains(program, WORDS[0]) && !contains(program, WORDS[1]));
    }
}
