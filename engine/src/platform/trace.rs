//! What a trace says of each flush.

use crate::space::SpaceId;

/// Why a TLB was flushed: Linux's `tlb:tlb_flush` reasons, in its order, with two that it does not trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// flush on task switch
    TaskSwitch,
    /// remote shootdown: this CPU was asked to
    RemoteShootdown,
    /// local shootdown: this CPU's part of a batch
    LocalShootdown,
    /// local mm shootdown: this CPU's part of a flush of one space
    LocalSpaceShootdown,
    /// remote ipi send
    RemoteSend,
    /// remote wrong cpu: this CPU was asked to, but has left the space
    RemoteWrongCpu,
    /// broadcast: this CPU had the hardware invalidate on every CPU, and waited
    Broadcast,
    /// tick: what this CPU owed, brought up to date at its timer's tick
    Tick,
}

impl Reason {
    /// Linux's words for it, where it has any.
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
    /// Why.
    pub reason: Reason,
    /// How many translations; `None` for all, `Some(0)` where there was nothing to do.
    pub pages: Option<u32>,
    /// Whose; [`SpaceId::NONE`] for a batch over several spaces.
    pub space: SpaceId,
}
