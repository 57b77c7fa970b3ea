//! Why a shootdown happened.

use crate::events::{Kind, LockKind, MigrationReason, SystemCall, Work};
use crate::shootdowns::Purge;

/// The cause of a shootdown, or of a wait for a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// A program unmaps memory (munmap, shmdt, a smaller heap).
    Munmap,
    /// A program gives pages back (madvise).
    Madvise,
    /// A program gives many ranges back at once (`process_madvise`).
    ProcessMadvise,
    /// A program takes away rights (mprotect).
    Mprotect,
    /// A program moves a mapping (mremap).
    Mremap,
    /// A program maps over an old mapping (mmap).
    Mmap,
    /// A program writes a mapping back (msync).
    Msync,
    /// A store to a shared page copies it.
    CopyOnWrite,
    /// An access to a page faults for another reason. Only waits for locks have this cause: flushes that faults make have
    /// others.
    Fault,
    /// The kernel takes pages back because memory is short.
    Reclaim,
    /// The kernel moves cold pages to slow memory.
    Demotion,
    /// Pages move to another node because a program or a cpuset asks.
    Migration,
    /// The kernel moves pages to the node that uses them.
    NumaBalancing,
    /// The kernel moves pages to get large free blocks.
    Compaction,
    /// The kernel makes a huge page of small ones.
    Collapse,
    /// A file that is mapped becomes shorter or gets a hole.
    Truncate,
    /// The kernel writes dirty pages of files that are mapped.
    Writeback,
    /// A process is copied: its pages become read-only.
    Fork,
    /// A process starts another program.
    Exec,
    /// A process ends.
    Exit,
    /// The kernel frees a range of its own (vmalloc, modules).
    KernelRange,
    /// None of these.
    Other,
}

/// `MADV_COLD`, `MADV_PAGEOUT` and `MADV_COLLAPSE` of madvise(2).
const PAGEOUT: [u64; 2] = [20, 21];
const COLLAPSE: u64 = 25;

/// The bits of a fault's code on x86 for a present page and a store (Intel SDM volume 3, section 4.7).
const PRESENT_STORE: u64 = 3;

impl Cause {
    /// All causes, in the order in which they are listed.
    pub const ALL: [Self; 22] = [
        Self::Munmap,
        Self::Madvise,
        Self::ProcessMadvise,
        Self::Mprotect,
        Self::Mremap,
        Self::Mmap,
        Self::Msync,
        Self::CopyOnWrite,
        Self::Fault,
        Self::Reclaim,
        Self::Demotion,
        Self::Migration,
        Self::NumaBalancing,
        Self::Compaction,
        Self::Collapse,
        Self::Truncate,
        Self::Writeback,
        Self::Fork,
        Self::Exec,
        Self::Exit,
        Self::KernelRange,
        Self::Other,
    ];

    /// A short name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Munmap => "munmap",
            Self::Madvise => "madvise",
            Self::ProcessMadvise => "process_madvise",
            Self::Mprotect => "mprotect",
            Self::Mremap => "mremap",
            Self::Mmap => "mmap",
            Self::Msync => "msync",
            Self::CopyOnWrite => "copy-on-write",
            Self::Fault => "page fault",
            Self::Reclaim => "reclaim",
            Self::Demotion => "demotion",
            Self::Migration => "migration",
            Self::NumaBalancing => "NUMA balancing",
            Self::Compaction => "compaction",
            Self::Collapse => "collapse",
            Self::Truncate => "truncate",
            Self::Writeback => "writeback",
            Self::Fork => "fork",
            Self::Exec => "exec",
            Self::Exit => "exit",
            Self::KernelRange => "kernel range",
            Self::Other => "other",
        }
    }

    /// The cause that a system call is.
    fn of_call(call: SystemCall, flags: u64) -> Self {
        match call {
            SystemCall::Mmap => Self::Mmap,
            SystemCall::Munmap | SystemCall::Brk | SystemCall::Shmdt => Self::Munmap,
            SystemCall::Madvise if flags == COLLAPSE => Self::Collapse,
            SystemCall::Madvise if PAGEOUT.contains(&flags) => Self::Reclaim,
            SystemCall::Madvise => Self::Madvise,
            SystemCall::ProcessMadvise => Self::ProcessMadvise,
            SystemCall::Mprotect | SystemCall::PkeyMprotect => Self::Mprotect,
            SystemCall::Mremap => Self::Mremap,
            SystemCall::Msync => Self::Msync,
            SystemCall::MovePages | SystemCall::MigratePages | SystemCall::Mbind => Self::Migration,
            SystemCall::Fork | SystemCall::Vfork | SystemCall::Clone | SystemCall::Clone3 => Self::Fork,
            SystemCall::Execve | SystemCall::Execveat => Self::Exec,
            SystemCall::Exit | SystemCall::ExitGroup => Self::Exit,
            SystemCall::Ftruncate | SystemCall::Truncate | SystemCall::Fallocate => Self::Truncate,
        }
    }

    fn of_migration(reason: MigrationReason) -> Self {
        match reason {
            MigrationReason::Compaction => Self::Compaction,
            MigrationReason::NumaBalancing => Self::NumaBalancing,
            MigrationReason::Demotion => Self::Demotion,
            MigrationReason::Asked | MigrationReason::Other => Self::Migration,
        }
    }

    /// The cause that the kernel's functions tell, separated by semicolons, innermost first. The first one that tells
    /// any decides.
    pub(super) fn of_stack(functions: &str) -> Option<Self> {
        let of_function = |function: &str| {
            let is = |names: &[&str]| names.contains(&function);
            let begins = |names: &[&str]| names.iter().any(|name| function.starts_with(name));
            Some(if begins(&["migrate_misplaced", "task_numa_work", "change_prot_numa", "do_numa_page"]) {
                Self::NumaBalancing
            } else if begins(&["demote_folio_list"]) {
                Self::Demotion
            } else if begins(&["compact_zone", "kcompactd"]) {
                Self::Compaction
            } else if begins(&["collapse_huge_page", "collapse_file", "khugepaged", "hpage_collapse"]) {
                Self::Collapse
            } else if begins(&[
                "shrink_folio_list",
                "shrink_lruvec",
                "shrink_node",
                "reclaim_folio",
                "try_to_free",
            ]) {
                Self::Reclaim
            } else if is(&["do_move_pages_to_node", "do_migrate_pages", "kernel_move_pages", "do_mbind"]) {
                Self::Migration
            } else if begins(&["wp_page_copy", "do_wp_page", "do_cow_fault"]) {
                Self::CopyOnWrite
            } else if begins(&["dup_mmap", "dup_mm", "copy_process"]) {
                Self::Fork
            } else if begins(&["begin_new_exec", "exec_mmap", "bprm_execve"]) {
                Self::Exec
            } else if begins(&["exit_mmap", "do_exit", "do_group_exit", "exit_mm"]) {
                Self::Exit
            } else if begins(&["folio_mkclean", "folio_clear_dirty_for_io", "page_vma_mkclean"]) {
                Self::Writeback
            } else if begins(&["unmap_mapping_", "truncate_"]) {
                Self::Truncate
            } else if begins(&["do_kernel_range", "flush_tlb_kernel", "__purge_vmap_area", "purge_vmap"]) {
                Self::KernelRange
            } else {
                let call =
                    function.strip_prefix("__x64_sys_").or_else(|| function.strip_prefix("__arm64_sys_"))?;
                let call = <SystemCall as crate::events::Spelled>::of_word(call)?;
                Self::of_call(call, 0)
            })
        };
        functions.split(';').find_map(of_function)
    }

    /// The cause of a wait for a lock under these functions.
    pub(crate) fn of_stack_of_wait(functions: &str) -> Self {
        let other = if functions.contains("page_fault") { Self::Fault } else { Self::Other };
        Self::of_stack(functions).unwrap_or(other)
    }
}

/// A system call that is under way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) name: SystemCall,
    pub(crate) address: u64,
    pub(crate) bytes: u64,
    flags: u64,
}

impl Call {
    /// Whether it gives pages back at once.
    pub(crate) fn purges(&self) -> bool {
        self.name == SystemCall::Madvise && Purge::of(self.flags, self.address, self.bytes).is_some()
    }
}

/// What a thread is doing in the kernel, as far as events tell it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Doing {
    call: Option<Call>,
    /// What the call gives back, until it flushes.
    purge: Option<Purge>,
    migration: Option<MigrationReason>,
    reclaims: bool,
    /// The code of a fault since the last system call.
    fault: Option<u64>,
    ended: bool,
}

impl Doing {
    /// Learns from an event of the thread.
    pub(crate) fn learn(&mut self, kind: &Kind) {
        match *kind {
            Kind::CallBegan { call, address, bytes, flags } => {
                let purge = Purge::of(flags, address, bytes).filter(|_| call == SystemCall::Madvise);
                let call = Some(Call { name: call, address, bytes, flags });
                *self = Self { call, purge, ended: self.ended, ..Self::default() };
            }
            Kind::CallEnded { .. } => *self = Self { ended: self.ended, ..Self::default() },
            Kind::Fault { code, .. } => {
                // A fault within a system call, as of a copy from memory, is part of the call.
                let Self { call, purge, ended, .. } = *self;
                *self = Self { fault: Some(code), call, purge, ended, ..Self::default() };
            }
            Kind::MigrationBegan { reason } => self.migration = Some(reason),
            Kind::MigrationEnded { .. } => self.migration = None,
            Kind::ReclaimBegan => self.reclaims = true,
            Kind::ReclaimEnded { .. } => self.reclaims = false,
            Kind::ThreadEnded => self.ended = true,
            _ => {}
        }
    }

    /// Whether such events tell what a thread is doing.
    pub(crate) fn is_told_by(kind: &Kind) -> bool {
        matches!(
            kind,
            Kind::CallBegan { .. }
                | Kind::CallEnded { .. }
                | Kind::Fault { .. }
                | Kind::MigrationBegan { .. }
                | Kind::MigrationEnded { .. }
                | Kind::ReclaimBegan
                | Kind::ReclaimEnded { .. }
                | Kind::ThreadEnded
        )
    }

    /// The pages that the call under way gives back, at its first flush.
    pub(crate) fn take_purge(&mut self) -> Option<Purge> {
        self.purge.take()
    }

    /// Whether the thread has ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// The cause of a flush that the thread does now. `program` is the thread's name.
    pub(crate) fn cause(&self, work: Work, program: &str) -> Cause {
        if matches!(work, Work::FlushAll | Work::FlushKernelRange) {
            return Cause::KernelRange;
        }
        if let Some(reason) = self.migration {
            return Cause::of_migration(reason);
        }
        if self.reclaims {
            return Cause::Reclaim;
        }
        if self.ended {
            return Cause::Exit;
        }
        match (self.call, self.fault) {
            (Some(Call { name, flags, .. }), _) => Cause::of_call(name, flags),
            (None, Some(code)) if code & PRESENT_STORE == PRESENT_STORE => Cause::CopyOnWrite,
            _ => Self::of_program(program),
        }
    }

    /// The cause of a wait for a lock that begins now.
    pub(crate) fn cause_of_wait(&self, kind: LockKind, program: &str) -> Cause {
        let cause = self.cause(Work::Flush, program);
        if self.call.is_some() || self.fault.is_none() || !matches!(cause, Cause::CopyOnWrite | Cause::Other)
        {
            return cause;
        }
        // The fault may be over, since no event tells its end. Faults read `mmap_lock` and spin at page tables.
        match kind {
            LockKind::Mutex | LockKind::Semaphore | LockKind::SleepWrite => Cause::Other,
            _ if cause == Cause::Other => Cause::Fault,
            _ => cause,
        }
    }

    /// The call under way.
    pub(crate) fn call(&self) -> Option<Call> {
        self.call
    }

    /// The cause of flushes of the kernel's own threads.
    fn of_program(program: &str) -> Cause {
        let begins = |name| program.starts_with(name);
        if begins("kswapd") {
            Cause::Reclaim
        } else if begins("khugepaged") {
            Cause::Collapse
        } else if begins("kcompactd") {
            Cause::Compaction
        } else if begins("kworker/u") && program.contains("flush-") {
            Cause::Writeback
        } else {
            Cause::Other
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cause(events: &[Kind], program: &str) -> Cause {
        let mut doing = Doing::default();
        for kind in events {
            doing.learn(kind);
        }
        doing.cause(Work::Flush, program)
    }

    fn call(call: SystemCall, flags: u64) -> Kind {
        Kind::CallBegan { call, address: 0, bytes: 0, flags }
    }

    #[test]
    fn the_innermost_thing_under_way_is_the_cause() {
        let fault = |code| Kind::Fault { address: 0, code };
        let ended = Kind::CallEnded { call: SystemCall::Munmap, result: 0 };
        let migration = Kind::MigrationBegan { reason: MigrationReason::Demotion };
        let moved = Kind::MigrationEnded { reason: MigrationReason::Demotion, moved: 1, failed: 0 };
        let munmap = call(SystemCall::Munmap, 0);
        for (events, expected) in [
            (vec![munmap], Cause::Munmap),
            (vec![munmap, ended], Cause::Other),
            (vec![munmap, ended, fault(7)], Cause::CopyOnWrite),
            (vec![munmap, ended, fault(6)], Cause::Other),
            (vec![call(SystemCall::Madvise, 4)], Cause::Madvise),
            (vec![call(SystemCall::Madvise, 21)], Cause::Reclaim),
            (vec![munmap, Kind::ReclaimBegan], Cause::Reclaim),
            (vec![fault(6), Kind::ReclaimBegan, migration], Cause::Demotion),
            (vec![fault(6), Kind::ReclaimBegan, migration, moved], Cause::Reclaim),
            (vec![Kind::ReclaimBegan, Kind::ReclaimEnded { frames: 3 }], Cause::Other),
            (vec![Kind::ThreadEnded], Cause::Exit),
        ] {
            assert_eq!(cause(&events, "program"), expected, "{events:?}");
        }
        assert_eq!(cause(&[], "kswapd0"), Cause::Reclaim);
    }

    #[test]
    fn a_fault_is_the_cause_of_waits_for_locks_that_faults_take() {
        let cause = |events: &[Kind], kind| {
            let mut doing = Doing::default();
            for event in events {
                doing.learn(event);
            }
            doing.cause_of_wait(kind, "program")
        };
        let fault = |code| Kind::Fault { address: 0, code };
        let munmap = call(SystemCall::Munmap, 0);
        for (events, kind, expected) in [
            (vec![fault(6)], LockKind::SleepRead, Cause::Fault),
            (vec![fault(6)], LockKind::Spin, Cause::Fault),
            (vec![fault(7)], LockKind::Spin, Cause::CopyOnWrite),
            (vec![fault(7)], LockKind::Mutex, Cause::Other),
            (vec![fault(6)], LockKind::SleepWrite, Cause::Other),
            (vec![munmap, fault(6)], LockKind::SleepWrite, Cause::Munmap),
            (vec![fault(6), Kind::ReclaimBegan], LockKind::Mutex, Cause::Reclaim),
            (vec![], LockKind::SleepRead, Cause::Other),
        ] {
            assert_eq!(cause(&events, kind), expected, "{events:?} {kind:?}");
        }
    }

    #[test]
    fn functions_tell_the_cause_from_the_innermost_one() {
        for (functions, expected) in [
            (
                "flush_tlb_mm_range;tlb_finish_mmu;do_madvise.part.0;__x64_sys_madvise;do_syscall_64",
                Some(Cause::Madvise),
            ),
            ("arch_tlbbatch_flush;try_to_unmap_flush;shrink_folio_list;kswapd", Some(Cause::Reclaim)),
            ("flush_tlb_mm_range;change_prot_numa;task_numa_work;task_work_run", Some(Cause::NumaBalancing)),
            (
                "flush_tlb_mm_range;tlb_finish_mmu;exit_mmap;mmput;do_exit;__x64_sys_exit_group",
                Some(Cause::Exit),
            ),
            ("one;two", None),
            ("", None),
        ] {
            assert_eq!(Cause::of_stack(functions), expected, "{functions}");
        }
    }

    #[test]
    fn every_cause_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<&str> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        assert_eq!(names.len(), Cause::ALL.len());
    }
}
