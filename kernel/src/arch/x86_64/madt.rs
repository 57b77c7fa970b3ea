//! The machine's CPUs: the ACPI table that lists interrupt controllers (ACPI 6.5, section 5.2.12).

use super::memory::direct;

/// Bytes of the header of every table, and the offset of the length in it.
const HEADER: u64 = 36;
const LENGTH: u64 = 4;
/// The offset of the table's first entry.
const ENTRIES: u64 = 44;
/// Kinds of entries: a local APIC, a local x2APIC.
const LOCAL_APIC: u8 = 0;
const LOCAL_X2APIC: u8 = 9;
/// The CPU can be used.
const USABLE: u32 = 1;

fn read<T: Copy>(address: u64) -> T {
    // SAFETY: the firmware's tables lie in memory that nothing changes, and the kernel maps all of it. T is an integer.
    unsafe { direct::<T>(address).read_unaligned() }
}

/// The numbers of the usable CPUs' APICs, from the root pointer that the loader handed over. Empty without such a
/// table.
pub(super) fn apics(root_pointer: u64) -> impl Iterator<Item = u32> {
    let table = find(root_pointer, *b"APIC").unwrap_or(0);
    let end = if table == 0 { 0 } else { table + u64::from(read::<u32>(table + LENGTH)) };
    let mut at = table + ENTRIES;
    core::iter::from_fn(move || {
        while at + 2 <= end {
            let (entry, kind, length) = (at, read::<u8>(at), read::<u8>(at + 1));
            at += u64::from(length.max(2));
            let (id, flags) = match kind {
                LOCAL_APIC => (u32::from(read::<u8>(entry + 3)), read::<u32>(entry + 4)),
                LOCAL_X2APIC => (read::<u32>(entry + 4), read::<u32>(entry + 8)),
                _ => continue,
            };
            if flags & USABLE != 0 {
                return Some(id);
            }
        }
        None
    })
}

/// The table with that signature.
fn find(root_pointer: u64, signature: [u8; 4]) -> Option<u64> {
    if root_pointer == 0 {
        return None;
    }
    // From revision 2 on the list has wide addresses.
    let wide = read::<u8>(root_pointer + 15) >= 2;
    let (list, width) = if wide {
        (read::<u64>(root_pointer + 24), 8)
    } else {
        (u64::from(read::<u32>(root_pointer + 16)), 4)
    };
    let end = list + u64::from(read::<u32>(list + LENGTH));
    (list + HEADER..end).step_by(width).find_map(|entry| {
        let table = if wide { read::<u64>(entry) } else { u64::from(read::<u32>(entry)) };
        (read::<[u8; 4]>(table) == signature).then_some(table)
    })
}
