//! Functions of a kernel that free frames, as a rule names them.

use ceasefire_linux::kernel::symbols::Symbols;
use ceasefire_sanitizer::arch::ARGUMENTS;
use ceasefire_sanitizer::free::{Count, Free};
use serde::Deserialize;

use super::symbols::fits;

/// A function that frees frames, and how its arguments name them. Arguments are counted from 1.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct FreeRule {
    /// Its name. `*` stands for any letters.
    function: String,
    /// The argument with a word that stands for the first frame, or with the address of what has it.
    argument: usize,
    /// The place of the word in that.
    field: Option<u64>,
    /// The word of frame 0, or several of which one leads to memory. Physical addresses begin with 0.
    #[serde(default)]
    base: Vec<Word>,
    /// The bytes from one frame's word to the next one's.
    bytes: u64,
    /// The argument with the number of frames as a power of two.
    order: Option<usize>,
    /// The argument with their bytes.
    size: Option<usize>,
    /// What a guest needs so that it calls the function.
    needs: Option<String>,
}

/// A word in hexadecimal digits: TOML has none above 2^63.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
struct Word(u64);

impl TryFrom<String> for Word {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let digits = text.strip_prefix("0x").filter(|digits| !digits.starts_with('+'));
        let word = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
        word.map(Self).ok_or_else(|| format!("{text}: it must be 0x and 1 to 16 hexadecimal digits"))
    }
}

/// The bases that a rule may have: they travel in an argument of QEMU.
const BASES: usize = 64;

impl FreeRule {
    pub(super) fn function(&self) -> &String {
        &self.function
    }

    /// Whether its numbers are in their bounds.
    pub(super) fn check(&self) -> Result<(), String> {
        let Self { function, argument, bytes, order, size, .. } = self;
        let mut numbers = [Some(*argument), *order, *size].into_iter().flatten();
        if let Some(number) = numbers.find(|number| !(1..=ARGUMENTS).contains(number)) {
            return Err(format!("{function}: argument {number} is not among the first {ARGUMENTS}"));
        }
        if *bytes == 0 {
            return Err(format!("{function}: bytes must not be 0"));
        }
        if order.is_some() && size.is_some() {
            return Err(format!("{function}: order and size are both given"));
        }
        if self.base.len() > BASES {
            return Err(format!("{function}: {} bases, and at most {BASES} may be", self.base.len()));
        }
        Ok(())
    }

    /// Why a guest may not have called it.
    pub(super) fn unseen(&self, symbols: &Symbols) -> String {
        let name = &self.function;
        match &self.needs {
            _ if self.frees(symbols).next().is_none() => format!("--kernel has no function {name}"),
            Some(needs) => needs.clone(),
            None => format!("{name} was not called"),
        }
    }

    /// The functions of a kernel that have its name.
    pub(super) fn frees<'a>(&'a self, symbols: &'a Symbols) -> impl Iterator<Item = Free> + 'a {
        let functions = symbols.functions().filter(|(_, name)| fits(&self.function, name));
        functions.map(|(function, _)| Free {
            function,
            argument: self.argument - 1,
            field: self.field,
            bases: if self.base.is_empty() { vec![0] } else { self.base.iter().map(|word| word.0).collect() },
            bytes: self.bytes,
            count: self
                .order
                .map(|argument| Count::Order(argument - 1))
                .or(self.size.map(|argument| Count::Bytes(argument - 1))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::rules::parse;
    use super::*;

    #[test]
    fn a_rule_names_functions_and_their_arguments() {
        let rules = parse(
            "[[free]]\nfunction = \"page_free*\"\nargument = 2\nbase = [\"0xffffea0000000000\"]\nbytes = 64\norder = 3\n",
        );
        let symbols = Symbols::of([(16, "page_free"), (32, "page_free.cold"), (48, "other")].into_iter());
        let frees: Vec<_> = rules.expect("a rule").free[0].frees(&symbols).collect();
        let expected = |function| Free {
            function,
            argument: 1,
            field: None,
            bases: vec![0xffff_ea00_0000_0000],
            bytes: 64,
            count: Some(Count::Order(2)),
        };
        assert_eq!(frees, [16, 32].map(expected));
    }

    #[test]
    fn a_rule_must_be_in_its_bounds() {
        for (text, part) in [
            ("argument = 0\nbytes = 64", "argument 0 is not among the first 6"),
            ("argument = 1\nbytes = 64\norder = 7", "argument 7"),
            ("argument = 1\nbytes = 0", "bytes must not be 0"),
            ("argument = 1\nbytes = 1\norder = 1\nsize = 1", "both"),
            ("argument = 1\nbytes = 64\nbase = [\"12\"]", "line 5: 12: it must be 0x"),
            ("argument = 1", "bytes"),
        ] {
            let error = parse(&format!("[[free]]\nfunction = \"f\"\n{text}\n")).expect_err(text);
            assert!(error.contains(part) && !error.contains('\n'), "{error}");
        }
    }
}
