//! Nothing that removes a guard is in a normal build's machine code.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection};

use crate::failure::{self, Failure};
use crate::workspace::{Variant, Workspace};

/// Words that no normal build may contain.
const WORDS: [&str; 2] = ["sabotage", "remove_guard"];

/// The marks of a build with the cfg: a part of the symbol of each crate's own `guarded`, in its module `sabotage`.
const SYMBOLS: [&str; 2] =
    ["ceasefire..Engine$LT$P$GT$$GT$7guarded", "ceasefire_memory..Memory$LT$P$GT$$GT$7guarded"];

/// A program that uses both crates with guards.
const EXAMPLE: &str = "own_workload";

/// Builds the program with the cfg and without, and looks at both: the first shows that the look at the second can fail.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    // With the features that dependencies have where the tests are built.
    let build = format!("build --workspace --example {EXAMPLE}");
    let program = workspace.tested_example(EXAMPLE);
    failure::run(&mut workspace.variant(Variant::Sabotage, &build))?;
    let sabotaged = read(&program)?;
    if let Some(symbol) = SYMBOLS.into_iter().find(|symbol| !contains(&sabotaged, symbol)) {
        let file = program.display();
        return Err(Failure::new(format!("{file}: built with the cfg, and `{symbol}` is not in it")));
    }
    failure::run(&mut workspace.cargo(&build))?;
    let normal = read(&program)?;
    let parts = parts(&program, &normal)?;
    let is_in = |word: &&str| parts.iter().any(|part| contains(part, word));
    match WORDS.into_iter().find(is_in) {
        Some(word) => Err(Failure::new(format!("{}: `{word}` is in a normal build", program.display()))),
        None => Ok(()),
    }
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
        assert!(contains(program, SYMBOLS[0]) && !contains(program, SYMBOLS[1]));
        assert!(contains(program, WORDS[0]) && !contains(program, WORDS[1]));
    }
}
