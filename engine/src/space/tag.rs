//! The tag of a space's entries: a slot of each CPU's own, or one ASID that means the space on every CPU.
//!
//! Where every space gets a global ASID at birth (Arm), its tag never changes while it lives. Where only some spaces
//! have one (x86), a space goes from slots to an ASID and may go back. In between, some of its CPUs run it under the
//! one and some under the other. One word holds the space's state, so every reader sees a single state:
//!
//! `slots` -claim, adopt-> `adopting` -all CPUs have-> `global` -leave-> `leaving` -all CPUs have-> `slots`
//!
//! In `adopting` and `leaving` a flush needs both transports. A CPU that loads the space takes the tag that the state
//! leads to. Each change of state raises a number in the word. A flush that looked at the CPUs in order to end a
//! transition therefore ends that transition or none.
//!
//! A space that has ended gives up its ASID for good. If it got the ASID while it ran, it goes to `leaving`, and so
//! back to slots. If it was born with it, it has no slots. It goes to `ending`, in which CPUs that load it take
//! [`Asid::SHARED`], and then keeps the shared one. In both cases the last change hands the ASID to one caller.

use super::asid::Asid;
use crate::primitive::{AtomicU64, Ordering};

/// An ASID is held; the bits below say which.
const HELD: u64 = 1 << 16;
/// CPUs may run under the ASID or under slots.
const MIXED: u64 = 1 << 17;
/// The ASID is being given back.
const LEAVING: u64 = 1 << 18;
/// A CPU is about to give an ASID to a space on slots.
const CLAIMED: u64 = 1 << 19;
const STATE: u64 = (1 << 20) - 1;
/// The space has ended: it gets no ASID any more. Never cleared.
const ENDED: u64 = 1 << 20;
/// The space had an ASID from birth, so CPUs have no slots for it. Never cleared.
const BORN: u64 = 1 << 21;
const CHANGE: u64 = 1 << 22;

/// The state of a space's tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tagged {
    /// Each CPU has a slot of its own for it.
    Slots,
    /// CPUs change from slots to the ASID.
    Adopting(Asid),
    /// Every CPU runs it under the ASID.
    Global(Asid),
    /// CPUs change from the ASID to slots.
    Leaving(Asid),
    /// The space has ended. CPUs that load it run it under [`Asid::SHARED`]; others still run it under the ASID.
    Ending(Asid),
}

/// A reading of the word, to be compared with a later value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reading(u64);

impl Reading {
    /// Whether each CPU has a slot of its own, and nothing else. A single test, for frequent paths.
    pub(crate) fn is_slots(self) -> bool {
        self.0 & HELD == 0
    }

    pub(crate) fn tagged(self) -> Tagged {
        let asid = Asid::new(self.0 as u16);
        match self.0 & (HELD | MIXED | LEAVING) {
            0 => Tagged::Slots,
            HELD => Tagged::Global(asid),
            bits if bits & LEAVING == 0 => Tagged::Adopting(asid),
            _ if self.0 & BORN == 0 => Tagged::Leaving(asid),
            _ => Tagged::Ending(asid),
        }
    }

    /// The ASID for a CPU that starts to run the space; `None` for a slot of its own.
    pub(crate) fn asid(self) -> Option<Asid> {
        match self.0 & (HELD | LEAVING) {
            HELD => Some(Asid::new(self.0 as u16)),
            0 => None,
            _ if self.0 & BORN != 0 => Some(Asid::SHARED),
            _ => None,
        }
    }

    /// Whether the space had an ASID from birth, so CPUs have no slots for it.
    pub(crate) fn is_from_birth(self) -> bool {
        self.0 & BORN != 0
    }

    fn has_ended(self) -> bool {
        self.0 & ENDED != 0
    }

    /// The space's own ASID, under which some CPU may run it and which must be given back.
    pub(crate) fn held(self) -> Option<Asid> {
        let asid = Asid::new(self.0 as u16);
        (self.0 & HELD != 0 && asid != Asid::SHARED).then_some(asid)
    }

    fn to(self, state: u64) -> u64 {
        (self.0 & !STATE).wrapping_add(CHANGE) | state
    }
}

/// The word that holds the state.
#[derive(Debug)]
pub(crate) struct Tag(AtomicU64);

impl Tag {
    /// A tag on slots, or with an ASID from birth.
    pub(crate) fn new(asid: Option<Asid>) -> Self {
        Self(AtomicU64::new(asid.map_or(0, |asid| BORN | HELD | u64::from(asid.get()))))
    }

    /// Sequentially consistent: a flush reads it after it has raised the generation, and a CPU that loads the space
    /// reads it before the generation.
    pub(crate) fn read(&self) -> Reading {
        Reading(self.0.load(Ordering::SeqCst))
    }

    fn change(&self, from: Reading, state: u64) -> bool {
        self.0.compare_exchange(from.0, from.to(state), Ordering::SeqCst, Ordering::Relaxed).is_ok()
    }

    /// Keeps other CPUs from giving an ASID to a space on slots. True if no other CPU does and the space has none.
    pub(crate) fn claim(&self) -> bool {
        let now = self.read();
        now.0 & (STATE | ENDED) == 0 && self.change(now, CLAIMED)
    }

    /// Ends a claim: CPUs begin to adopt `asid`, or there was none. Returns the ASID if the space has ended meanwhile.
    #[must_use = "an ASID that comes back has to be given back"]
    pub(crate) fn adopt(&self, asid: Option<Asid>) -> Option<Asid> {
        let state = asid.map_or(0, |asid| HELD | MIXED | u64::from(asid.get()));
        let now = self.read();
        // The end of the space clears a claim: the exchange fails if the end comes in between.
        let changed = !now.has_ended() && self.change(now, state);
        debug_assert!(
            changed || self.read().has_ended(),
            "an ASID was given to a space by one who had not claimed it"
        );
        asid.filter(|_| !changed)
    }

    /// Ends the space: from here on no CPU begins to run it under an ASID of its own. Returns the state of the tag, for
    /// [`Tag::end`] once no CPU runs the space under the ASID.
    ///
    /// Sequentially consistent, like the later reads of CPUs. The other half is a CPU that publishes its switch, joins
    /// the space's set and then reads the tag.
    pub(crate) fn retire(&self) -> Reading {
        loop {
            let now = self.read();
            if now.has_ended() {
                return now;
            }
            let state = match now.tagged() {
                // This also ends a claim, whose ASID comes too late.
                Tagged::Slots => 0,
                Tagged::Global(_) | Tagged::Adopting(_) if now.held().is_some() => {
                    now.0 & STATE | MIXED | LEAVING
                }
                _ => now.0 & STATE,
            };
            let ended = now.to(state) | ENDED;
            if self.0.compare_exchange(now.0, ended, Ordering::SeqCst, Ordering::Relaxed).is_ok() {
                return Reading(ended);
            }
        }
    }

    /// CPUs begin to leave the ASID under which all of them run the space. True if they do.
    pub(crate) fn leave(&self, from: Reading) -> bool {
        matches!(from.tagged(), Tagged::Global(_))
            && !from.has_ended()
            && self.change(from, from.0 & STATE | MIXED | LEAVING)
    }

    /// Ends the transition that `from` shows, which every CPU has made. Returns the ASID that no CPU uses any more to
    /// the one caller that ended it.
    pub(crate) fn end(&self, from: Reading) -> Option<Asid> {
        match from.tagged() {
            Tagged::Adopting(_) => {
                self.change(from, from.0 & STATE & !MIXED);
                None
            }
            Tagged::Leaving(asid) => self.change(from, 0).then_some(asid),
            Tagged::Ending(asid) => self.change(from, HELD | u64::from(Asid::SHARED.get())).then_some(asid),
            Tagged::Slots | Tagged::Global(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_space_goes_to_an_asid_and_back_through_states_in_which_both_count() {
        let (tag, asid) = (Tag::new(None), Asid::new(9));
        assert_eq!((tag.read().tagged(), tag.read().asid()), (Tagged::Slots, None));
        assert!(tag.claim());
        assert!(!tag.claim(), "somebody is at it");
        assert_eq!(tag.read().tagged(), Tagged::Slots, "until it has one");
        assert_eq!(tag.adopt(Some(asid)), None);
        let adopting = tag.read();
        assert_eq!((adopting.tagged(), adopting.asid()), (Tagged::Adopting(asid), Some(asid)));
        assert!(!tag.claim() && !tag.leave(adopting));
        assert_eq!(tag.end(adopting), None);
        let global = tag.read();
        assert_eq!((global.tagged(), global.asid()), (Tagged::Global(asid), Some(asid)));
        assert!(tag.leave(global));
        let leaving = tag.read();
        assert_eq!(
            (leaving.tagged(), leaving.asid(), leaving.held()),
            (Tagged::Leaving(asid), None, Some(asid))
        );
        assert_eq!((tag.end(leaving), tag.end(leaving)), (Some(asid), None), "it is given back once");
        assert_eq!((tag.read().tagged(), tag.read().held()), (Tagged::Slots, None));
    }

    /// The steps of every history in the test below.
    const STEPS: usize = if cfg!(miri) { 4 } else { 7 };

    /// A tag, all readings of it that were made, and the true owner of the one ASID.
    struct History {
        word: u64,
        readings: [Reading; STEPS + 1],
        count: usize,
        /// The CPU that claimed the space has not adopted yet.
        claimed: bool,
        /// The space holds the ASID.
        held: bool,
        ended: bool,
    }

    /// Takes every step that a CPU could take, and every step after it.
    fn explore(history: &History, left: usize, seen: &mut u64) {
        *seen += 1;
        if left == 0 {
            return;
        }
        let asid = Asid::new(9);
        let step = |take: &dyn Fn(&Tag, &mut History), seen: &mut u64| {
            let tag = Tag(AtomicU64::new(history.word));
            let mut next = History { readings: history.readings, ..*history };
            take(&tag, &mut next);
            next.word = tag.0.load(Ordering::SeqCst);
            let reading = Reading(next.word);
            assert_eq!(reading.held(), next.held.then_some(asid), "{reading:x?}");
            assert_eq!(reading.has_ended(), next.ended);
            assert!(!next.ended || reading.asid().is_none_or(|asid| asid == Asid::SHARED), "{reading:x?}");
            next.readings[next.count] = reading;
            next.count += 1;
            explore(&next, left - 1, seen);
        };
        step(
            &|tag, next| {
                let claimed = tag.claim();
                assert!(!claimed || !(next.claimed || next.held || next.ended), "claimed twice");
                next.claimed |= claimed;
            },
            seen,
        );
        if history.claimed {
            for given in [None, Some(asid)] {
                step(
                    &|tag, next| {
                        let back = tag.adopt(given);
                        assert_eq!(
                            back,
                            given.filter(|_| next.ended),
                            "the ASID is the space's or the caller's"
                        );
                        next.held |= given.is_some() && back.is_none();
                        next.claimed = false;
                    },
                    seen,
                );
            }
        }
        step(
            &|tag, next| {
                assert_eq!(tag.retire().held(), next.held.then_some(asid));
                next.ended = true;
            },
            seen,
        );
        for &reading in &history.readings[..history.count] {
            // A space with an ASID from birth keeps it while it lives.
            if !reading.is_from_birth() {
                step(
                    &|tag, next| {
                        let leaves = tag.leave(reading);
                        assert!(!leaves || next.held && !next.ended && reading.0 == next.word);
                    },
                    seen,
                );
            }
            step(
                &|tag, next| {
                    if let Some(back) = tag.end(reading) {
                        assert!(next.held && back == asid, "it is given back once");
                        next.held = false;
                    }
                },
                seen,
            );
        }
    }

    /// All histories of so many steps, of a space on slots and of one with an ASID from birth. A CPU may act on any
    /// reading that it made, however old.
    #[test]
    fn in_every_history_the_asid_has_one_owner() {
        for born in [None, Some(Asid::new(9))] {
            let word = Tag::new(born).0.load(Ordering::SeqCst);
            let mut readings = [Reading(0); STEPS + 1];
            readings[0] = Reading(word);
            let first =
                History { word, readings, count: 1, claimed: false, held: born.is_some(), ended: false };
            let mut seen = 0;
            explore(&first, STEPS, &mut seen);
            assert!(cfg!(miri) || seen > 100_000, "{seen} histories");
        }
    }

    #[test]
    fn a_reading_of_an_earlier_transition_does_not_end_a_later_one() {
        let (tag, asid) = (Tag::new(None), Asid::new(9));
        assert!(tag.claim());
        assert_eq!(tag.adopt(Some(asid)), None);
        assert_eq!(tag.end(tag.read()), None);
        assert!(tag.leave(tag.read()));
        let first = tag.read();
        tag.end(first);
        assert!(tag.claim());
        assert_eq!(tag.adopt(Some(asid)), None);
        tag.end(tag.read());
        assert!(tag.leave(tag.read()));
        assert_eq!(tag.end(first), None);
        assert_eq!(tag.read().tagged(), Tagged::Leaving(asid));
    }

    #[test]
    fn a_claim_that_finds_no_asid_leaves_the_space_on_slots() {
        let tag = Tag::new(None);
        assert!(tag.claim());
        assert_eq!(tag.adopt(None), None);
        assert!(tag.claim());
    }

    #[test]
    fn the_asid_of_a_space_that_ends_is_handed_out_once_in_every_state() {
        let asid = Asid::new(9);
        let states: [fn(&Tag); 5] = [
            |_| (),
            |tag| assert!(tag.claim()),
            |tag| assert!(tag.claim() && tag.adopt(Some(Asid::new(9))).is_none()),
            |tag| {
                assert!(tag.claim() && tag.adopt(Some(Asid::new(9))).is_none());
                assert_eq!(tag.end(tag.read()), None);
            },
            |tag| {
                assert!(tag.claim() && tag.adopt(Some(Asid::new(9))).is_none());
                assert_eq!(tag.end(tag.read()), None);
                assert!(tag.leave(tag.read()));
            },
        ];
        for (at, reach) in states.iter().enumerate() {
            let tag = Tag::new(None);
            reach(&tag);
            let before = tag.read();
            let (ended, again) = (tag.retire(), tag.retire());
            assert_eq!((ended, ended.held(), ended.asid()), (again, (at > 1).then_some(asid), None));
            assert_eq!(tag.end(before), None, "it is another transition");
            assert_eq!(tag.end(ended), (at > 1).then_some(asid));
            assert_eq!((tag.end(ended), tag.read().tagged()), (None, Tagged::Slots));
            assert_eq!((tag.retire().held(), tag.read().held()), (None, None));
            assert!(!tag.leave(before) && !tag.leave(tag.read()) && !tag.claim());
            if at == 1 {
                assert_eq!(tag.adopt(Some(asid)), Some(asid), "it came too late");
            }
        }
    }

    #[test]
    fn a_space_that_was_born_with_an_asid_ends_on_the_shared_one() {
        let (tag, asid) = (Tag::new(Some(Asid::new(9))), Asid::new(9));
        let ended = tag.retire();
        assert_eq!((ended.tagged(), ended.asid()), (Tagged::Ending(asid), Some(Asid::SHARED)));
        assert_eq!((tag.end(ended), tag.end(ended)), (Some(asid), None));
        assert_eq!(tag.read().tagged(), Tagged::Global(Asid::SHARED));
        assert_eq!((tag.retire().held(), tag.read().asid()), (None, Some(Asid::SHARED)));
        assert!(!tag.leave(tag.read()));
        let shared = Tag::new(Some(Asid::SHARED));
        assert_eq!(shared.retire().tagged(), Tagged::Global(Asid::SHARED));
        assert_eq!((shared.retire().held(), shared.read().asid()), (None, Some(Asid::SHARED)));
    }
}
