//! The names of a guest kernel's functions, by their addresses.

use std::fs;
use std::path::Path;

use ceasefire_linux::kernel::symbols::Symbols;
use object::{Object as _, ObjectSymbol as _, SymbolKind};

use crate::failure::Failure;

/// Reads an ELF file, or lines of an address, a kind and a name.
pub(super) fn read(path: &Path) -> Result<Symbols, Failure> {
    let wrong = |what: &dyn std::fmt::Display| Failure::Input(format!("{}: {what}", path.display()));
    let bytes = fs::read(path).map_err(|error| wrong(&error))?;
    let symbols = if bytes.starts_with(b"\x7fELF") {
        let file = object::File::parse(&*bytes).map_err(|error| wrong(&error))?;
        let functions = file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text);
        Symbols::of(functions.filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?))))
    } else {
        Symbols::parse(&String::from_utf8_lossy(&bytes))
    };
    if symbols.is_empty() {
        return Err(wrong(
            &"it names no function: a vmlinux does, and a guest's /proc/kallsyms, read as root; Debian's System.map is empty",
        ));
    }
    // As programs have them, without the hash that Rust's compiler appends.
    let plain = |name| format!("{:#}", rustc_demangle::demangle(name));
    let named: Vec<_> = symbols.functions().map(|(address, name)| (address, plain(name))).collect();
    Ok(Symbols::of(named.iter().map(|(address, name)| (*address, name.as_str()))))
}

/// The function in which an address lies, and the offset in it.
pub(super) fn function(symbols: &Symbols, address: u64) -> Option<(&str, u64)> {
    // Programs lie far below the kernel's first function, and nothing is far behind its last.
    symbols.find(address).filter(|(_, offset)| *offset < 1 << 20)
}

/// Whether a name fits a pattern in which `*` stands for any letters.
pub(super) fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => name.strip_prefix(start).is_some_and(|name| {
            (0..=name.len()).any(|at| name.is_char_boundary(at) && fits(rest, &name[at..]))
        }),
    }
}

/// An address, with the function in which it is.
pub(crate) fn named(symbols: &Symbols, address: u64) -> String {
    match function(symbols, address) {
        Some((name, offset)) => format!("{address:#x} ({name}+{offset:#x})"),
        None => format!("{address:#x}"),
    }
}

/// The function in which an address is, or the address alone.
pub(crate) fn short(symbols: &Symbols, address: u64) -> String {
    match function(symbols, address) {
        Some((name, offset)) => format!("{name}+{offset:#x}"),
        None => format!("{address:#x}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_patterns() {
        for (pattern, name, expected) in [
            ("zap_pte_range", "zap_pte_range", true),
            ("zap_pte", "zap_pte_range", false),
            ("zap_*", "zap_pte_range", true),
            ("*_range", "zap_pte_range", true),
            ("z*p*e", "zap_pte_range", true),
            ("z*p*x", "zap_pte_range", false),
            ("*", "", true),
        ] {
            assert_eq!(fits(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn addresses_are_named_by_the_function_before_them() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("map");
        fs::write(&path, "ffffffff81000000 T _text\nffffffff81000100 t flush\nffffffff81000200 D data\n")
            .expect("a file");
        let symbols = read(&path).expect("two functions");
        assert_eq!(named(&symbols, 0xffff_ffff_8100_0104), "0xffffffff81000104 (flush+0x4)");
        assert_eq!(
            (named(&symbols, 0x1000), named(&symbols, u64::MAX)),
            ("0x1000".into(), format!("{:#x}", u64::MAX))
        );
        fs::write(&path, "10 T _ZN4core3mem4drop17h0123456789abcdefE\n").expect("a file");
        assert_eq!(short(&read(&path).expect("a function"), 0x12), "core::mem::drop+0x2");
        fs::write(&path, "ffffffffffffffff B The real System.map is elsewhere\n").expect("a file");
        assert!(read(&path).is_err());
    }

    #[test]
    fn a_program_has_symbols() {
        let own = std::env::current_exe().expect("a path");
        assert!(read(&own).is_ok());
    }
}
