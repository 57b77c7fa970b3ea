//! The kernel's calls, with types.

use ceasefire_kernel_abi::{Advice, Call, Counter, Error, Finding, Parameter, ANYWHERE};

use crate::arch;

/// The accesses that a range of addresses allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protection {
    /// None.
    Nothing,
    /// Loads.
    Loads,
    /// Loads and stores.
    All,
}

/// The process in which a fork returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Forked {
    /// The copy.
    Child,
    /// The original, with the copy's number.
    Parent(u64),
}

/// Calls the kernel. Missing arguments are 0.
fn call<const N: usize>(call: Call, given: [u64; N]) -> Result<u64, Error> {
    let mut arguments = [0; 5];
    arguments[..N].copy_from_slice(&given);
    // SAFETY: the functions below that write to memory have exclusive access to it. Those that change mappings are
    // given ranges that are accessed through `arch::try_load` and `arch::try_store` alone, or that a `Mapping` owned.
    Error::decode(unsafe { arch::call(call as u64, arguments) })
}

/// A call that cannot fail with any arguments.
fn certain<const N: usize>(number: Call, given: [u64; N]) -> u64 {
    call(number, given).unwrap_or_else(|error| panic!("{number:?} failed: {error:?}"))
}

/// Ends the thread.
pub(crate) fn exit(code: u64) -> ! {
    loop {
        let _ = call(Call::Exit, [code]);
    }
}

/// Prints a line.
pub(crate) fn log(line: &str) {
    let _ = call(Call::Log, [line.as_ptr() as u64, line.len() as u64]);
}

/// Starts a process of the same image.
pub(crate) fn spawn(entry: extern "C" fn(u64) -> !, argument: u64, cpu: u64) -> Result<u64, Error> {
    call(Call::Spawn, [entry as *const () as u64, argument, cpu])
}

/// Starts a thread on a stack that ends at `stack`.
pub(crate) fn thread(
    entry: extern "C" fn(u64) -> !,
    argument: u64,
    cpu: u64,
    stack: u64,
) -> Result<u64, Error> {
    call(Call::Thread, [entry as *const () as u64, argument, cpu, stack])
}

/// Copies the process, with this thread alone.
pub(crate) fn fork() -> Result<Forked, Error> {
    call(Call::Fork, []).map(|number| if number == 0 { Forked::Child } else { Forked::Parent(number) })
}

/// Waits for a process or thread. Returns its code.
pub(crate) fn wait(number: u64) -> Result<u64, Error> {
    call(Call::Wait, [number])
}

/// Lets other threads run.
pub(crate) fn give_way() {
    certain(Call::Yield, []);
}

/// Sleeps.
pub(crate) fn sleep(nanoseconds: u64) {
    certain(Call::Sleep, [nanoseconds]);
}

/// Nanoseconds since the machine started.
pub(crate) fn now() -> u64 {
    certain(Call::Now, [])
}

/// The CPU that this runs on.
pub(crate) fn cpu() -> u64 {
    certain(Call::Cpu, [])
}

/// Runs on one CPU from now on.
pub(crate) fn pin(cpu: u64) {
    certain(Call::Pin, [cpu]);
}

/// Runs on any CPU from now on.
pub(crate) fn unpin() {
    certain(Call::Pin, [ANYWHERE]);
}

/// A parameter of the run.
pub(crate) fn parameter(parameter: Parameter) -> u64 {
    certain(Call::Parameter, [parameter as u64])
}

/// Allows the accesses of [`arch::try_load`] and [`arch::try_store`] to fail.
pub(crate) fn recover() {
    let arch::Recovery { start, end, to } = arch::recovery();
    certain(Call::Recover, [start, end, to]);
}

/// Maps fresh memory. Returns its address.
pub(crate) fn map_anonymous(pages: u64) -> Result<u64, Error> {
    call(Call::MapAnonymous, [pages])
}

/// Maps a file from its first page on. Returns its address.
pub(crate) fn map_shared(file: u64, pages: u64, writable: bool) -> Result<u64, Error> {
    map_part(file, 0, pages, writable)
}

/// Maps a file from page `first` on. Returns its address.
pub(crate) fn map_part(file: u64, first: u64, pages: u64, writable: bool) -> Result<u64, Error> {
    call(Call::MapShared, [file, first, pages, u64::from(writable)])
}

/// Unmaps a range.
pub(crate) fn unmap(start: u64, bytes: u64) -> Result<(), Error> {
    call(Call::Unmap, [start, bytes]).map(drop)
}

/// Moves a mapping.
pub(crate) fn move_to(start: u64, bytes: u64, to: u64) -> Result<(), Error> {
    call(Call::Remap, [start, bytes, bytes, to]).map(drop)
}

/// Sets the accesses that a range allows.
pub(crate) fn protect(start: u64, bytes: u64, protection: Protection) -> Result<(), Error> {
    call(Call::Protect, [start, bytes, protection as u64]).map(drop)
}

/// Advises the kernel about a range.
pub(crate) fn advise(start: u64, bytes: u64, advice: Advice) -> Result<(), Error> {
    call(Call::Advise, [start, bytes, advice as u64]).map(drop)
}

/// Makes a file. Returns its number.
pub(crate) fn create_file(pages: u64) -> Result<u64, Error> {
    call(Call::CreateFile, [pages])
}

/// Deletes a file.
pub(crate) fn delete_file(file: u64) -> Result<(), Error> {
    call(Call::DeleteFile, [file]).map(drop)
}

/// Reads 8 bytes of a file; none beyond its end.
pub(crate) fn read_file(file: u64, offset: u64) -> Result<Option<u64>, Error> {
    let mut bytes = [0; 8];
    let count = call(Call::ReadFile, [file, offset, bytes.as_mut_ptr() as u64, bytes.len() as u64])?;
    Ok((count == bytes.len() as u64).then_some(u64::from_le_bytes(bytes)))
}

/// Writes 8 bytes to a file.
pub(crate) fn write_file(file: u64, offset: u64, value: u64) -> Result<(), Error> {
    let bytes = value.to_le_bytes();
    call(Call::WriteFile, [file, offset, bytes.as_ptr() as u64, bytes.len() as u64]).map(drop)
}

/// Gives a file a length.
pub(crate) fn truncate(file: u64, bytes: u64) -> Result<(), Error> {
    call(Call::Truncate, [file, bytes]).map(drop)
}

/// Writes a file's dirty pages to the device.
pub(crate) fn sync_file(file: u64) -> Result<(), Error> {
    call(Call::SyncFile, [file]).map(drop)
}

/// Moves this process's pages from one node to another, as far as there is room.
pub(crate) fn migrate(from: u64, to: u64) -> Result<(), Error> {
    match call(Call::Migrate, [0, from, to]) {
        Ok(_) | Err(Error::NoMemory) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Moves the pages of a range to a node, as far as there is room. Pages that other processes map stay.
pub(crate) fn move_pages(start: u64, bytes: u64, node: u64) -> Result<(), Error> {
    call(Call::MovePages, [start, bytes, node]).map(drop)
}

/// Makes the kernel reclaim the pages of a range, as it does when memory is short. Pages that other processes map stay.
pub(crate) fn reclaim(start: u64, bytes: u64) -> Result<(), Error> {
    call(Call::Reclaim, [start, bytes]).map(drop)
}

/// Maps fresh pages in an area of the kernel. Returns their address.
pub(crate) fn map_kernel(area: u64, pages: u64) -> Result<u64, Error> {
    call(Call::MapKernel, [area, pages])
}

/// Unmaps what [`map_kernel`] has mapped at an address, now or lazily.
pub(crate) fn unmap_kernel(address: u64, lazily: bool) -> Result<(), Error> {
    call(Call::UnmapKernel, [address, u64::from(lazily)]).map(drop)
}

/// Completes the lazy unmaps of an area of the kernel.
pub(crate) fn purge_kernel(area: u64) -> Result<(), Error> {
    call(Call::PurgeKernel, [area]).map(drop)
}

/// Loads a word of an area of the kernel in kernel mode, if something is mapped there.
pub(crate) fn load_kernel(address: u64) -> Option<u64> {
    call(Call::LoadKernel, [address]).ok()
}

/// Stores to a word of an area of the kernel in kernel mode. Returns whether something is mapped there.
pub(crate) fn store_kernel(address: u64, value: u64) -> bool {
    call(Call::StoreKernel, [address, value]).is_ok()
}

/// Takes a CPU offline for some time.
pub(crate) fn offline(cpu: u64, nanoseconds: u64) -> Result<(), Error> {
    call(Call::Offline, [cpu, nanoseconds]).map(drop)
}

/// Begins the measurement.
pub(crate) fn measure_begin() {
    certain(Call::MeasureBegin, []);
}

/// Ends the measurement.
pub(crate) fn measure_end(operations: u64) {
    certain(Call::MeasureEnd, [operations]);
}

/// The value of a counter since the machine started.
pub(crate) fn counter(counter: Counter) -> u64 {
    certain(Call::Counter, [counter as u64])
}

/// Ends the run as failed; where it is to go on, the thread.
pub(crate) fn report(finding: Finding, address: u64, expected: u64, found: u64) -> ! {
    let _ = call(Call::Report, [finding as u64, address, expected, found]);
    exit(0)
}
