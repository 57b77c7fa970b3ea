//! The names of functions beside the addresses in the report of a failure.

use std::fs;
use std::path::Path;

use object::{Object, ObjectSection, ObjectSymbol, SectionKind};
use rustc_demangle::demangle;

use super::build::Images;

/// The words before an address of code. An address after `at` may also be one of data, where no function is.
const CODE: [&str; 4] = ["rip", "pc", "x30", "at"];

/// The symbols of the kernel and its programs by their addresses, with the names of functions. A symbol reaches to the
/// next one, and the last of a section to its end, where there is a symbol with an empty name.
#[derive(Debug)]
pub(super) struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Reads them from the images. An image that cannot be read has none.
    pub(super) fn read(images: &Images) -> Self {
        let images = [&images.kernel, &images.programs].into_iter();
        let mut symbols: Vec<_> = images.filter_map(|image| symbols(image)).flatten().collect();
        symbols.sort();
        Self(symbols)
    }

    /// The address of some function.
    #[cfg(test)]
    pub(super) fn first(&self) -> Option<u64> {
        Some(self.0.iter().find(|(_, name)| !name.is_empty())?.0)
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
        let after = self.0.partition_point(|(start, _)| *start <= address);
        let (start, name) = self.0.get(after.checked_sub(1)?)?;
        (!name.is_empty()).then(|| format!(" <{name}+{:#x}>", address - start))
    }
}

/// The symbols of an image.
fn symbols(image: &Path) -> Option<Vec<(u64, String)>> {
    let bytes = fs::read(image).ok()?;
    let file = object::File::parse(&*bytes).ok()?;
    let code = || file.sections().filter(|section| section.kind() == SectionKind::Text);
    let is_code =
        |at| code().any(|section| (section.address()..section.address() + section.size()).contains(&at));
    let functions = file.symbols().filter(|symbol| symbol.is_definition() && is_code(symbol.address()));
    let name = |symbol: object::Symbol<'_, '_>| {
        symbol.name().map_or(String::new(), |name| format!("{:#}", demangle(name)))
    };
    let functions = functions.map(|symbol| (symbol.address(), name(symbol)));
    let ends = code().map(|section| (section.address() + section.size(), String::new()));
    Some(functions.chain(ends).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_code_get_their_functions() {
        let symbols = Symbols(vec![
            (0x20_0000, "programs::run".to_owned()),
            (0x20_0100, String::new()),
            (0xffff_ffff_8000_0000, "kernel::start".to_owned()),
        ]);
        #[rustfmt::skip]
        let lines = [
            ("rip 0x200004 cs 0x23", "rip 0x200004 <programs::run+0x4> cs 0x23"),
            ("pc 0xffffffff8000003f sp 0x1", "pc 0xffffffff8000003f <kernel::start+0x3f> sp 0x1"),
            ("x29 0x200000 x30 0x200000", "x29 0x200000 x30 0x200000 <programs::run+0x0>"),
            ("a load from 0x10 at 0x2000ff: nothing", "a load from 0x10 at 0x2000ff <programs::run+0xff>: nothing"),
        ];
        for (line, expected) in lines {
            assert_eq!(symbols.explain(line), expected);
        }
        for other in [
            "",
            "rax 0x200004  rbx 0x200004 ",
            "rip 0x200100 beyond the function",
            "rip 0x1fffff before any",
            "at 0x1400038100: data",
            "at once",
            "rip",
        ] {
            assert_eq!(symbols.explain(other), other);
        }
    }

    #[test]
    fn the_functions_of_an_image_are_found() {
        let own = std::env::current_exe().unwrap();
        let symbols = Symbols::read(&Images { kernel: own, programs: "no-such-image".into() });
        let this = "the_functions_of_an_image_are_found";
        let is_this = |(_, name): &&(u64, String)| name.ends_with(this);
        let (start, _) = symbols.0.iter().find(is_this).expect("this function");
        let explained = symbols.explain(&format!("rip {:#x}", start + 1));
        assert!(explained.ends_with(&format!("{this}+0x1>")), "{explained}");
    }
}
