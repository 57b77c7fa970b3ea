//! The locks most waited for, in words, as rows of tables and as JSON.

use ceasefire_linux::events::{Names, Spelled as _};
use ceasefire_linux::locks::{Locks, Waited, MOST_LOCKS};
use ceasefire_linux::recording::{Count, Facts};
use ceasefire_linux::shootdowns::Process;
use serde_json::{json, Value};

use crate::number::{compact, counted};
use crate::tables::grid::{Column, Grid};

/// The rows of tables.
pub(crate) const SHOWN: usize = 8;

/// The heads of the columns of [`cells`].
pub(crate) const HEADS: [&str; 8] =
    ["waits for", "in", "process", "waits", "ms", "longest, ms", "during flushes", "lock"];

/// The number of columns of words, which come first.
pub(crate) const WORDS: usize = 3;

/// The waits of a recording that tells them.
pub(crate) fn told<'a>(locks: &'a Locks, facts: &Facts) -> Option<&'a Locks> {
    facts.tells_waits().then_some(locks)
}

fn process(of: Process, names: &Names) -> String {
    match of.id {
        0 => "kernel".to_owned(),
        id => format!("{} ({id})", names.get(of.program)),
    }
}

/// Such as `rwsem, for writing (munmap)`.
pub(crate) fn name(waited: &Waited) -> String {
    format!("{} ({})", waited.kind.word(), waited.cause.name())
}

/// The part of the time that passed during flushes of the process, which kernels before Linux 6.4 do not tell.
fn during_flushes(waited: &Waited, facts: &Facts) -> Option<String> {
    let part = 100.0 * waited.sum.flush_ns as f64 / waited.sum.ns.max(1) as f64;
    (facts.counted == Count::Sent).then(|| format!("{part:.0}%"))
}

/// The cells of a row.
pub(crate) fn cells(waited: &Waited, names: &Names, facts: &Facts) -> [String; 8] {
    let more = match waited.locks - 1 {
        0 => String::new(),
        more if waited.locks == MOST_LOCKS => format!(" and over {more} others"),
        1 => " and another".to_owned(),
        more => format!(" and {more} others"),
    };
    [
        waited.kind.word().to_owned(),
        waited.cause.name().to_owned(),
        process(waited.process, names),
        waited.sum.waits.to_string(),
        compact(waited.sum.ns as f64 / 1e6),
        compact(waited.sum.longest_ns as f64 / 1e6),
        during_flushes(waited, facts).unwrap_or_default(),
        format!("{:x}{more}", waited.lock),
    ]
}

/// The table. There is none if the recording has no waits.
pub(crate) fn grid(locks: &Locks, names: &Names, facts: &Facts) -> Option<Grid> {
    let rows = told(locks, facts)?.rows();
    let ranks = [0, 0, 0, 0, 0, 2, 1, 3];
    let columns = HEADS.iter().zip(ranks).enumerate().map(|(at, (head, rank))| {
        let is_word = at < WORDS || at == HEADS.len() - 1;
        if is_word {
            Column::words(head, rank)
        } else {
            Column::numbers(head, rank)
        }
    });
    let mut grid = Grid::new(&columns.collect::<Vec<_>>());
    for waited in rows.iter().take(SHOWN) {
        grid.row(cells(waited, names, facts));
    }
    (!rows.is_empty()).then_some(grid)
}

/// A row in words.
pub(crate) fn line(waited: &Waited, names: &Names, facts: &Facts) -> String {
    let [.., ms, longest, _, _] = cells(waited, names, facts);
    let during = during_flushes(waited, facts);
    let during = during.map_or_else(String::new, |part| format!(", {part} during its flushes"));
    format!(
        "{} by {}: {}, {ms} ms, longest {longest} ms{during}",
        name(waited),
        process(waited.process, names),
        counted(waited.sum.waits, "wait", "waits")
    )
}

/// The rows as JSON; `null` if the recording does not tell waits.
pub(crate) fn json_of(locks: &Locks, names: &Names, facts: &Facts) -> Value {
    let row = |waited: &Waited| {
        json!({
            "kind": waited.kind.word(),
            "cause": waited.cause.name(),
            "process": waited.process.id,
            "program": names.get(waited.process.program),
            "waits": waited.sum.waits,
            "waited_ns": waited.sum.ns,
            "longest_ns": waited.sum.longest_ns,
            "during_flushes_ns": (facts.counted == Count::Sent).then_some(waited.sum.flush_ns),
            "locks": waited.locks,
            "lock": format!("{:#x}", waited.lock),
        })
    };
    told(locks, facts).map_or(Value::Null, |locks| locks.rows().iter().map(row).collect())
}
