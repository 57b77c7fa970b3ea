//! Nothing that removes a guard is in a normal build's machine code.

use std::fs;
use std::path::Path;

use crate::failure::{self, Failure};
use crate::workspace::Workspace;

/// Words that no normal build may contain.
const WORDS: [&str; 2] = ["sabotage", "remove_guard"];
/// The mark of every build with the cfg that asks for a guard: a part of the symbol of `sabotage::Removed::stands`.
const SYMBOL: &str = "sabotage7Removed6stands";

/// Builds a program that uses the engine, normally and with the cfg, and looks at both: the second build shows that
/// the look at the first can fail.
pub(crate) fn check(workspace: &Workspace) -> Result<(), Failure> {
    const BUILD: &str = "build --release --package ceasefire --example costs";
    let program = |target: &Path| target.join("release/examples/costs");
    failure::run(&mut workspace.cargo(BUILD))?;
    failure::run(&mut workspace.cargo_sabotaged(BUILD))?;
    let (normal, sabotaged) = (program(&workspace.target), program(&workspace.sabotaged()));
    let program = read(&normal)?;
    if let Some(word) = WORDS.into_iter().find(|word| contains(&program, word)) {
        return Err(Failure::new(format!("{}: `{word}` is in a normal build", normal.display())));
    }
    if !contains(&read(&sabotaged)?, SYMBOL) {
        return Err(Failure::new(format!(
            "{}: built with the cfg, and `{SYMBOL}` is not in it",
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
        let program = b"\x7fELF_ZN9ceasefire8sabotage7Removed6stands17hE";
        assert!(contains(program, SYMBOL) && contains(program, WORDS[0]) && !contains(program, WORDS[1]));
    }
}
