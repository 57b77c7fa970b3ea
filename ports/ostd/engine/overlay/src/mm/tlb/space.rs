//! What a `VmSpace` has for the engine.

use alloc::sync::Arc;
use core::ops::Deref;

use ceasefire::{AddressSpace, Root, TableGuard};

use super::machine::{ENGINE, Machine};
use crate::mm::{Paddr, VmSpace};

/// The engine's state of an address space. It knows the CPUs that may hold translations of the space.
#[derive(Debug)]
pub struct Space(Loaded);

impl Space {
    /// The state of a new space whose page tables begin at `root`.
    pub(in crate::mm) fn new(root: Paddr) -> Self {
        let state = Arc::new(ENGINE.new_space(Root(root as u64)));
        Self(Loaded { state, _space: None })
    }
}

impl Deref for Space {
    type Target = AddressSpace;

    fn deref(&self) -> &AddressSpace {
        &self.0.state
    }
}

/// A reference to the state of a space. A CPU has one to the space that it runs, and that one keeps the page tables too.
/// Debts outlive page tables, and need the state alone.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    state: Arc<AddressSpace>,
    _space: Option<Arc<VmSpace>>,
}

impl Loaded {
    /// Makes this CPU run a space. The CPU keeps the space alive until it runs another.
    pub(in crate::mm) fn load(space: &Arc<VmSpace>) {
        let state = space.coherence().0.state.clone();
        let previous = ENGINE.switch_to(&Self { state, _space: Some(space.clone()) });
        drop(previous);
    }
}

impl AsRef<AddressSpace> for Loaded {
    fn as_ref(&self) -> &AddressSpace {
        &self.state
    }
}

/// A part of a page table that a cursor has locked.
#[derive(Debug)]
pub(super) struct Locked<'a>(&'a Space);

impl<'a> Locked<'a> {
    /// The caller has a cursor of the space.
    pub(super) fn new(space: &'a Space) -> Self {
        Self(space)
    }
}

// SAFETY: the caller has a cursor, which locks the tables of its range. It names one space.
unsafe impl TableGuard<Machine> for Locked<'_> {
    fn space(&self) -> &Loaded {
        &self.0.0
    }
}
