//! A CPU that plays a scenario: it changes pages, and knows what each page may show.

use core::ops::Range;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::SeqCst;

use crate::kernel::{Away, Cpu, Failed, PAGES};
use crate::stage::Stage;
use crate::verdict::{Broken, Finding, Verdict};
use crate::word::{version, word, POISON, VERSIONS};

/// The end of a scenario on a CPU before its body ends.
#[derive(Debug)]
pub(crate) enum Stop {
    Because(Verdict),
    /// Another CPU has ended it.
    Told,
}

impl From<Failed> for Stop {
    fn from(failed: Failed) -> Self {
        Self::Because(Verdict::Failed(failed))
    }
}

pub(crate) type Done = Result<(), Stop>;

/// A CPU and the stage.
#[derive(Debug)]
pub(crate) struct Actor<'a, C> {
    pub(crate) cpu: &'a C,
    pub(crate) stage: &'a Stage,
}

impl<C: Cpu> Actor<'_, C> {
    pub(crate) fn number(&self) -> usize {
        self.cpu.number()
    }

    pub(crate) fn cpus(&self) -> usize {
        self.stage.cpus.load(SeqCst)
    }

    pub(crate) fn rounds(&self) -> Range<usize> {
        0..self.stage.rounds.load(SeqCst) as usize
    }

    /// The CPU whose turn it is.
    pub(crate) fn turn(&self, round: usize) -> usize {
        round % self.cpus()
    }

    // How the CPUs wait for each other.

    /// Waits until something is true, or the scenario ends.
    pub(crate) fn wait(&self, until: impl Fn() -> bool) -> Done {
        while !until() {
            if self.stage.is_stopped() {
                return Err(Stop::Told);
            }
            self.cpu.pause();
        }
        Ok(())
    }

    /// Waits until all CPUs are here.
    pub(crate) fn meet(&self) -> Done {
        let stage = self.stage;
        let meeting = stage.meetings.load(SeqCst);
        if stage.arrived.fetch_add(1, SeqCst) + 1 == self.cpus() {
            stage.arrived.store(0, SeqCst);
            stage.meetings.fetch_add(1, SeqCst);
        }
        self.wait(|| stage.meetings.load(SeqCst) != meeting)
    }

    /// One CPU does something, between two meetings of all.
    pub(crate) fn alone(&self, cpu: usize, act: impl FnOnce() -> Done) -> Done {
        self.meet()?;
        if self.number() == cpu {
            act()?;
        }
        self.meet()
    }

    /// The first CPU acts, once in each round, while the others do something over and over. No page is mapped at the
    /// start.
    pub(crate) fn race(
        &self,
        mut act: impl FnMut(usize) -> Done,
        mut meanwhile: impl FnMut() -> Done,
    ) -> Done {
        self.clear()?;
        if self.number() == 0 {
            self.rounds().try_for_each(&mut act)?;
            self.stage.over.store(true, SeqCst);
        } else {
            while !self.stage.over.load(SeqCst) {
                meanwhile()?;
                // One CPU may share a processor of the host with another.
                self.cpu.pause();
                if self.stage.is_stopped() {
                    return Err(Stop::Told);
                }
            }
        }
        self.meet()
    }

    /// Waits until every CPU from `first` on has seen a version.
    pub(crate) fn seen_by(&self, first: usize, version: u64) -> Done {
        let seen = |cpu: usize| self.stage.seen[cpu].load(SeqCst) >= version;
        (first..self.cpus()).try_for_each(|cpu| self.wait(|| seen(cpu)))
    }

    /// Waits until every other CPU has made so many accesses.
    pub(crate) fn used_again(&self, times: u64) -> Done {
        let accesses = |cpu: usize| self.stage.accesses[cpu].load(SeqCst);
        let mut others = (0..self.cpus()).filter(|cpu| *cpu != self.number());
        others.try_for_each(|cpu| {
            let before = accesses(cpu);
            self.wait(|| accesses(cpu) >= before + times)
        })
    }

    // What pages may show.

    fn next(&self) -> u64 {
        let version = self.stage.versions.fetch_add(1, SeqCst) + 1;
        assert!(version < VERSIONS, "a scenario of more than {VERSIONS} versions");
        version
    }

    /// The version that was mapped at a page last.
    pub(crate) fn newest(&self, page: usize) -> u64 {
        self.stage.pages[page].most.load(SeqCst)
    }

    /// A version is about to be taken away.
    fn leaving(&self, page: usize) {
        let law = &self.stage.pages[page];
        law.there.store(0, SeqCst);
        law.open.store(0, SeqCst);
    }

    /// It was: no access that begins now may show it.
    fn taken_away(&self, page: usize) {
        let law = &self.stage.pages[page];
        law.least.store(law.most.load(SeqCst) + 1, SeqCst);
    }

    /// Unmaps everything that another scenario left.
    pub(crate) fn clear(&self) -> Done {
        self.alone(0, || self.unmap(0..PAGES))
    }

    /// Maps a new version. Returns its number.
    pub(crate) fn map(&self, page: usize) -> Result<u64, Stop> {
        let version = self.next();
        let law = &self.stage.pages[page];
        law.sealed.fetch_add(law.sealed.load(SeqCst) % 2, SeqCst);
        law.most.store(version, SeqCst);
        self.cpu.map(page, word(version))?;
        law.there.store(version, SeqCst);
        law.open.store(version, SeqCst);
        Ok(version)
    }

    /// Unmaps ranges by one call.
    pub(crate) fn unmap_all(&self, ranges: &[Range<usize>]) -> Done {
        let pages = || ranges.iter().cloned().flatten();
        pages().for_each(|page| self.leaving(page));
        self.cpu.unmap(ranges)?;
        pages().for_each(|page| self.taken_away(page));
        Ok(())
    }

    pub(crate) fn unmap(&self, range: Range<usize>) -> Done {
        self.unmap_all(core::slice::from_ref(&range))
    }

    pub(crate) fn remap(&self, from: usize, to: usize) -> Done {
        let law = &self.stage.pages[to];
        let version = self.newest(from);
        law.most.store(version, SeqCst);
        self.leaving(from);
        self.cpu.remap(from, to)?;
        self.taken_away(from);
        law.there.store(version, SeqCst);
        Ok(())
    }

    pub(crate) fn protect(&self, page: usize) -> Done {
        self.stage.pages[page].open.store(0, SeqCst);
        self.cpu.protect(page)?;
        self.stage.pages[page].sealed.fetch_add(1, SeqCst);
        Ok(())
    }

    /// Has the kernel take a page on its own account. CPUs may still read its version.
    pub(crate) fn evict(&self, page: usize) -> Done {
        self.leaving(page);
        Ok(self.cpu.evict(page)?)
    }

    /// Has free frames used for something else.
    pub(crate) fn reuse(&self) -> Done {
        Ok(self.cpu.reuse(POISON)?)
    }

    // Accesses.

    fn found(&self, place: u64, broken: Broken) -> Stop {
        Stop::Because(Verdict::Broken(Finding { cpu: self.number(), place, broken }))
    }

    fn accessed(&self) {
        self.stage.accesses[self.number()].fetch_add(1, SeqCst);
    }

    /// An access to a page was not possible. That is wrong if a version was `there` before it, and still is.
    fn failed(&self, page: usize, there: &AtomicU64, before: u64) -> Done {
        if before != 0 && there.load(SeqCst) == before {
            return Err(self.found(page as u64, Broken::Missing));
        }
        Ok(())
    }

    /// Checks a loaded word.
    fn judge(&self, place: u64, least: u64, loaded: u64, most: u64) -> Result<u64, Stop> {
        match version(loaded) {
            Some(loaded) if loaded < least => Err(self.found(place, Broken::Stale { loaded, least })),
            Some(version) if version <= most => Ok(version),
            _ => Err(self.found(place, Broken::Foreign { loaded })),
        }
    }

    /// Loads from a page, which may be mapped or not. Returns the version.
    pub(crate) fn look(&self, page: usize) -> Result<Option<u64>, Stop> {
        let law = &self.stage.pages[page];
        let (least, there) = (law.least.load(SeqCst), law.there.load(SeqCst));
        let loaded = self.cpu.load(page);
        self.accessed();
        let Some(loaded) = loaded else { return self.failed(page, &law.there, there).map(|()| None) };
        let version = self.judge(page as u64, least, loaded, law.most.load(SeqCst))?;
        self.stage.seen[self.number()].fetch_max(version, SeqCst);
        Ok(Some(version))
    }

    /// Loads from a page that is mapped.
    pub(crate) fn see(&self, page: usize) -> Done {
        match self.look(page)? {
            Some(_) => Ok(()),
            None => Err(self.found(page as u64, Broken::Missing)),
        }
    }

    /// Loads from a page that is not mapped.
    pub(crate) fn miss(&self, page: usize) -> Done {
        // No version is allowed there.
        self.look(page).map(drop)
    }

    /// Stores to a page the word that it has.
    pub(crate) fn touch(&self, page: usize) -> Done {
        let law = &self.stage.pages[page];
        let (sealed, open) = (law.sealed.load(SeqCst), law.open.load(SeqCst));
        let version = self.newest(page);
        let stored = self.cpu.store(page, word(version));
        self.accessed();
        // It may have become another mapping meanwhile.
        if stored && sealed % 2 == 1 && law.sealed.load(SeqCst) == sealed {
            return Err(self.found(page as u64, Broken::Stored));
        }
        if !stored {
            return self.failed(page, &law.open, open);
        }
        self.stage.seen[self.number()].fetch_max(version, SeqCst);
        Ok(())
    }

    /// Maps a new version in the kernel's addresses. Returns its address.
    pub(crate) fn map_kernel(&self) -> Result<u64, Stop> {
        Ok(self.cpu.map_kernel(word(self.next()))?)
    }

    /// Loads from a range of the kernel, which shows the version that was mapped last.
    pub(crate) fn see_kernel(&self, address: u64) -> Done {
        let newest = self.stage.versions.load(SeqCst);
        let loaded = self.cpu.load_kernel(address).ok_or_else(|| self.found(address, Broken::Missing))?;
        self.accessed();
        self.judge(address, newest, loaded, newest).map(drop)
    }

    /// Loads from a page so many times, with interrupts off.
    pub(crate) fn stare(&self, page: usize, times: usize) -> Done {
        let mut done = Ok(());
        self.cpu.with_interrupts_off(&mut || done = (0..times).try_for_each(|_| self.look(page).map(drop)));
        done
    }

    /// Leaves the space until something is true, or the scenario ends. Counts on the stage that it has left.
    pub(crate) fn away(&self, to: Away, until: impl Fn() -> bool) -> Done {
        let counted = core::cell::Cell::new(false);
        self.cpu.away(to, &|| {
            if !counted.replace(true) {
                self.stage.count.fetch_add(1, SeqCst);
            }
            until() || self.stage.is_stopped()
        });
        if self.stage.is_stopped() {
            return Err(Stop::Told);
        }
        Ok(())
    }
}
