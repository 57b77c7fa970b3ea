//! The names of the kernel's functions.

use std::fs;
use std::io;

/// The functions of a kernel, by address.
#[derive(Debug, Default)]
pub struct Symbols {
    /// The first address of each, in order.
    addresses: Vec<u64>,
    /// Where the name of each begins in `text`; that of the next one ends it.
    names: Vec<u32>,
    text: String,
}

impl Symbols {
    /// Reads the functions of the running kernel. They are all absent if it hides its addresses.
    ///
    /// # Errors
    /// If `/proc/kallsyms` cannot be read.
    pub fn of_kernel() -> io::Result<Self> {
        Ok(Self::parse(&fs::read_to_string("/proc/kallsyms")?))
    }

    /// Reads the text of `/proc/kallsyms`, or of a `System.map`.
    pub fn parse(text: &str) -> Self {
        Self::of(text.lines().filter_map(line))
    }

    /// These functions, by their addresses and names. One at address 0 is hidden.
    pub fn of<'a>(functions: impl Iterator<Item = (u64, &'a str)>) -> Self {
        let mut found: Vec<_> = functions.filter(|(address, _)| *address != 0).collect();
        found.sort_by_key(|(address, _)| *address);
        found.dedup_by_key(|(address, _)| *address);
        let mut symbols = Self::default();
        for (address, name) in found {
            symbols.addresses.push(address);
            symbols.names.push(symbols.text.len() as u32);
            symbols.text.push_str(name);
        }
        symbols
    }

    /// Whether no function is known.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The name of the function in which an address lies; "unknown" if it lies before all.
    pub fn name(&self, address: u64) -> &str {
        self.find(address).map_or("unknown", |(name, _)| name)
    }

    /// The function in which an address lies, and the offset in it. `None`: it lies before all.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.addresses.partition_point(|first| *first <= address);
        let at = after.checked_sub(1)?;
        let end = self.names.get(after).map_or(self.text.len(), |end| *end as usize);
        Some((&self.text[self.names[at] as usize..end], address - self.addresses[at]))
    }

    /// The addresses of the first function of the kernel's half and of the last. `None`: there is none.
    pub fn ends(&self) -> Option<(u64, u64)> {
        let programs = self.addresses.partition_point(|address| address >> 63 == 0);
        Some((*self.addresses.get(programs)?, *self.addresses.last()?))
    }

    /// The addresses and the names of all functions.
    pub fn functions(&self) -> impl Iterator<Item = (u64, &str)> {
        self.addresses.iter().map(|address| (*address, self.name(*address)))
    }

    /// The names of all functions.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.functions().map(|(_, name)| name)
    }

    /// The address of a function.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.addresses.iter().copied().find(|address| self.name(*address) == name)
    }
}

/// The address and the name in a line of an address, a kind and a name, if it is of code.
fn line(line: &str) -> Option<(u64, &str)> {
    let mut words = line.split_whitespace();
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    let kind = words.next()?;
    let name = words.next()?;
    matches!(kind, "t" | "T" | "w" | "W").then_some((address, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_last_function_that_begins_before_it() {
        let text = "0000000000000000 A fixed_percpu_data\n0000000000000020 t two [module]\n\
                    0000000000000010 T one\n0000000000000018 d data\nx\n0000000000000020 t alias\n";
        let symbols = Symbols::parse(text);
        let named = [0xf, 0x10, 0x1f, 0x20, u64::MAX].map(|address| symbols.name(address));
        assert_eq!(named, ["unknown", "one", "one", "two", "two"]);
        assert_eq!([0xf, 0x1f].map(|address| symbols.find(address)), [None, Some(("one", 0xf))]);
        assert_eq!((symbols.address("one"), symbols.address("data")), (Some(0x10), None));
        assert_eq!(symbols.ends(), None);
        let text = "10 t one\nffffffff81000000 T two\nffffffff81000010 T three\n";
        assert_eq!(Symbols::parse(text).ends(), Some((0xffff_ffff_8100_0000, 0xffff_ffff_8100_0010)));
    }

    #[test]
    fn hidden_addresses_give_no_function() {
        assert!(Symbols::parse("0000000000000000 T one\n0000000000000000 t two\n").is_empty());
        assert_eq!(Symbols::default().name(4), "unknown");
    }
}
