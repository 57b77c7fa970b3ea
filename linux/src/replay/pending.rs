//! Which requests interrupt: one that comes while another waits on the same CPU does not.
//!
//! The recording tells when a CPU answered, if it was asked by the same flush there. If not, it is taken to answer after
//! as much time as interrupted CPUs took on average until then.

use std::collections::BTreeMap;

use crate::shootdowns::Cause;

/// What the recording tells of a CPU that a flush asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) cpu: u32,
    /// The time at which it was asked.
    pub(super) sent_ns: u64,
    /// Whether it was interrupted for it.
    pub(super) interrupts: bool,
    /// Whether it was idle when it was asked, and until it answered.
    pub(super) is_idle: bool,
    /// The time at which it took the request, with all that waited; none if the recording does not have it.
    pub(super) taken_ns: Option<u64>,
    /// The process that it ran when it was asked, if that became known only now.
    pub(super) ran: Option<u32>,
}

/// A stretch of time for which requests wait on a CPU.
#[derive(Debug, Clone)]
struct Wait {
    from_ns: u64,
    until_ns: u64,
    /// The cause of the first of them, which interrupted the CPU.
    cause: Cause,
    /// The CPUs that sent them.
    senders: Vec<u32>,
}

/// The requests that wait.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// The latest wait on each CPU.
    waits: Vec<Option<Wait>>,
    /// The interrupts, by cause.
    pub(super) interrupts: BTreeMap<Cause, u64>,
    /// What the recording tells of the flush that is made now.
    answers: Vec<Answer>,
    /// How long interrupted CPUs took, in all, and how many did.
    took_ns: u64,
    took: u64,
}

impl Pending {
    /// The next requests are those of a recorded flush.
    pub(super) fn tell(&mut self, answers: &[Answer]) {
        self.answers.clear();
        self.answers.extend_from_slice(answers);
        for answer in answers.iter().filter(|answer| answer.interrupts) {
            if let Some(taken_ns) = answer.taken_ns {
                self.took_ns = self.took_ns.saturating_add(taken_ns.saturating_sub(answer.sent_ns));
                self.took += 1;
            }
        }
    }

    /// A CPU is asked.
    pub(super) fn ask(&mut self, sender: u32, cpu: u32, cause: Cause, now_ns: u64) {
        if self.waits.len() <= cpu as usize {
            self.waits.resize(cpu as usize + 1, None);
        }
        let answer = self.answers.iter().find(|answer| answer.cpu == cpu);
        let sent_ns = answer.map_or(now_ns, |answer| answer.sent_ns);
        let taken_ns = answer.and_then(|answer| answer.taken_ns);
        let of_cause = self.interrupts.entry(cause).or_default();
        *of_cause += 1;
        // All that a CPU took at one time waited together. A sender waits for its answers, so its next request does not.
        let is_with = |wait: &&mut Wait| {
            let together =
                taken_ns == Some(wait.until_ns) || (wait.from_ns..wait.until_ns).contains(&sent_ns);
            together && !wait.senders.contains(&sender)
        };
        if let Some(wait) = self.waits[cpu as usize].as_mut().filter(is_with) {
            wait.senders.push(sender);
            // A flush that began later may have asked earlier.
            let (first, second) =
                if sent_ns < wait.from_ns { (cause, wait.cause) } else { (wait.cause, cause) };
            (wait.from_ns, wait.cause) = (wait.from_ns.min(sent_ns), first);
            if let Some(of_second) = self.interrupts.get_mut(&second) {
                *of_second -= 1;
            }
            return;
        }
        let average_ns = self.took_ns / self.took.max(1);
        let until_ns = taken_ns.unwrap_or_else(|| sent_ns.saturating_add(average_ns));
        self.waits[cpu as usize] = Some(Wait { from_ns: sent_ns, until_ns, cause, senders: vec![sender] });
    }

    /// The interrupts so far.
    pub(super) fn total(&self) -> u64 {
        self.interrupts.values().sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(cpu: u32, sent_ns: u64, taken_ns: Option<u64>) -> Answer {
        Answer { cpu, sent_ns, interrupts: true, is_idle: false, taken_ns, ran: None }
    }

    /// Asks a CPU, and tells whether it is interrupted.
    fn ask(pending: &mut Pending, sender: u32, cpu: u32, now_ns: u64) -> bool {
        let before = pending.total();
        pending.ask(sender, cpu, Cause::Munmap, now_ns);
        pending.total() > before
    }

    #[test]
    fn a_request_that_comes_while_another_waits_does_not_interrupt() {
        let mut pending = Pending::default();
        pending.tell(&[answer(1, 100, Some(140)), answer(2, 110, None)]);
        assert!(ask(&mut pending, 0, 1, 99) && ask(&mut pending, 0, 2, 99));
        pending.tell(&[]);
        assert!(!ask(&mut pending, 3, 1, 139) && ask(&mut pending, 3, 1, 140));
        // The average of the answers so far is 40.
        assert!(!ask(&mut pending, 3, 2, 149) && ask(&mut pending, 3, 2, 150));
        assert!(!ask(&mut pending, 4, 1, 179) && ask(&mut pending, 4, 1, 180));
    }

    #[test]
    fn a_sender_waits_before_it_asks_again() {
        let mut pending = Pending::default();
        pending.tell(&[answer(1, 100, Some(140))]);
        assert!(ask(&mut pending, 0, 1, 99) && ask(&mut pending, 0, 1, 99));
    }

    #[test]
    fn requests_that_were_sent_the_other_way_round_are_told_apart() {
        let mut pending = Pending::default();
        pending.tell(&[answer(1, 200, Some(240))]);
        assert!(ask(&mut pending, 0, 1, 100));
        pending.tell(&[answer(1, 150, Some(160))]);
        assert!(ask(&mut pending, 3, 1, 120), "it was taken before the other was sent");
        pending.tell(&[answer(2, 200, Some(240))]);
        assert!(ask(&mut pending, 0, 2, 100));
        pending.tell(&[answer(2, 150, Some(240))]);
        pending.ask(3, 2, Cause::Madvise, 120);
        assert_eq!(
            [Cause::Munmap, Cause::Madvise].map(|cause| pending.interrupts[&cause]),
            [2, 1],
            "both were taken together, and the second was sent first"
        );
    }
}
