//! The processor time of the emulator, by which a hang is told from a busy host.

use std::time::Duration;

/// The processor time that all threads of a process have used; none where the host does not tell.
#[cfg(target_os = "linux")]
pub(super) fn processor_time(process: u32) -> Option<Duration> {
    let used = procfs::process::Process::new(process.try_into().ok()?).ok()?.stat().ok()?;
    Some(Duration::from_millis((used.utime + used.stime) * 1000 / procfs::ticks_per_second()))
}

#[cfg(not(target_os = "linux"))]
pub(super) fn processor_time(_: u32) -> Option<Duration> {
    None
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn time_is_counted_while_a_process_works() {
        let used = || processor_time(std::process::id()).expect("a process may see its own time");
        let before = used();
        while used() == before {
            std::hint::spin_loop();
        }
        assert!(used() > before);
        assert_eq!(processor_time(u32::MAX), None);
    }
}
