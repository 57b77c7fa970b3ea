//! Files of perf record and of trace-cmd: imported, they count as a recording of our own does, and a damaged one is read
//! or refused.

use std::io::{Cursor, Write as _};
use std::path::PathBuf;

use ceasefire_linux::events::Names;
use ceasefire_linux::import::{import, ImportError, Imported, Kallsyms};
use ceasefire_linux::recording::{Count, Foreign, Recording, RecordingError};
use ceasefire_linux::replay::{replay, Mechanism};
use ceasefire_linux::shootdowns::{Cause, Sum, Totals};
use proptest::prelude::*;

/// Each file, and its kind. Its program flushed 50 times for madvise.
const FILES: [(&str, Foreign); 3] = [
    ("perf.data", Foreign::PerfData),
    ("trace-6.dat", Foreign::TraceDat),
    ("trace-7.dat", Foreign::TraceDat),
];
const FLUSHES: u64 = 50;
/// Others of perf, of the same program: compressed, a stream, and a directory compressed. They have no system calls.
const OF_PERF: [&[&str]; 3] = [
    &["perf-z.data"],
    &["perf-stream.data"],
    &["perf-threads/data", "perf-threads/data.0", "perf-threads/data.1"],
];
const RELEASE: &str = "6.18.44-fc-v595";
/// The bytes with which compressed parts begin.
const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

fn file(name: &str) -> Vec<u8> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/import").join(name);
    std::fs::read(path).expect("a file")
}

fn kallsyms() -> String {
    String::from_utf8(file("kallsyms")).expect("text")
}

fn imported(bytes: Vec<u8>) -> Result<Imported<Vec<u8>>, ImportError> {
    let kallsyms = kallsyms();
    let kallsyms = Kallsyms { given: Some(&kallsyms), running: None };
    import(Cursor::new(bytes), Vec::new(), kallsyms, vec!["test".into()], Vec::new())
}

/// Imports a file of [`OF_PERF`], of another start of the machine, with those beside it.
fn imported_of_perf(files: Vec<Vec<u8>>) -> Result<Imported<Vec<u8>>, ImportError> {
    let mut files = files.into_iter().map(Cursor::new);
    let first = files.next().expect("a file");
    let kallsyms = Kallsyms { given: Some("ffffffff813424a0 t flush_tlb_func\n"), running: None };
    import(first, files.collect(), kallsyms, Vec::new(), Vec::new())
}

fn refusal(bytes: Vec<u8>) -> String {
    let error = imported(bytes).map(|imported| imported.recorded.facts);
    let error = error.expect_err("a file that cannot be imported").to_string();
    assert!(!error.contains('\n'), "{error}");
    error
}

/// The bytes with others at a place.
fn with(mut bytes: Vec<u8>, at: usize, others: &[u8]) -> Vec<u8> {
    bytes[at..at + others.len()].copy_from_slice(others);
    bytes
}

/// Where some bytes first are.
fn find(bytes: &[u8], part: &[u8]) -> usize {
    bytes.windows(part.len()).position(|window| window == part).expect("the part")
}

fn of_program(totals: &Totals, cause: Cause, name: impl Fn(u32) -> Option<String>) -> Sum {
    let sums = totals
        .processes
        .iter()
        .filter(|((process, of), _)| name(*process).as_deref() == Some("shootdowns") && *of == cause);
    let mut sums = sums.map(|(_, sum)| *sum);
    let sum = sums.next().expect("flushes");
    assert!(sums.next().is_none(), "one process");
    sum
}

#[test]
fn an_imported_file_counts_as_a_recording_does() {
    for (name, kind) in FILES {
        let Imported { recorded, absent } = imported(file(name)).expect("a file");
        let facts = &recorded.facts;
        assert_eq!((facts.imported, facts.tlb_row, facts.overhead), (Some(kind), None, None), "{name}");
        assert_eq!(
            (facts.kernel.as_str(), facts.cpus.as_slice()),
            (&*format!("Linux {RELEASE}"), &[(0, 0), (1, 0)][..])
        );
        assert!(!facts.light && facts.lost.is_none(), "{name}: {facts:?}");
        let names =
            |process| recorded.totals.names.get(&process).map(|name| recorded.names.get(*name).to_owned());
        let sum = of_program(&recorded.totals, Cause::Madvise, names);
        assert_eq!((sum.flushes, sum.requests), (FLUSHES, FLUSHES), "{name}");
        // One more when the program ends.
        assert_eq!((facts.answered, facts.asked), (FLUSHES + 1, Some(FLUSHES + 1)), "{name}");
        let lacks = |name: &str| absent.iter().any(|of| of == name);
        assert!(lacks("kmem:*") && lacks("lock:*") && !lacks("csd:*"), "{absent:?}");
    }
}

#[test]
fn an_imported_file_can_be_replayed() {
    for (name, kind) in FILES {
        let mut to = tempfile::NamedTempFile::new().expect("a temporary file");
        to.write_all(&imported(file(name)).expect("a file").recorded.to).expect("room");
        let mut recording = Recording::open(to.path()).expect("a recording");
        let replayed = replay(&mut recording, &[Mechanism::of_linux(RELEASE)]).expect("a full recording");
        assert_eq!(replayed.facts.imported, Some(kind));
        let of_madvise = replayed.observed.totals.causes.get(&Cause::Madvise).map(|sum| sum.requests);
        assert!(of_madvise == Some(FLUSHES) && replayed.lost.is_none(), "{name}");
        let ratio = replayed.predicted[0].asked.requests as f64 / replayed.observed.asked.requests as f64;
        assert!((0.9..1.1).contains(&ratio), "{name}: {ratio}");
    }
}

#[test]
fn both_versions_of_trace_cmd_have_the_same_events() {
    let [six, seven] =
        ["trace-6.dat", "trace-7.dat"].map(|name| imported(file(name)).expect("a file").recorded);
    assert_eq!(six.facts, seven.facts);
    assert!(six.to == seven.to);
}

#[test]
fn a_file_that_is_no_recording_says_how_to_make_one_of_it() {
    for (name, kind) in FILES {
        let mut to = tempfile::NamedTempFile::new().expect("a temporary file");
        to.write_all(&file(name)).expect("room");
        let error = Recording::open(to.path()).expect_err("no recording");
        assert!(matches!(error, RecordingError::Foreign(of) if of == kind), "{name}: {error}");
        assert!(error.to_string().contains("ceasefire import FILE"), "{error}");
    }
}

#[test]
fn the_running_kernel_lends_its_symbols_to_its_own_files_alone() {
    let kallsyms = kallsyms();
    let moved = kallsyms.replace("ffffffff81000000 T _text", "ffffffff82000000 T _text");
    let with = |running| {
        let kallsyms = Kallsyms { given: None, running };
        import(Cursor::new(file("perf.data")), Vec::new(), kallsyms, Vec::new(), Vec::new())
    };
    assert!(with(Some((RELEASE, &kallsyms))).is_ok());
    for running in [None, Some(("6.18.45", &*kallsyms)), Some((RELEASE, &moved)), Some((RELEASE, ""))] {
        let error =
            with(running).map(|imported| imported.recorded.facts).expect_err("no symbols").to_string();
        assert!(error.contains("flush_tlb_func") && error.contains("--kallsyms"), "{error}");
    }
    // A file of trace-cmd has them.
    let own =
        import(Cursor::new(file("trace-6.dat")), Vec::new(), Kallsyms::default(), Vec::new(), Vec::new());
    assert_eq!(own.expect("a file").recorded.facts.answered, FLUSHES + 1);
}

#[test]
fn wrong_files_are_refused_with_the_remedy() {
    let (perf, six, seven) = (file("perf.data"), file("trace-6.dat"), file("trace-7.dat"));
    for (bytes, part) in [
        (Vec::new(), "neither a perf.data file of perf record nor a trace.dat file of trace-cmd"),
        (b"PAR1 and more".to_vec(), "neither a perf.data file"),
        (with(perf.clone(), 0, b"2ELIFREP"), "another byte order"),
        (
            file("perf-stream.data")[..16].to_vec(),
            "no list of events at its beginning: use 'perf record -o FILE'",
        ),
        (with(perf.clone(), 8, &[16]), "the file is damaged: "),
        // The length of the records is unknown until perf ends.
        (with(perf.clone(), 48, &[0; 8]), "let perf record end by itself"),
        // Without the part that describes events.
        (with(perf.clone(), 72, &[0]), "neither the events csd:csd_queue_cpu and"),
        (perf[..perf.len() / 2].to_vec(), "the file is cut off: it has"),
        (with(six.clone(), 12, &[1]), "another byte order"),
        (with(six.clone(), 13, &[4]), "32 bits"),
        (with(six.clone(), 10, b"5"), "version '5'"),
        (with(six.clone(), find(&six, b"[mono]"), b"[tick]"), "the clock \"tick\""),
        (with(six.clone(), 14, &[1, 0]), "the size of a page"),
        (six[..5000].to_vec(), "the file is cut off: it has 5000 bytes"),
        (with(seven.clone(), find(&seven, b"zstd"), b"zlib"), "trace-cmd convert --compression none"),
    ] {
        let error = refusal(bytes);
        assert!(error.contains(part), "{error}: lacks {part}");
    }
}

/// Where the attributes of perf's events are, each with the number of its event's format.
fn attributes(perf: &[u8]) -> Vec<(usize, u64)> {
    let word = |at: usize| u64::from_le_bytes(perf[at..at + 8].try_into().expect("eight bytes"));
    let (entry, at, bytes) = (word(16) as usize, word(24) as usize, word(32) as usize);
    (0..bytes / entry).map(|number| at + number * entry).map(|at| (at, word(at + 8))).collect()
}

const PERIOD: usize = 16;
const FLAGS: usize = 40;

#[test]
fn a_sample_of_the_events_is_no_recording() {
    let perf = file("perf.data");
    let (queue, _) = attributes(&perf)[0];
    let error = refusal(with(perf.clone(), queue + PERIOD, &[10]));
    assert!(error.contains("csd:csd_queue_cpu, one in 10: use 'perf record -c 1'"), "{error}");
    // The tenth flag: the period is a frequency.
    let flags = perf[queue + FLAGS + 1] | 1 << 2;
    let error = refusal(with(with(perf, queue + FLAGS + 1, &[flags]), queue + PERIOD, &[99]));
    assert!(error.contains("csd:csd_queue_cpu, at most 99 a second"), "{error}");
}

/// `perf record -e '{tlb:tlb_flush,csd:...}:S'`: the others of the group are counted with the first.
#[test]
fn an_event_that_is_counted_and_not_recorded_is_absent() {
    let mut perf = file("perf.data");
    for (at, _) in attributes(&perf).into_iter().filter(|(_, format)| (527..530).contains(format)) {
        perf = with(perf, at + PERIOD, &[0]);
    }
    let Imported { recorded, absent } = imported(perf).expect("a file");
    let facts = &recorded.facts;
    assert_eq!((facts.counted, facts.answered), (Count::Flushed, FLUSHES));
    assert!(absent.contains(&"csd:*".to_owned()) && facts.lost.is_none(), "{absent:?}");
}

/// Its formats are of all the kernel's events.
#[test]
fn an_event_that_an_extracted_buffer_describes_and_does_not_have_is_absent() {
    let mut six = file("trace-6.dat");
    for (name, id) in [("csd_queue_cpu", "997"), ("csd_function_entry", "998"), ("csd_function_exit", "999")]
    {
        let format = format!("name: {name}\nID: ");
        let at = find(&six, format.as_bytes()) + format.len();
        six = with(six, at, id.as_bytes());
    }
    let all = |six: Vec<u8>| {
        let at = find(&six, b"exceptions\0");
        imported(with(six, at, b"workqueues")).expect("a file")
    };
    let Imported { recorded, absent } = all(six.clone());
    assert_eq!((recorded.facts.counted, recorded.facts.answered), (Count::Flushed, FLUSHES));
    assert!(absent.contains(&"csd:*".to_owned()), "{absent:?}");
    // A file that describes what was asked for has had it, and found none.
    assert_eq!(imported(six).expect("a file").recorded.facts.counted, Count::Sent);
    let Imported { recorded, .. } = all(file("trace-6.dat"));
    assert_eq!((recorded.facts.counted, recorded.facts.answered), (Count::Sent, FLUSHES + 1));
}

#[test]
fn the_events_of_a_named_buffer_are_read() {
    let seven = file("trace-7.dat");
    // The name, which is empty, and the clock.
    let at = find(&seven, b"\0mono\0");
    assert_eq!(imported(with(seven, at, b"B\0tai\0")).expect("a file").recorded.facts.answered, FLUSHES + 1);
}

#[test]
fn a_clock_without_a_name_is_the_local_one() {
    let six = file("trace-6.dat");
    let at = find(&six, b"[mono]");
    assert_eq!(imported(with(six, at, b"[]    ")).expect("a file").recorded.facts.answered, FLUSHES + 1);
}

#[test]
fn what_perf_compressed_streamed_or_split_counts_alike() {
    for names in OF_PERF {
        let Imported { recorded, absent } =
            imported_of_perf(names.iter().map(|name| file(name)).collect()).expect("a file");
        let facts = &recorded.facts;
        assert_eq!((facts.counted, facts.answered), (Count::Sent, FLUSHES + 1), "{names:?}");
        assert_eq!((facts.asked, facts.cpus.len()), (Some(FLUSHES + 1), 2), "{names:?}");
        assert_eq!(facts.kernel, "Linux 6.18.44-fc-v657", "{names:?}");
        assert!(facts.lost.is_none() && absent.contains(&"csd:csd_function_entry".to_owned()), "{facts:?}");
        let named = recorded.totals.names.values().any(|name| recorded.names.get(*name) == "shootdowns");
        assert!(named, "{names:?}");
    }
}

#[test]
fn a_part_of_a_directory_of_perf_is_refused() {
    let error = imported_of_perf(vec![file("perf-threads/data")]).map(|imported| imported.recorded.facts);
    let error = error.expect_err("a part").to_string();
    assert!(error.contains("import its directory"), "{error}");
}

#[test]
fn a_directory_of_perf_without_its_last_file_has_lost_what_it_had() {
    let facts = imported_of_perf(OF_PERF[2][..2].iter().map(|name| file(name)).collect()).expect("the rest");
    assert!(facts.recorded.facts.lost.uncounted, "{:?}", facts.recorded.facts);
}

#[test]
fn what_is_missing_of_compressed_records_counts_as_lost() {
    let perf = file("perf-z.data");
    let zstd = find(&perf, &ZSTD);
    for bytes in [with(perf.clone(), zstd, &[0; 4]), with(perf.clone(), zstd + 9, &[0xff; 40])] {
        // Nothing else has events.
        let error = imported_of_perf(vec![bytes]).map(|imported| imported.recorded.facts.answered);
        assert!(matches!(error, Err(ImportError::Empty)), "{error:?}");
    }
    // A directory without the end of its last file.
    let mut files: Vec<Vec<u8>> = OF_PERF[2].iter().map(|name| file(name)).collect();
    let last = files.last_mut().expect("files");
    last.truncate(last.len() - 20);
    let facts = imported_of_perf(files).expect("the rest").recorded.facts;
    assert!(facts.lost.uncounted && facts.lost.unreadable > 0 && facts.unseen > 0, "{facts:?}");
    assert_eq!(facts.asked, Some(FLUSHES + 1), "the other file");
}

/// Compresses the records of each round of a file, in pieces that end amid records and blocks.
fn packed(perf: &[u8], kind: u32) -> Vec<u8> {
    let word = |at: usize| u64::from_le_bytes(perf[at..at + 8].try_into().expect("eight bytes")) as usize;
    let (mut at, end) = (word(40), word(40) + word(48));
    let features: u32 = perf[72..104].iter().map(|byte| byte.count_ones()).sum();
    let (mut packed, mut round) = (Vec::new(), Vec::new());
    // The window has a kilobyte.
    let mut zstd = [&ZSTD[..], &[0, 0]].concat();
    while at < end {
        let bytes = usize::from(u16::from_le_bytes([perf[at + 6], perf[at + 7]]));
        let record = &perf[at..at + bytes];
        at += bytes;
        // Mappings, and the records of perf.
        if record[0] != 1 && record[0] < 64 {
            round.extend_from_slice(record);
            if at < end {
                continue;
            }
        }
        for block in round.chunks(700) {
            zstd.extend_from_slice(&((block.len() as u32) << 3).to_le_bytes()[..3]);
            zstd.extend_from_slice(block);
        }
        round.clear();
        for piece in zstd.chunks(500) {
            let length = if kind == 83 { &(piece.len() as u64).to_le_bytes()[..] } else { &[] };
            let padding =
                if kind == 83 { vec![0; piece.len().next_multiple_of(8) - piece.len()] } else { Vec::new() };
            let body = [length, piece, &padding].concat();
            packed.extend_from_slice(
                &[&kind.to_le_bytes()[..], &[0, 0], &(body.len() as u16 + 8).to_le_bytes()].concat(),
            );
            packed.extend_from_slice(&body);
        }
        zstd.clear();
        if record[0] == 1 || record[0] >= 64 {
            packed.extend_from_slice(record);
        }
    }
    // The list of features stands behind the records.
    let file = [perf, &packed, &perf[end..end + features as usize * 16]].concat();
    with(with(file, 40, &perf.len().to_le_bytes()), 48, &packed.len().to_le_bytes())
}

#[test]
fn compressed_records_have_their_order() {
    let perf = file("perf.data");
    let recorded = imported(perf.clone()).expect("a file").recorded;
    for kind in [81, 83] {
        let packed = imported(packed(&perf, kind)).expect("a file").recorded;
        assert!(packed.facts.lost.is_none(), "{:?}", packed.facts);
        assert!(packed.to == recorded.to, "{kind}");
    }
}

/// `perf record --tail-synthesize`.
#[test]
fn what_perf_notes_behind_the_records_is_read() {
    let mut perf = file("perf.data");
    let word = |at: usize| u64::from_le_bytes(perf[at..at + 8].try_into().expect("eight bytes")) as usize;
    let (at, bytes) = (word(40), word(48));
    let noted = find(&perf, b"[kernel.kallsyms]_text");
    let end = noted + find(&perf[noted..], &[3, 0, 0, 0]);
    perf[at..at + bytes].rotate_left(end - at);
    let kallsyms = kallsyms();
    let kallsyms = Kallsyms { given: None, running: Some((RELEASE, &kallsyms)) };
    let imported = import(Cursor::new(perf), Vec::new(), kallsyms, Vec::new(), Vec::new());
    assert_eq!(imported.expect("a file").recorded.facts.answered, FLUSHES + 1);
}

/// `trace-cmd record -C tai`, in 2026.
#[test]
fn a_clock_that_counts_from_1970_is_read() {
    let six = file("trace-6.dat");
    let facts = imported(six.clone()).expect("a file").recorded.facts;
    let mut tai = six.clone();
    for page in (0..six.len()).step_by(4096) {
        let time = u64::from_le_bytes(six[page..page + 8].try_into().expect("eight bytes"));
        if (facts.began_ns..=facts.ended_ns).contains(&time) {
            tai = with(tai, page, &(time + 1_790_000_000_000_000_000).to_le_bytes());
        }
    }
    let since = imported(tai).expect("a file").recorded.facts;
    assert_eq!((since.answered, since.duration_ns()), (facts.answered, facts.duration_ns()));
    assert!(since.began_ns == 0 && since.lost.is_none(), "{since:?}");
}

/// Recorded by hand, with too few events.
#[test]
fn a_recording_without_switches_or_calls_is_not_replayed() {
    for (chosen, lacks) in [(372..373, "sched:sched_switch"), (690..730, "syscalls:sys_enter_")] {
        let mut perf = file("perf.data");
        for (at, _) in attributes(&perf).into_iter().filter(|(_, format)| chosen.contains(format)) {
            perf = with(perf, at + PERIOD, &[0]);
        }
        let mut to = tempfile::NamedTempFile::new().expect("a temporary file");
        to.write_all(&imported(perf).expect("a file").recorded.to).expect("room");
        let mut recording = Recording::open(to.path()).expect("a recording");
        let error = replay(&mut recording, &[Mechanism::of_linux(RELEASE)]).map(|replayed| replayed.facts);
        let error = error.expect_err("no replay").to_string();
        assert!(error.starts_with(&format!("the recording has no {lacks}")), "{error}");
    }
}

fn recording(name: &str) -> Recording {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("recordings/import").join(name);
    Recording::open(&path).expect("a Parquet file")
}

#[test]
fn a_recording_that_another_program_compressed_is_read() {
    let rows = |name: &str| {
        let mut rows = Vec::new();
        let read = recording(name).each(&mut Names::default(), |row, _| -> Result<(), RecordingError> {
            rows.push(row);
            Ok(())
        });
        read.unwrap_or_else(|error| panic!("{name}: {error}"));
        rows
    };
    let of_gzip = rows("gzip.parquet");
    assert_eq!(of_gzip.len(), 40);
    for name in ["lz4.parquet", "zstd.parquet", "zstd-2.parquet", "polars.parquet"] {
        assert!(rows(name) == of_gzip, "{name}");
    }
}

#[test]
fn a_recording_without_a_value_that_each_row_has_is_damaged() {
    let read = recording("null.parquet")
        .each(&mut Names::default(), |_, _| -> Result<(), RecordingError> { Ok(()) });
    let error = read.expect_err("a row without a CPU").to_string();
    assert!(error.contains("a row without a value that each row has"), "{error}");
}

#[test]
fn a_recording_that_is_compressed_in_another_way_says_how_to_write_it() {
    let error = replay(&mut recording("brotli.parquet"), &[Mechanism::of_linux(RELEASE)]);
    let error = error.map(|replayed| replayed.facts).expect_err("compressed").to_string();
    assert!(error.contains("write it with Snappy or uncompressed"), "{error}");
}

#[test]
fn a_file_without_events_is_refused() {
    let six = file("trace-6.dat");
    // One page less at a time, until the last is gone.
    let error =
        (1..six.len() / 4096).find_map(|pages| imported(six[..six.len() - 4096 * pages].to_vec()).err());
    let error = error.expect("a file without pages").to_string();
    assert!(error.starts_with("the file has no events: nothing was recorded"), "{error}");
}

#[test]
fn pages_that_cannot_be_read_count_as_lost() {
    let (six, seven) = (file("trace-6.dat"), file("trace-7.dat"));
    // The pages of the last CPU: the last compressed part but one, which is of names.
    let parts = seven.windows(4).enumerate().filter(|(_, window)| *window == ZSTD);
    let pages = parts.map(|(at, _)| at).rev().nth(1).expect("compressed pages");
    for bytes in [six[..six.len() - 4096].to_vec(), with(seven, pages, &[0; 4])] {
        let facts = imported(bytes).expect("the rest").recorded.facts;
        assert!(facts.lost.uncounted && facts.lost.unreadable > 0 && facts.unseen > 0, "{facts:?}");
    }
}

#[test]
fn lost_events_are_counted() {
    let bytes = file("trace-6.dat");
    let at = find(&bytes, b"overrun: 0");
    assert_eq!(imported(with(bytes, at, b"overrun: 7")).expect("a file").recorded.facts.lost.events, 7);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_damaged_file_is_read_or_refused(
        which in 0_usize..6,
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<Option<prop::sample::Index>>(),
        in_head: bool,
    ) {
        let others = which.checked_sub(FILES.len()).map(|which| OF_PERF[which]);
        let mut files: Vec<Vec<u8>> = others.unwrap_or(&[FILES[which % 3].0]).iter().map(|name| file(name)).collect();
        let bytes = files.last_mut().expect("a file");
        for (at, byte) in flips {
            // The numbers on which everything depends stand at the beginning.
            let at = at.index(if in_head { 400 } else { bytes.len() });
            bytes[at] ^= byte;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        let imported = if others.is_some() { imported_of_perf(files) } else { imported(files.remove(0)) };
        if let Err(error) = imported {
            prop_assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}
