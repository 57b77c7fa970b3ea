//! What a `VmSpace` has for the engine.

use alloc::sync::Arc;
use core::ops::Deref;

use ceasefire::{AddressSpace, Root};

use super::machine::ENGINE;
use crate::mm::{Paddr, VmSpace};

/// The engine's state of an address space. It knows the CPUs that may hold translations of the space.
#[derive(Debug)]
pub struct Space(AddressSpace);

impl Space {
    /// The state of a new space whose page tables begin at `root`.
    pub(in crate::mm) fn new(root: Paddr) -> Self {
        Self(ENGINE.new_space(Root(root as u64)))
    }
}

impl Deref for Space {
    type Target = AddressSpace;

    fn deref(&self) -> &AddressSpace {
        &self.0
    }
}

/// The reference that a CPU has to the space that it runs.
#[derive(Clone, Debug)]
pub(crate) struct Loaded(Arc<VmSpace>);

impl Loaded {
    /// Makes this CPU run a space. The CPU keeps the space alive until it runs another.
    pub(in crate::mm) fn load(space: &Arc<VmSpace>) {
        let previous = ENGINE.switch_to(&Self(space.clone()));
        drop(previous);
    }
}

impl AsRef<AddressSpace> for Loaded {
    fn as_ref(&self) -> &AddressSpace {
        self.0.coherence()
    }
}
