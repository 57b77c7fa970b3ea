//! The names of a kernel's functions, by their addresses.

use std::fs;
use std::path::Path;

use object::{Object as _, ObjectSymbol as _, SymbolKind};

use crate::failure::Failure;

/// Functions in the order of their addresses.
#[derive(Debug, Default)]
pub(super) struct Symbols(Vec<(u64, String)>);

impl Symbols {
    /// Reads an ELF file, or lines of an address, a kind and a name.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let wrong = |what: &dyn std::fmt::Display| Failure::Input(format!("{}: {what}", path.display()));
        let bytes = fs::read(path).map_err(|error| wrong(&error))?;
        let mut all: Vec<(u64, String)> = if bytes.starts_with(b"\x7fELF") {
            let file = object::File::parse(&*bytes).map_err(|error| wrong(&error))?;
            let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
            functions.filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?.to_owned()))).collect()
        } else {
            String::from_utf8_lossy(&bytes).lines().filter_map(line).collect()
        };
        // Debian's System.map has one line, with an address that no function has; kallsyms shows zeros to users.
        all.retain(|&(address, _)| address != 0 && address != u64::MAX);
        if all.is_empty() {
            return Err(wrong(
                &"it names no function: a vmlinux, a System.map or /proc/kallsyms, read as root, does",
            ));
        }
        all.sort();
        Ok(Self(all))
    }

    /// An address, with the function in which it is.
    pub(super) fn name(&self, address: u64) -> String {
        let after = self.0.partition_point(|(start, _)| *start <= address);
        // Programs lie far below the kernel's first function, and nothing is far behind its last.
        match after.checked_sub(1).map(|at| &self.0[at]).filter(|(start, _)| address - start < 1 << 20) {
            Some((start, name)) => format!("{address:#x} ({name}+{:#x})", address - start),
            None => format!("{address:#x}"),
        }
    }
}

/// A line of System.map or /proc/kallsyms, if it is of code.
fn line(line: &str) -> Option<(u64, String)> {
    let mut words = line.split_ascii_whitespace();
    let (address, kind, name) = (words.next()?, words.next()?, words.next()?);
    let is_code = matches!(kind, "t" | "T" | "w" | "W");
    is_code.then_some((u64::from_str_radix(address, 16).ok()?, name.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_named_by_the_function_before_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("map");
        fs::write(&path, "ffffffff81000000 T _text\nffffffff81000100 t flush\nffffffff81000200 D data\n")
            .expect("a file");
        let symbols = Symbols::read(&path).expect("two functions");
        assert_eq!(symbols.name(0xffff_ffff_8100_0104), "0xffffffff81000104 (flush+0x4)");
        assert_eq!(
            (symbols.name(0x1000), symbols.name(u64::MAX)),
            ("0x1000".into(), format!("{:#x}", u64::MAX))
        );
        fs::write(&path, "ffffffffffffffff B The real System.map is elsewhere\n").expect("a file");
        assert!(Symbols::read(&path).is_err());
    }

    #[test]
    fn a_program_has_symbols() {
        let own = std::env::current_exe().expect("a path");
        assert!(Symbols::read(&own).is_ok());
    }
}
