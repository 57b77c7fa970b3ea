//! The TLB row of `/proc/interrupts`.

use std::fs;
use std::io;

/// The row's numbers, one for each CPU that is online; none if the kernel has no such row, as on Arm.
pub fn tlb_row(text: &str) -> Option<Vec<u64>> {
    let row = text.lines().find_map(|line| line.trim_start().strip_prefix("TLB:"))?;
    Some(row.split_whitespace().map_while(|word| word.parse().ok()).collect())
}

/// The sum of the row of the running kernel.
///
/// # Errors
/// If `/proc/interrupts` cannot be read.
pub fn tlb_sum() -> io::Result<Option<u64>> {
    let text = fs::read_to_string("/proc/interrupts")?;
    Ok(tlb_row(&text).map(|row| row.iter().sum()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_row_has_a_number_for_each_cpu() {
        let text = "            CPU0       CPU1\n  0:         44          0   IO-APIC   2-edge  timer\n\
                    TLB:    4868093    5010217   TLB shootdowns\n";
        assert_eq!(tlb_row(text), Some(vec![4_868_093, 5_010_217]));
        assert_eq!(tlb_row("CPU0\n"), None);
    }
}
