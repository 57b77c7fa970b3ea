//! The format of an event, as the running kernel describes it.

use std::fmt;

use tracepoint_decode::{PerfEventFormat, PerfFieldFormat};

use crate::guarded::guarded;

/// A field of an event's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    offset: usize,
    size: usize,
    signed: bool,
}

impl Field {
    /// The value in a record. Text and fields of other sizes than those of numbers give their first bytes. A record
    /// that ends before the field gives none.
    pub fn value(&self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..)?;
        let sign = |unsigned: u64, signed: i64| if self.signed { signed.cast_unsigned() } else { unsigned };
        Some(match self.size {
            1 => sign((*bytes.first()?).into(), bytes.first()?.cast_signed().into()),
            2 | 3 => {
                let value = u16::from_ne_bytes(*bytes.first_chunk()?);
                sign(value.into(), value.cast_signed().into())
            }
            4..=7 => {
                let value = u32::from_ne_bytes(*bytes.first_chunk()?);
                sign(value.into(), value.cast_signed().into())
            }
            _ => u64::from_ne_bytes(*bytes.first_chunk()?),
        })
    }

    /// The bytes of the field in a record.
    pub fn bytes<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        record.get(self.offset..self.offset.checked_add(self.size)?)
    }

    /// The bytes from the field's start to the end of the record.
    pub fn rest<'a>(&self, record: &'a [u8]) -> Option<&'a [u8]> {
        record.get(self.offset..)
    }
}

/// An event's format.
#[derive(Debug)]
pub struct Format {
    format: PerfEventFormat,
    system: String,
}

/// A format that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FormatError {
    /// The text is not the format of an event.
    Unreadable {
        /// The event, with its system.
        event: String,
    },
    /// A field that is needed is missing.
    NoField {
        /// The event, with its system.
        event: String,
        /// The field.
        field: &'static str,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { event } => {
                write!(f, "the kernel's format of the event {event} is not understood")
            }
            Self::NoField { event, field } => {
                write!(f, "the event {event} of this kernel has no field '{field}'")
            }
        }
    }
}

impl std::error::Error for FormatError {}

fn is_word(name: &str) -> bool {
    !name.is_empty() && !name.contains(|letter: char| letter.is_whitespace() || letter.is_control())
}

impl Format {
    /// Reads the text of a file `format`.
    ///
    /// # Errors
    /// If the text is not the format of an event.
    pub fn parse(system: &str, text: &str) -> Result<Self, FormatError> {
        let long_is_64_bits = cfg!(target_pointer_width = "64");
        match guarded(|| PerfEventFormat::parse(long_is_64_bits, system, text)) {
            // A record has 16 bits for the number. A name is one word, like that of the event's folder.
            Ok(Some(format)) if is_word(format.name()) && format.id() <= u16::MAX.into() => {
                Ok(Self { format, system: system.to_owned() })
            }
            _ => Err(FormatError::Unreadable { event: system.to_owned() }),
        }
    }

    /// The number with which a record of the event begins.
    pub fn id(&self) -> u32 {
        self.format.id()
    }

    /// The folder of the event.
    pub fn system(&self) -> &str {
        &self.system
    }

    /// The event's name in its folder.
    pub fn event(&self) -> &str {
        self.format.name()
    }

    /// The event's name, with its system.
    pub fn name(&self) -> String {
        format!("{}:{}", self.system, self.format.name())
    }

    /// A field, if the event has it.
    pub fn find(&self, name: &str) -> Option<Field> {
        let field = self.format.fields().iter().find(|field| field.name() == name)?;
        Some(Field {
            offset: field.offset().into(),
            size: field.size().into(),
            signed: field.signed().unwrap_or(false),
        })
    }

    /// A field that is needed.
    ///
    /// # Errors
    /// If the event does not have it.
    pub fn field(&self, name: &'static str) -> Result<Field, FormatError> {
        self.find(name).ok_or_else(|| FormatError::NoField { event: self.name(), field: name })
    }

    /// The arguments of a system call: the fields after its number, in order.
    pub fn arguments(&self) -> Vec<Field> {
        let names =
            self.format.fields().iter().skip(self.format.common_field_count()).map(PerfFieldFormat::name);
        let names = names.filter(|name| !matches!(*name, "__syscall_nr" | "nr"));
        names.filter_map(|name| self.find(name)).collect()
    }

    /// The words that the kernel prints for the values of a field, or for the bits that are set in it.
    pub fn words(&self, field: &str) -> Vec<(u64, &str)> {
        let printed = ["symbolic", "flags"].iter().find_map(|function| {
            self.format.print_fmt().split_once(&format!("__print_{function}(REC->{field},"))
        });
        let Some((_, words)) = printed else { return Vec::new() };
        // The list ends with the parenthesis that closes the call. Words have none.
        let mut open = 0_i32;
        let end = words.find(|character| {
            open += i32::from(character == '(') - i32::from(character == ')');
            open < 0
        });
        words[..end.unwrap_or(words.len())].split('{').skip(1).filter_map(word).collect()
    }
}

/// The value and the word in `1, "word" }` or `(1U << 0), "word" }`.
fn word(pair: &str) -> Option<(u64, &str)> {
    let (value, word) = pair.split_once(',')?;
    Some((number(value.trim())?, word.trim().strip_prefix('"')?.split('"').next()?))
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim_matches(['(', ')', ' ']);
    if let Some((value, by)) = text.split_once("<<") {
        return number(value)?.checked_shl(number(by)?.try_into().ok()?);
    }
    let text = text.trim_end_matches(['U', 'L']);
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLUSH: &str = "name: tlb_flush
ID: 188
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

\tfield:int reason;\toffset:8;\tsize:4;\tsigned:1;
\tfield:unsigned long pages;\toffset:16;\tsize:8;\tsigned:0;

print fmt: \"pages:%ld reason:%s (%d)\", REC->pages, __print_symbolic(REC->reason, { 0, \"flush on task switch\" }, { 0x4, \"remote IPI send\" }), REC->reason
";

    #[test]
    fn a_format_gives_the_values_of_its_fields() {
        let format = Format::parse("tlb", FLUSH).expect("a format");
        assert_eq!((format.id(), format.name()), (188, "tlb:tlb_flush".to_owned()));
        let mut record = [0_u8; 24];
        record[8..12].copy_from_slice(&(-2_i32).to_ne_bytes());
        record[16..].copy_from_slice(&u64::MAX.to_ne_bytes());
        let value = |name, record: &[u8]| format.field(name).expect("a field").value(record);
        assert_eq!(value("reason", &record), Some((-2_i64).cast_unsigned()));
        assert_eq!(value("pages", &record), Some(u64::MAX));
        assert_eq!(value("pages", &record[..23]), None);
        let missing = format.field("cpu").expect_err("no such field");
        assert_eq!(missing.to_string(), "the event tlb:tlb_flush of this kernel has no field 'cpu'");
    }

    #[test]
    fn the_words_of_a_field_are_those_that_the_kernel_prints() {
        let format = Format::parse("tlb", FLUSH).expect("a format");
        assert_eq!(format.words("reason"), [(0, "flush on task switch"), (4, "remote IPI send")]);
        assert_eq!(format.words("pages"), []);
        let bits = r#"print fmt: "%s %d", __print_flags(REC->pages, "|", { (1U << 0), "SPIN" }, { 0x10, "PERCPU" },
            { (1UL << 64), "none" }), REC->reason, __print_symbolic(REC->reason, { 0, "reason" })"#;
        let text = format!("{}{bits}\n", FLUSH.split("print fmt").next().expect("the fields"));
        let format = Format::parse("tlb", &text.replace("\n            ", " ")).expect("a format");
        assert_eq!(format.words("pages"), [(1, "SPIN"), (16, "PERCPU")]);
        assert_eq!(format.words("reason"), [(0, "reason")]);
    }

    #[test]
    fn text_that_is_no_format_is_refused() {
        let [foreign, large] = [FLUSH.replace("unsigned", "\u{fffd}nsigned"), FLUSH.replace("188", "65536")];
        let spaced = FLUSH.replace("name: tlb_flush", "name: tlb flush");
        for text in ["", "name: x", "ID: 4\n", "\u{0}\u{1}", &foreign, &large, &spaced] {
            assert!(Format::parse("tlb", text).is_err(), "{text:?}");
        }
    }
}
