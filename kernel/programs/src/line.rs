//! Lines of text for the kernel's log.

use core::fmt;

use ceasefire_kernel_abi::LINE;

use crate::call;

/// A line under construction. Text that does not fit is left out.
#[derive(Debug)]
struct Line {
    bytes: [u8; LINE],
    used: usize,
}

impl Line {
    fn new(text: fmt::Arguments<'_>) -> Self {
        let mut line = Self { bytes: [0; LINE], used: 0 };
        // The text is written in parts. The line is good enough if the last ones do not fit.
        let _ = fmt::write(&mut line, text);
        line
    }

    fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.used]).unwrap_or("a line that is not text")
    }
}

impl fmt::Write for Line {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut length = text.len().min(LINE - self.used);
        while !text.is_char_boundary(length) {
            length -= 1;
        }
        // A panic's message may have several lines; the log takes one.
        for (to, &from) in self.bytes[self.used..].iter_mut().zip(&text.as_bytes()[..length]) {
            *to = if from == b'\n' { b' ' } else { from };
        }
        self.used += length;
        if length < text.len() {
            return Err(fmt::Error);
        }
        Ok(())
    }
}

/// Logs a line.
pub(crate) fn log(text: fmt::Arguments<'_>) {
    call::log(Line::new(text).as_str());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_between_characters() {
        let long = "ö".repeat(LINE);
        assert_eq!(Line::new(format_args!("x{long}")).as_str(), format!("x{}", "ö".repeat((LINE - 1) / 2)));
        assert_eq!(Line::new(format_args!("{}\n{}", 1, 2)).as_str(), "1 2");
    }
}
