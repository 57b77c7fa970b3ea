//! Stands in for the kernel where there is none, so that everything else compiles and its logic can be tested.

use ceasefire_kernel_abi::Error;

use super::Recovery;

/// Fails: there is no such call.
pub(crate) unsafe fn call(_number: u64, _arguments: [u64; 5]) -> u64 {
    Error::NoCall.encode()
}

/// Nothing is mapped.
pub(crate) fn try_load(_address: u64) -> Option<u64> {
    None
}

/// Nothing is mapped.
pub(crate) fn try_store(_address: u64, _value: u64) -> bool {
    false
}

/// Nothing is mapped.
pub(crate) fn load(_address: u64) -> u64 {
    panic!("nothing is mapped")
}

/// No instruction's accesses may fail.
pub(crate) fn recovery() -> Recovery {
    Recovery { start: 0, end: 0, to: 0 }
}
