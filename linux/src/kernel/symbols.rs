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

    /// Reads the text of `/proc/kallsyms`.
    pub fn parse(text: &str) -> Self {
        let symbol = |line: &'_ str| -> Option<(u64, usize, usize)> {
            let mut words = line.split_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let kind = words.next()?;
            let name = words.next()?;
            let start = name.as_ptr() as usize - text.as_ptr() as usize;
            (matches!(kind, "t" | "T" | "w" | "W") && address != 0).then_some((address, start, name.len()))
        };
        let mut found: Vec<_> = text.lines().filter_map(symbol).collect();
        found.sort_by_key(|(address, ..)| *address);
        found.dedup_by_key(|(address, ..)| *address);
        let mut symbols = Self::default();
        for (address, start, length) in found {
            symbols.addresses.push(address);
            symbols.names.push(symbols.text.len() as u32);
            symbols.text.push_str(&text[start..start + length]);
        }
        symbols
    }

    /// Whether no function is known.
    pub fn is_empty(&self) -> bool {
        self.addresses.is_empty()
    }

    /// The name of the function in which an address lies; "unknown" if it lies before all.
    pub fn name(&self, address: u64) -> &str {
        let after = self.addresses.partition_point(|first| *first <= address);
        let Some(at) = after.checked_sub(1) else { return "unknown" };
        let end = self.names.get(after).map_or(self.text.len(), |end| *end as usize);
        &self.text[self.names[at] as usize..end]
    }

    /// The address of a function.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.addresses.iter().copied().find(|address| self.name(*address) == name)
    }
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
        assert_eq!((symbols.address("one"), symbols.address("data")), (Some(0x10), None));
    }

    #[test]
    fn hidden_addresses_give_no_function() {
        assert!(Symbols::parse("0000000000000000 T one\n0000000000000000 t two\n").is_empty());
        assert_eq!(Symbols::default().name(4), "unknown");
    }
}
