//! Which CPUs may hold entries of an ASID, so that whoever has to visit these visits no others.
//!
//! A CPU holds none of an ASID that it never loaded. So it is noted when it loads one, and no more once everything of
//! that ASID was invalidated everywhere while it had another loaded. In between it may long have dropped all of them: then
//! a visit finds nothing, as that of the hardware would. With 8192 CPUs and a thousand spaces this is the difference
//! between a handful of visits and all of them.

use ceasefire::{CpuId, CpuSet};

use crate::task::cpu_id;

/// For each ASID, the CPUs that may hold entries of it.
#[derive(Debug, Default)]
pub(crate) struct MayHold(Vec<Option<Box<CpuSet>>>);

impl MayHold {
    /// A CPU loads an ASID, under which it may fill entries from now on.
    pub(crate) fn loads(&mut self, cpu: usize, asid: u16) {
        let index = usize::from(asid);
        if self.0.len() <= index {
            self.0.resize_with(index + 1, || None);
        }
        let set = self.0[index].get_or_insert_with(|| Box::new(CpuSet::new()));
        set.insert(cpu_id(cpu));
    }

    /// The CPUs that may hold entries of an ASID, in order.
    pub(crate) fn of(&self, asid: u16) -> impl Iterator<Item = usize> + '_ {
        self.0
            .get(usize::from(asid))
            .and_then(Option::as_deref)
            .into_iter()
            .flat_map(|set| set.iter().map(CpuId::index))
    }

    /// Every entry of an ASID was invalidated everywhere: only CPUs that have it loaded may come to hold one.
    pub(crate) fn emptied(&mut self, asid: u16, has_loaded: impl Fn(usize) -> bool) {
        if let Some(Some(set)) = self.0.get_mut(usize::from(asid)) {
            set.retain(|cpu| has_loaded(cpu.index()));
        }
    }

    /// Every entry of every ASID was.
    pub(crate) fn all_emptied(&mut self, loaded: impl Iterator<Item = (usize, u16)>) {
        self.0.clear();
        loaded.for_each(|(cpu, asid)| self.loads(cpu, asid));
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
        for (cpu, asid) in [(3, 9), (0, 9), (8191, 9), (1, 2)] {
            may_hold.loads(cpu, asid);
        }
        assert_eq!(
            (of(&may_hold, 9), of(&may_hold, 2), of(&may_hold, 3)),
            (vec![0, 3, 8191], vec![1], vec![])
        );
        may_hold.emptied(9, |cpu| cpu == 3);
        assert_eq!((of(&may_hold, 9), of(&may_hold, 2)), (vec![3], vec![1]));
        may_hold.emptied(500, |_| true);
        may_hold.all_emptied([(5, 7)].into_iter());
        assert_eq!((of(&may_hold, 9), of(&may_hold, 7)), (vec![], vec![5]));
    }
}
