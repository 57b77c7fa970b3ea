//! The CPUs that may hold entries of each ASID, so that a visit of these need not include the others.
//!
//! A CPU holds no entries of an ASID that it never loaded. It is recorded when it loads the ASID. It is removed once
//! everything of that ASID was invalidated on all CPUs while it had another ASID loaded. In between it may have
//! dropped all its entries: then a visit finds nothing, like a visit by the hardware. With 8192 CPUs and a thousand
//! spaces this saves nearly all visits.

use ceasefire::{CpuId, CpuSet};

use crate::hardware::numbers::cpu_id;

/// The CPUs of one ASID.
#[derive(Debug)]
struct Holders {
    /// The CPUs that have it loaded now, which are all that remain after [`MayHold::emptied`]. Stored, to avoid a
    /// scan of all CPUs.
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

    /// A CPU loads an ASID in place of another, and may fill entries under it from now on.
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

    /// Every entry of an ASID was invalidated on all CPUs. Only CPUs that have it loaded may fill new ones.
    pub(crate) fn emptied(&mut self, asid: u16) {
        if let Some(Holders { loaded, may_hold }) = self.find(asid) {
            may_hold.clone_from(loaded);
        }
    }

    /// Every entry of every ASID was invalidated on all CPUs.
    pub(crate) fn all_emptied(&mut self) {
        for slot in &mut self.0 {
            // An ASID that no CPU has loaded needs no record.
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
    fn a_cpu_that_left_an_asid_may_hold_it_until_it_is_emptied() {
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
