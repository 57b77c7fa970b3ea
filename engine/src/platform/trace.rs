//! The event that each flush reports to the platform's trace.

use crate::space::SpaceId;

/// Why a TLB was flushed: the reasons of Linux's `tlb:tlb_flush`, in its order, and two that Linux does not trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// flush on task switch: this CPU switched to a space whose entries were out of date
    TaskSwitch,
    /// remote shootdown: this CPU was asked to
    RemoteShootdown,
    /// local shootdown: this CPU's part of a batch
    LocalShootdown,
    /// local mm shootdown: this CPU's part of a flush of one space
    LocalSpaceShootdown,
    /// remote ipi send: this CPU asked others to flush
    RemoteSend,
    /// remote wrong cpu: this CPU was asked to flush, but has left the space
    RemoteWrongCpu,
    /// broadcast: this CPU made the hardware invalidate on every CPU, and waited
    Broadcast,
    /// tick: this CPU flushed what it owed at its timer's tick
    Tick,
}

impl Reason {
    /// Linux's words for the reason, where it has any.
    pub const fn name(self) -> &'static str {
        match self {
            Self::TaskSwitch => "flush on task switch",
            Self::RemoteShootdown => "remote shootdown",
            Self::LocalShootdown => "local shootdown",
            Self::LocalSpaceShootdown => "local mm shootdown",
            Self::RemoteSend => "remote ipi send",
            Self::RemoteWrongCpu => "remote wrong cpu",
            Self::Broadcast => "broadcast",
            Self::Tick => "tick",
        }
    }
}

/// One line of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlushEvent {
    /// The reason of the flush.
    pub reason: Reason,
    /// The number of translations; `None` for all, `Some(0)` if there was nothing to do.
    pub pages: Option<u32>,
    /// The space; [`SpaceId::NONE`] for a batch over several spaces.
    pub space: SpaceId,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `perf` and `trace-cmd` print these (Linux: `TLB_FLUSH_REASON`).
    #[test]
    fn reasons_that_linux_has_are_called_as_there() {
        let reasons = [
            Reason::TaskSwitch,
            Reason::RemoteShootdown,
            Reason::LocalShootdown,
            Reason::LocalSpaceShootdown,
            Reason::RemoteSend,
            Reason::RemoteWrongCpu,
        ];
        assert_eq!(
            reasons.map(Reason::name),
            [
                "flush on task switch",
                "remote shootdown",
                "local shootdown",
                "local mm shootdown",
                "remote ipi send",
                "remote wrong cpu",
            ]
        );
    }
}
