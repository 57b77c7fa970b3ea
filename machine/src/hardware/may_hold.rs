//! Which CPUs may hold entries of an ASID, so that whoever has to visit these visits no others.
//!
//! A CPU holds none of an ASID that it never loaded. So it is noted when it loads one, and no more once everything of
//! that ASID was invalidated everywhere while it had another loaded. In between it may long have dropped all of them: then
//! a visit finds nothing, as that of the hardware would. With 8192 CPUs and a thousand spaces this is the difference
//! between a handful of visits and all of them.

use ceasefire::{CpuId, CpuSet};

use crate::hardware::numbers::cpu_id;

/// The CPUs of one ASID.
#[derive(Debug)]
struct Holders {
    /// Those that have it loaded now: all that remain once it is emptied. Kept, so that nobody has to ask each CPU.
    loaded: CpuSet,
    may_hold: CpuSet,
}

/// For each ASID, the CPUs that may hold entries of it.
#[derive(Debug, Default)]
pub(crate) struct MayHold(Vec<Option<Box<Holders>>>);

impl MayHold {
    fn find(&mut self, asid: u16) -> Option<&mut Holders> {
        self.0.get_mut(usize::from(asid))?.as_deref_mut()
    }

    /// A CPU loads an ASID instead of another one, and may fill entries under it from now on.
    pub(crate) fn loads(&mut self, cpu: usize, instead_of: u16, asid: u16) {
        if let Some(before) = self.find(instead_of) {
            before.loaded.remove(cpu_id(cpu));
        }
        let index = usize::from(asid);
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        let empty = || Box::new(Holders { loaded: CpuSet::new(), may_hold: CpuSet::new() });
        let holders = self.0[index].get_or_insert_with(empty);
        holders.loaded.insert(cpu_id(cpu));
        holders.may_hold.insert(cpu_id(cpu));
    }

    /// The CPUs that may hold entries of an ASID, in order.
    pub(crate) fn of(&self, asid: u16) -> impl Iterator<Item = usize> + '_ {
        self.0
            .get(usize::from(asid))
            .and_then(Option::as_deref)
            .into_iter()
            .flat_map(|holders| holders.may_hold.iter().map(CpuId::index))
    }

    /// Every entry of an ASID was invalidated everywhere: only CPUs that have it loaded may come to hold one.
    pub(crate) fn emptied(&mut self, asid: u16) {
        if let Some(Holders { loaded, may_hold }) = self.find(asid) {
            may_hold.clone_from(loaded);
        }
    }

    /// Every entry of every ASID was.
    pub(crate) fn all_emptied(&mut self) {
        for slot in &mut self.0 {
            // Of what nobody has loaded nothing is left to be known.
            slot.take_if(|holders| holders.loaded.is_empty());
            if let Some(holders) = slot {
                holders.may_hold.clone_from(&holders.loaded);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(may_hold: &MayHold, asid: u16) -> Vec<usize> {
        may_hold.of(asid).collect()
    }

    #[test]
    fn who_loaded_an_asid_may_hold_it_until_it_is_emptied_elsewhere() {
        let mut may_hold = MayHold::default();
        for (cpu, before, asid) in [(3, 0, 9), (0, 0, 9), (8191, 0, 9), (1, 9, 2)] {
            may_hold.loads(cpu, before, asid);
        }
        assert_eq!(
            (of(&may_hold, 9), of(&may_hold, 2), of(&may_hold, 3)),
            (vec![0, 3, 8191], vec![1], vec![])
        );
        may_hold.loads(0, 9, 7);
        may_hold.loads(8191, 9, 9);
        assert_eq!((of(&may_hold, 9), of(&may_hold, 7)), (vec![0, 3, 8191], vec![0]));
        may_hold.emptied(9);
        assert_eq!((of(&may_hold, 9), of(&may_hold, 7), of(&may_hold, 2)), (vec![3, 8191], vec![0], vec![1]));
        may_hold.emptied(500);
        may_hold.loads(3, 9, 2);
        may_hold.loads(0, 7, 2);
        may_hold.all_emptied();
        assert_eq!(
            (of(&may_hold, 9), of(&may_hold, 7), of(&may_hold, 2)),
            (vec![8191], vec![], vec![0, 1, 3])
        );
    }
}
