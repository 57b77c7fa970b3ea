//! Damaged recordings are read as far as they go, or refused in one line. Nothing panics.
//!
//! `PROPTEST_CASES=100000 cargo test -p ceasefire-linux --test recordings damage` tries more than the default.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

use crate::reader::Trace;
use ceasefire::Schedule;
use ceasefire_linux::difference::Profile;
use ceasefire_linux::export::export;
use ceasefire_linux::recording::{anonymize, Recording};
use ceasefire_linux::replay::{replay, Mechanism};
use proptest::prelude::*;
use proptest::sample::Index;

/// One thing that happens to a file.
#[derive(Debug, Clone)]
enum Damage {
    /// A byte changes.
    Flip(Index, u8),
    /// A word changes to a number that is at a limit.
    Word(Index, u64),
    /// The end is gone.
    Cut(Index),
    /// A part is copied over another.
    Copy(Index, Index, u8),
}

fn damage() -> impl Strategy<Value = Damage> {
    let limits = prop::sample::select(vec![0, 1, 0x7f, 0x80, 0xffff_ffff, 1 << 63, u64::MAX]);
    prop_oneof![
        4 => (any::<Index>(), 1_u8..).prop_map(|(at, by)| Damage::Flip(at, by)),
        2 => (any::<Index>(), limits).prop_map(|(at, word)| Damage::Word(at, word)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => (any::<Index>(), any::<Index>(), any::<u8>()).prop_map(|(to, from, count)| Damage::Copy(to, from, count)),
    ]
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let count = bytes.len();
        match self {
            Self::Flip(at, by) => bytes[at.index(count)] ^= by,
            Self::Word(at, word) => {
                let at = at.index(count);
                let end = count.min(at + 8);
                bytes[at..end].copy_from_slice(&word.to_le_bytes()[..end - at]);
            }
            Self::Cut(at) => bytes.truncate(at.index(count)),
            Self::Copy(to, from, many) => {
                let (to, from) = (to.index(count), from.index(count));
                let many = usize::from(*many).min(count - to.max(from));
                bytes.copy_within(from..from + many, to);
            }
        }
    }
}

/// The recordings that are kept.
fn kept() -> Vec<Vec<u8>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings");
    let mut paths: Vec<PathBuf> =
        fs::read_dir(folder).expect("recordings").map(|entry| entry.expect("an entry").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "parquet"));
    paths.sort();
    paths.iter().map(|path| fs::read(path).expect("a recording")).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_recording_is_replayed_and_exported_or_refused(
        which: Index,
        damages in prop::collection::vec(damage(), 1..4),
    ) {
        let all = kept();
        let mut bytes = which.get(&all).clone();
        for damage in &damages {
            damage.apply(&mut bytes);
        }
        let mut file = tempfile::NamedTempFile::new().expect("a temporary file");
        file.write_all(&bytes).expect("room");
        let open = || Recording::open(file.path()).map_err(|error| error.to_string());
        let mechanisms =
            [Mechanism::of_linux("6.18"), Mechanism::new(Schedule::Lazy, true), Mechanism::new(Schedule::PerPage, false)];
        let replayed = open()
            .and_then(|mut recording| replay(&mut recording, &mechanisms).map_err(|error| error.to_string()));
        let profile =
            open().and_then(|mut recording| Profile::of(&mut recording).map_err(|error| error.to_string()));
        let mut trace = Vec::new();
        let exported =
            open().and_then(|mut recording| export(&mut recording, &mut trace).map_err(|error| error.to_string()));
        // Slices nest and times ascend, whatever the recording says.
        let slices = Trace::of(&trace).slices;
        prop_assert!(exported.is_err() || slices.iter().all(|slice| slice.ends.is_some()));
        let anonymous =
            open().and_then(|mut recording| anonymize(&mut recording, Vec::new()).map_err(|error| error.to_string()));
        let refused = [replayed.err(), profile.err(), exported.err(), anonymous.err()];
        for refused in refused.into_iter().flatten() {
            prop_assert!(!refused.contains('\n'), "{}", refused);
        }
    }
}
