//! The lines on the kernel's serial port, and the exit status of its machine.

use std::process::ExitStatus;

use ceasefire_kernel_abi::status::{self, of_qemu};
use ceasefire_kernel_abi::LACKS;

/// A line of the serial port.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    /// The first instruction of a program has run.
    User,
    /// The result of the run, as JSON.
    Result(&'a str),
    /// The failure in a line. Details follow as text.
    Failed(&'a str),
    /// What a program could not test in time.
    Lacks(&'a str),
    /// The CPUs take ticks.
    Beat,
    /// Any other line.
    Text,
}

impl<'a> Line<'a> {
    pub(super) fn read(line: &'a str) -> Self {
        let after = |beginning| line.strip_prefix(beginning);
        match line {
            "USER" => Self::User,
            "BEAT" => Self::Beat,
            _ => None
                .or_else(|| after("RESULT ").map(Self::Result))
                .or_else(|| after("FAILED ").map(Self::Failed))
                .or_else(|| after(LACKS).map(Self::Lacks))
                .unwrap_or(Self::Text),
        }
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It succeeded.
    Done,
    /// A program found a broken rule: a stale load, or a lost store.
    Broken,
    /// A panic or a fault, in the kernel or in a program.
    Fault,
    /// The kernel found that a CPU, or all of them, made no progress.
    Hang,
    /// No CPU gave a sign while the emulator used this many seconds of processor time for each.
    Silent(u64),
    /// Nothing was wrong, but a program could not test enough in time.
    Inconclusive,
    /// The kernel refused its options.
    Refused,
    /// No program had begun after this many seconds, and no CPU was stuck.
    NoBoot(u64),
    /// It had not ended after this many seconds, and no CPU was stuck.
    Timeout(u64),
    /// Whoever watched it has seen enough.
    Stopped,
    /// The emulator ended by itself, by a reset, or by a signal.
    Died(String),
    /// The kernel reported success, but not of the run that it was given.
    Wrong(String),
}

impl Ending {
    /// The meaning of QEMU's status.
    pub(super) fn of(status: ExitStatus) -> Self {
        let known = [
            (status::DONE, Self::Done),
            (status::RULE, Self::Broken),
            (status::FAULT, Self::Fault),
            (status::HANG, Self::Hang),
            (status::OPTIONS, Self::Refused),
            (status::INCONCLUSIVE, Self::Inconclusive),
        ];
        let is_it = |(kernels, _): &(_, Self)| status.code() == Some(of_qemu(*kernels));
        match known.into_iter().find(is_it) {
            Some((_, ending)) => ending,
            // With `-no-reboot` a reset ends QEMU, and the kernel uses no other way to this status.
            None if status.success() => {
                Self::Died("the machine was reset, as a triple fault does".to_owned())
            }
            None => Self::Died(format!("QEMU ended by itself: {status}")),
        }
    }

    /// Whether a broken rule was noticed, by the program, the kernel or its watchdog. A run without any flush must end
    /// like this.
    pub(crate) fn is_caught(&self) -> bool {
        matches!(self, Self::Broken | Self::Fault | Self::Hang)
    }

    /// Whether nothing was wrong, but too little was tested.
    pub(crate) fn is_inconclusive(&self) -> bool {
        matches!(self, Self::Inconclusive | Self::NoBoot(_) | Self::Timeout(_))
    }

    /// In words.
    #[rustfmt::skip]
    pub(super) fn words(&self) -> String {
        match self {
            Self::Done => "done".into(),
            Self::Broken => "a rule was broken".into(),
            Self::Fault => "panic or fault".into(),
            Self::Hang => "hang".into(),
            Self::Silent(time) => format!("hang: no sign of any CPU in {time} s of processor time for each: QEMU was ended"),
            Self::Inconclusive => "inconclusive: not enough was tested in time".into(),
            Self::Refused => "the kernel refused its options".into(),
            Self::NoBoot(time) => format!("inconclusive: no program had begun after {time} s, and QEMU was ended"),
            Self::Timeout(time) => format!("inconclusive: not done after {time} s, and QEMU was ended"),
            Self::Stopped => "ended: enough was seen".into(),
            Self::Died(how) | Self::Wrong(how) => how.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    #[test]
    fn lines_are_recognised_by_their_beginning() {
        for (line, expected) in [
            ("USER", Line::User),
            ("USERS", Line::Text),
            ("the USER", Line::Text),
            ("RESULT {}", Line::Result("{}")),
            (" RESULT {}", Line::Text),
            ("FAILED stale read: at 0x1000", Line::Failed("stale read: at 0x1000")),
            ("FAILED", Line::Text),
            ("INCONCLUSIVE stale/alias made nothing", Line::Lacks("stale/alias made nothing")),
            ("BEAT", Line::Beat),
            ("BEATS", Line::Text),
            ("", Line::Text),
        ] {
            assert_eq!(Line::read(line), expected, "{line}");
        }
    }

    #[test]
    fn the_status_says_how_it_ended() {
        let of = |code: i32| Ending::of(ExitStatus::from_raw(code << 8));
        for (code, ending, is_caught, is_inconclusive) in [
            (33, Ending::Done, false, false),
            (35, Ending::Broken, true, false),
            (37, Ending::Fault, true, false),
            (39, Ending::Hang, true, false),
            (41, Ending::Refused, false, false),
            (43, Ending::Inconclusive, false, true),
            (1, Ending::Died("QEMU ended by itself: exit status: 1".to_owned()), false, false),
        ] {
            assert_eq!(of(code), ending);
            assert_eq!((ending.is_caught(), ending.is_inconclusive()), (is_caught, is_inconclusive));
        }
        assert!(of(0).words().contains("reset"));
        assert!(Ending::of(ExitStatus::from_raw(9)).words().contains("signal: 9"));
        assert!(Ending::NoBoot(9).is_inconclusive() && Ending::Timeout(9).is_inconclusive());
        assert!(!Ending::Silent(9).is_inconclusive());
    }
}
