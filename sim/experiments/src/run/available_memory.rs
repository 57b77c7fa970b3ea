//! The memory of this computer that a run may take.

use std::fs;

/// The memory that this process may still take, in bytes; as much as can be imagined if the system does not say.
pub fn available_memory() -> u64 {
    let free = fs::read_to_string("/proc/meminfo").ok().and_then(|text| available_of(&text));
    let number =
        |file: &str| fs::read_to_string(format!("/sys/fs/cgroup/{file}")).ok()?.trim().parse::<u64>().ok();
    // A container has a limit of its own. Without one the file says `max`, which is no number.
    let limit =
        number("memory.max").zip(number("memory.current")).map(|(most, now)| most.saturating_sub(now));
    [free, limit].into_iter().flatten().min().unwrap_or(u64::MAX)
}

/// `MemAvailable` of `/proc/meminfo`, in bytes.
fn available_of(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_available_memory_is_read_from_meminfo() {
        let text = "MemTotal:       24576000 kB\nMemFree:         1000000 kB\nMemAvailable:   20000000 kB\n";
        assert_eq!(available_of(text), Some(20_000_000 * 1024));
        for text in ["", "MemAvailable: many kB", "MemAvailable: 5"] {
            assert_eq!(available_of(text), None, "{text}");
        }
        assert!(available_memory() > 1 << 20);
    }
}
