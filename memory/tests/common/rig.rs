//! The machine with its memory manager, and the programs that run on it.

use std::sync::atomic::Ordering;
use std::sync::Arc;

use ceasefire::Broadcast;
use ceasefire_memory::shadow::Shadow;
use ceasefire_memory::{Access, Config, ConfigError, FaultError, FrameNumber, Memory, SpaceHandle};

use super::threads::{Threads, CPU, OFF};

/// The machine with its memory manager.
#[derive(Clone)]
pub(crate) struct Rig {
    pub(crate) memory: Arc<Memory<Threads>>,
}

impl Rig {
    /// A machine whose CPUs are threads; the calling one is CPU 0 until it says otherwise.
    pub(crate) fn threaded(config: Config) -> Self {
        Self::new(config, false, None)
    }

    /// The same, with processors that broadcast if they can.
    pub(crate) fn threaded_with(config: Config, broadcast: Option<Broadcast>) -> Self {
        Self::new(config, false, broadcast)
    }

    /// A machine with one thread, which acts as CPU 0 and, in [`Rig::on`], as the others.
    pub(crate) fn by_hand(config: Config) -> Self {
        Self::new(config, true, None)
    }

    /// The same, with processors that broadcast if they can.
    pub(crate) fn by_hand_with(config: Config, broadcast: Option<Broadcast>) -> Self {
        Self::new(config, true, broadcast)
    }

    fn new(config: Config, by_hand: bool, broadcast: Option<Broadcast>) -> Self {
        CPU.set(0);
        OFF.set(0);
        let platform = Threads::new(&config, by_hand, broadcast);
        let memory = Arc::new(Memory::new(platform, config).expect("there are frames"));
        memory.platform().memory.set(Arc::downgrade(&memory)).expect("set once");
        Self { memory }
    }

    /// The error for a machine with this configuration.
    pub(crate) fn refused(config: Config) -> ConfigError {
        Memory::new(Threads::new(&config, true, None), config).expect_err("such a machine is refused")
    }

    pub(crate) fn platform(&self) -> &Threads {
        self.memory.platform()
    }

    /// Makes the calling thread a CPU for good.
    pub(crate) fn start(&self, cpu: usize) -> OnPanic<'_> {
        CPU.set(cpu);
        OFF.set(0);
        OnPanic(self.platform())
    }

    /// Runs `body` as another CPU.
    pub(crate) fn on<R>(&self, cpu: usize, body: impl FnOnce() -> R) -> R {
        assert!(
            cpu < self.platform().cores.len() && OFF.get() == 0,
            "moved to CPU {cpu} with interrupts off"
        );
        let before = CPU.replace(cpu);
        let result = body();
        CPU.set(before);
        result
    }

    /// Makes the CPU run a program of `space`.
    pub(crate) fn run(&self, space: &SpaceHandle<Threads>) {
        drop(self.memory.engine().switch_to(space));
        self.platform().core().resting.store(false, Ordering::Release);
        self.platform().report(self.platform().watched(Shadow::runs));
    }

    /// Makes the CPU run no program.
    pub(crate) fn rest(&self) {
        self.platform().watched(Shadow::rests);
        self.platform().core().resting.store(true, Ordering::Release);
        self.memory.engine().enter_lazy();
    }

    pub(crate) fn load(&self, space: &SpaceHandle<Threads>, address: u64) -> Result<u64, FaultError> {
        self.access(space, address, None)
    }

    pub(crate) fn store(
        &self,
        space: &SpaceHandle<Threads>,
        address: u64,
        value: u64,
    ) -> Result<(), FaultError> {
        self.access(space, address, Some(value)).map(drop)
    }

    /// A load by the kernel from its own half, whose tables are under `root`; `None` if nothing is mapped there.
    pub(crate) fn load_kernel(&self, root: FrameNumber, address: u64) -> Option<u64> {
        self.platform().poll();
        self.platform().touch_kernel(root, address, None)
    }

    /// A store by the kernel to its own half; whether something is mapped there.
    pub(crate) fn store_kernel(&self, root: FrameNumber, address: u64, value: u64) -> bool {
        self.platform().poll();
        self.platform().touch_kernel(root, address, Some(value)).is_some()
    }

    /// An access as a program sees it: if it faults, the fault is handled and the access tried again.
    fn access(
        &self,
        space: &SpaceHandle<Threads>,
        address: u64,
        store: Option<u64>,
    ) -> Result<u64, FaultError> {
        loop {
            self.platform().poll();
            if let Some(value) = self.platform().touch(space.root(), address, store) {
                return Ok(value);
            }
            let access = if store.is_some() { Access::Write } else { Access::Read };
            self.memory.fault(space, address, access)?;
        }
    }
}

/// Tells the other CPUs when this one fails, so they stop waiting for it.
pub(crate) struct OnPanic<'a>(&'a Threads);

impl Drop for OnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.failed.store(true, Ordering::Relaxed);
        }
    }
}

/// An address space of the rig.
pub(crate) type Space = SpaceHandle<Threads>;
