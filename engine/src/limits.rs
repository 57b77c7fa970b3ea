//! The size of the engine: the limits that a kernel states when it builds.
//!
//! The sizes of all structures follow from them. A kernel writes the limits in the `[env]` section of its
//! `.cargo/config.toml`. This example is for four CPUs and no broadcasts:
//!
//! ```toml
//! [env]
//! CEASEFIRE_MAX_CPUS = "4"
//! CEASEFIRE_MAX_ASIDS = "0"
//! ```
//!
//! A variable that is not set keeps its default. A value out of range stops the build.

/// The largest number of CPUs that a machine may have: `CEASEFIRE_MAX_CPUS` when the engine was built, 1 to 8192; 64 if
/// it was not set. [`CpuId::new`](crate::CpuId::new) refuses a larger one.
///
/// A [`Batch`](crate::Batch) on a kernel's stack holds three sets of CPUs. It takes 944 bytes with 64 CPUs, 4016 with
/// 8192, so the limit should not be larger than the kernel's own.
pub const MAX_CPUS: usize = match bound(option_env!("CEASEFIRE_MAX_CPUS"), 64, 1, 8192) {
    Some(bound) => bound as usize,
    None => panic!("CEASEFIRE_MAX_CPUS must be a whole number, 1 to 8192"),
};

/// The largest number of ASIDs that mean the same on every CPU: `CEASEFIRE_MAX_ASIDS` when the engine was built, 0 to
/// 65536; 65536 if it was not set. 0 is for a machine without broadcasts; [`Broadcast::new`](crate::Broadcast::new)
/// then returns an error.
///
/// ASIDs are 16 bits wide on Arm, 12 on x86.
pub const MAX_ASIDS: u32 = match bound(option_env!("CEASEFIRE_MAX_ASIDS"), 1 << 16, 0, 1 << 16) {
    Some(bound) => bound,
    None => panic!("CEASEFIRE_MAX_ASIDS must be a whole number, 0 to 65536"),
};

/// The number of spaces in whose sets a CPU is at most, the one that it runs among them: `CEASEFIRE_PLACES` when the
/// engine was built, 1 to 16; 2 if it was not set. With 1 a CPU leaves a space's set at every switch.
///
/// A CPU holds a reference to each of these spaces, so a space that ends may live on for as long as a CPU runs no
/// other.
pub const PLACES: usize = match bound(option_env!("CEASEFIRE_PLACES"), 2, 1, 16) {
    Some(bound) => bound as usize,
    None => panic!("CEASEFIRE_PLACES must be a whole number, 1 to 16"),
};

/// The number in `text`, or `default` if there is no text; `None` unless it is a number from `least` to `most`.
const fn bound(text: Option<&str>, default: u32, least: u32, most: u32) -> Option<u32> {
    let Some(text) = text else { return Some(default) };
    let digits = text.as_bytes();
    let mut number = 0;
    let mut at = 0;
    while at < digits.len() {
        let digit = digits[at].wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + digit as u32;
        if number > most {
            return None;
        }
        at += 1;
    }
    if at == 0 || number < least {
        return None;
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_a_whole_number_in_range() {
        let cpus = |text| bound(text, 8192, 1, 8192);
        assert_eq!((cpus(None), cpus(Some("1")), cpus(Some("8192"))), (Some(8192), Some(1), Some(8192)));
        assert_eq!(bound(Some("0"), 1 << 16, 0, 1 << 16), Some(0));
        for refused in ["", "0", "8193", "99999999999999999999", "-1", "+1", "4 ", "x", "1.5"] {
            assert_eq!(cpus(Some(refused)), None, "{refused}");
        }
    }
}
