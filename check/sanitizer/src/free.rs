//! Functions of a kernel that free frames: by which of their arguments, and how.

use std::fmt;
use std::ops::Range;
use std::str::FromStr;

use crate::arch::{Arch, Operands, ARGUMENTS, PAGE};

/// A function that frees frames. Arguments are counted from 0.
///
/// A word stands for the first frame: for frame `n` it is a base and `n` times a number of bytes. A physical address, an
/// address where the kernel has all memory, and that of a record that each frame has in an array are such words.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Free {
    /// Its address.
    pub function: u64,
    /// The argument that is the word, or points to what has it.
    pub argument: usize,
    /// The place of the word in what the argument points to. `None`: the argument is the word.
    pub field: Option<u64>,
    /// Words for frame 0, of which the one counts that leads to memory.
    pub bases: Vec<u64>,
    /// The bytes from one frame's word to the next one's.
    pub bytes: u64,
    /// How many frames there are. `None`: one.
    pub count: Option<Count>,
}

/// The number of frames, by an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// It is its power of two.
    Order(usize),
    /// It is in bytes.
    Bytes(usize),
}

/// The power of two of the most frames that are freed at once: more of them are no order, but something else.
const MOST: u64 = 20;

impl Free {
    /// The frames that a call frees. `None`: what stands for them leads nowhere.
    pub(crate) fn frames<A: Arch>(
        &self,
        operands: &dyn Operands,
        is_memory: impl Fn(u64) -> bool,
    ) -> Option<Range<u64>> {
        let argument = |number: usize| operands.register(A::ARGUMENTS[number]);
        let word = match self.field {
            Some(place) => operands.load(argument(self.argument).wrapping_add(place))?,
            None => argument(self.argument),
        };
        let frame = |base: &u64| word.checked_sub(*base).map(|bytes| bytes / self.bytes);
        let first = self.bases.iter().filter_map(frame).find(|&frame| is_memory(frame))?;
        let frames = match self.count {
            None => 1,
            Some(Count::Order(number)) => {
                1 << Some(argument(number) & u64::from(u32::MAX)).filter(|&order| order <= MOST)?
            }
            Some(Count::Bytes(number)) => argument(number) >> PAGE,
        };
        (frames <= 1 << MOST).then(|| first..first + frames)
    }
}

/// As an argument of the plugin: no comma, which QEMU has between arguments.
impl fmt::Display for Free {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { function, argument, field, bases, bytes, count } = self;
        write!(f, "{function:x}:{argument:x}:{bytes:x}:")?;
        if let Some(place) = field {
            write!(f, "{place:x}")?;
        }
        match count {
            None => write!(f, ":")?,
            Some(Count::Order(number)) => write!(f, ":o{number:x}")?,
            Some(Count::Bytes(number)) => write!(f, ":b{number:x}")?,
        }
        bases.iter().try_for_each(|base| write!(f, ":{base:x}"))
    }
}

/// The text is no free.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoFree;

impl FromStr for Free {
    type Err = NoFree;

    fn from_str(text: &str) -> Result<Self, NoFree> {
        let number = |digits: &str| u64::from_str_radix(digits, 16).map_err(|_| NoFree);
        let argument = |digits: &str| {
            let argument = number(digits)? as usize;
            (argument < ARGUMENTS).then_some(argument).ok_or(NoFree)
        };
        let words: Vec<&str> = text.split(':').collect();
        let [function, own, bytes, field, count, bases @ ..] = &words[..] else { return Err(NoFree) };
        let count = match count.split_at_checked(1) {
            None => None,
            Some(("o", digits)) => Some(Count::Order(argument(digits)?)),
            Some(("b", digits)) => Some(Count::Bytes(argument(digits)?)),
            Some(_) => return Err(NoFree),
        };
        Ok(Self {
            function: number(function)?,
            argument: argument(own)?,
            field: (!field.is_empty()).then(|| number(field)).transpose()?,
            bases: bases.iter().map(|base| number(base)).collect::<Result<_, _>>()?,
            bytes: Some(number(bytes)?).filter(|&bytes| bytes != 0).ok_or(NoFree)?,
            count,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arch::x86::X86;

    /// The first three arguments. A word of memory is its own address and 1.
    struct Arguments([u64; 3]);

    impl Operands for Arguments {
        fn register(&self, index: usize) -> u64 {
            match X86::REGISTERS[index] {
                "rdi" => self.0[0],
                "rsi" => self.0[1],
                "rdx" => self.0[2],
                name => panic!("{name} is no argument here"),
            }
        }

        fn load(&self, address: u64) -> Option<u64> {
            Some(address + 1)
        }
    }

    fn page() -> Free {
        Free { function: 0, argument: 0, field: None, bases: vec![0], bytes: 4096, count: None }
    }

    #[test]
    fn arguments_name_frames() {
        let records = vec![0xffd4_0000_0000_0000, 0xffff_ea00_0000_0000];
        let record = Free { argument: 1, bytes: 64, bases: records, count: Some(Count::Order(2)), ..page() };
        for (free, arguments, expected) in [
            (page(), [0x5000, 0, 0], Some(5..6)),
            (page(), [0x20_0000, 0, 0], None),
            (Free { count: Some(Count::Bytes(1)), ..page() }, [0x5000, 0x2801, 0], Some(5..7)),
            (Free { field: Some(0xfff), ..page() }, [0x7000, 0, 0], Some(8..9)),
            (record.clone(), [0, 0xffff_ea00_0000_0100, 2], Some(4..8)),
            (record.clone(), [0, 0xffd4_0000_0000_0100, 1 << 32], Some(4..5)),
            (record.clone(), [0, 0xffff_ea00_0000_0100, 21], None),
            (record, [0, 0x100, 0], None),
        ] {
            let frames = free.frames::<X86>(&Arguments(arguments), |frame| frame < 0x100);
            assert_eq!(frames, expected, "{free:?} {arguments:x?}");
        }
    }

    #[test]
    fn what_is_no_free_is_refused() {
        for text in ["", "1:2:3", "1:6:3::", "1:0:0::", "1:0:40::x2", "1:0:40::o", "1:0:40:q:", "1:0:40:::z"]
        {
            assert_eq!(text.parse::<Free>(), Err(NoFree), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_free_is_read_as_it_was_written(
            function: u64,
            argument in 0..ARGUMENTS,
            field: Option<u64>,
            bases: Vec<u64>,
            bytes in 1..=u64::MAX,
            count in proptest::option::of(prop_oneof![
                (0..ARGUMENTS).prop_map(Count::Order),
                (0..ARGUMENTS).prop_map(Count::Bytes),
            ]),
        ) {
            let free = Free { function, argument, field, bases, bytes, count };
            prop_assert_eq!(free.to_string().parse(), Ok(free));
        }
    }
}
