//! The names of functions beside the addresses in the report of a failure.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use rustc_demangle::demangle;

use super::build::Images;

/// The words before an address of code. An address after `at` may also be one of data, where no function is.
const CODE: [&str; 4] = ["rip", "pc", "x30", "at"];

/// A function of an image.
#[derive(Debug)]
struct Function {
    start: u64,
    end: u64,
    name: String,
}

/// The functions of the kernel and its programs, by their addresses.
#[derive(Debug)]
pub(super) struct Symbols(Vec<Function>);

impl Symbols {
    /// Reads them from the images. An image that cannot be read has none.
    pub(super) fn read(images: &Images) -> Self {
        let images = [&images.kernel, &images.programs].into_iter();
        let mut functions: Vec<Function> = images.filter_map(|image| functions(image)).flatten().collect();
        functions.sort_by_key(|function| function.start);
        Self(functions)
    }

    /// The address of some function.
    #[cfg(test)]
    pub(super) fn first(&self) -> Option<u64> {
        Some(self.0.first()?.start)
    }

    /// The line with the function and the offset in it after each address of code.
    pub(super) fn explain(&self, line: &str) -> String {
        let mut explained = String::with_capacity(line.len());
        let mut before = "";
        for piece in line.split_inclusive(' ') {
            let word = piece.trim_end_matches([' ', ':', ',', ';']);
            explained.push_str(word);
            if let Some(name) = CODE.contains(&before).then(|| self.name(word)).flatten() {
                explained.push_str(&name);
            }
            explained.push_str(&piece[word.len()..]);
            before = word;
        }
        explained
    }

    /// The function at an address, and the offset in it.
    fn name(&self, word: &str) -> Option<String> {
        let address = u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
        let after = self.0.partition_point(|function| function.start <= address);
        let Function { start, end, name } = self.0.get(after.checked_sub(1)?)?;
        (address < *end).then(|| format!(" <{name}+{:#x}>", address - start))
    }
}

/// The functions of an image.
fn functions(image: &Path) -> Option<Vec<Function>> {
    let bytes = fs::read(image).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let code =
        |index| file.section_by_index(index).ok().filter(|section| section.kind() == SectionKind::Text);
    let symbols = file.symbols().filter_map(|symbol| {
        let section = code(symbol.section_index()?)?;
        Some((symbol.address(), symbol.size(), section.address() + section.size(), symbol.name().ok()?))
    });
    let mut symbols: Vec<_> = symbols.filter(|(start, .., end, _)| start < end).collect();
    symbols.sort_unstable();
    let next = symbols.iter().skip(1).map(|&(start, ..)| start).chain([u64::MAX]);
    let functions = symbols.iter().zip(next).map(|(&(start, size, section, name), next)| {
        // A function in assembly has no size: it reaches to the next symbol of its section.
        let end = if size == 0 { next.min(section) } else { start + size };
        Function { start, end, name: format!("{:#}", demangle(name)) }
    });
    Some(functions.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn symbols() -> Symbols {
        let function = |start, end, name: &str| Function { start, end, name: name.to_owned() };
        Symbols(vec![
            function(0x20_0000, 0x20_0100, "programs::run"),
            function(0xffff_ffff_8000_0000, 0xffff_ffff_8000_0040, "kernel::start"),
        ])
    }

    #[test]
    fn addresses_of_code_get_their_functions() {
        for (line, expected) in [
            ("rip 0x200004 cs 0x23", "rip 0x200004 <programs::run+0x4> cs 0x23"),
            ("pc 0xffffffff8000003f sp 0x1", "pc 0xffffffff8000003f <kernel::start+0x3f> sp 0x1"),
            ("x29 0x200000 x30 0x200000", "x29 0x200000 x30 0x200000 <programs::run+0x0>"),
            (
                "a program's load from 0x10 at 0x2000ff: nothing is mapped",
                "a program's load from 0x10 at 0x2000ff <programs::run+0xff>: nothing is mapped",
            ),
        ] {
            assert_eq!(symbols().explain(line), expected);
        }
    }

    #[test]
    fn other_words_stay_as_they_are() {
        for line in [
            "",
            "rax 0x200004  rbx 0x200004 ",
            "rip 0x200100 beyond the function",
            "rip 0x1fffff before any",
            "at 0x1400038100: data",
            "at once",
            "rip",
        ] {
            assert_eq!(symbols().explain(line), line);
        }
    }

    #[test]
    fn the_functions_of_an_image_are_found() {
        let own = std::env::current_exe().unwrap();
        let symbols = Symbols::read(&Images { kernel: own, programs: "no-such-image".into() });
        let is_this = |function: &&Function| function.name.ends_with("the_functions_of_an_image_are_found");
        let this = symbols.0.iter().find(is_this).expect("this function");
        let explained = symbols.explain(&format!("rip {:#x}", this.start + 1));
        assert!(explained.ends_with("the_functions_of_an_image_are_found+0x1>"), "{explained}");
    }
}
