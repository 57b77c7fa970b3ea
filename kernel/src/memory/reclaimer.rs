//! Background reclaim: one kernel thread for each node.

use alloc::sync::Arc;
use alloc::vec::Vec;

use ceasefire_memory::NodeId;

use crate::lock::IrqLock;
use crate::manager::memory;
use crate::threads::stack::Stack;
use crate::threads::thread::{next_number, Body, Thread, ANYWHERE};
use crate::threads::{current, schedule};

/// The threads, by node.
static RECLAIMERS: IrqLock<Vec<Arc<Thread>>> = IrqLock::new(Vec::new());

/// Makes one thread for each node.
pub(crate) fn start(nodes: usize) {
    for _ in 0..nodes {
        let Some(stack) = Stack::take() else { return };
        let thread = schedule::new_thread(next_number(), None, ANYWHERE, stack, Body::Kernel(reclaim));
        RECLAIMERS.lock().push(thread);
    }
}

/// Reclaims on the thread's node each time the thread is woken.
fn reclaim() {
    loop {
        let me = current::thread().number;
        let node = RECLAIMERS.lock().iter().position(|thread| thread.number == me);
        if let Some(node) = node {
            memory().reclaim_node(NodeId(node as u16));
        }
        schedule::park();
    }
}

/// Wakes the thread of a node.
pub(crate) fn wake(node: NodeId) {
    let reclaimer = RECLAIMERS.lock().get(node.index()).cloned();
    if let Some(thread) = reclaimer {
        schedule::unpark(&thread);
    }
}
