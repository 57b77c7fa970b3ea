//! The locks most waited for, in words, as rows of tables and as JSON.

use ceasefire_linux::events::{Names, Spelled as _};
use ceasefire_linux::locks::{Locks, WaitSum, Waited, MOST_LOCKS};
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

/// What the order of rows is.
pub(crate) const ORDER: &str = "the longest during flushes of their process first";

/// The waits that no row has.
pub(crate) fn idle(idle: WaitSum) -> Option<String> {
    (idle.waits > 0).then(|| {
        format!(
            "not among the waits for locks: {} ({} ms) of the kernel's own threads on semaphores, where they sleep until \
             there is work",
            counted(idle.waits, "wait", "waits"),
            compact(idle.ns as f64 / 1e6)
        )
    })
}

/// The process of a row, or the first of several.
fn process(waited: &Waited, names: &Names) -> String {
    let Process { id, program } = waited.process;
    let others = others(waited.processes);
    match id {
        0 => format!("kernel{others}"),
        id => format!("{} ({id}){others}", names.get(program)),
    }
}

/// Of so many things one is named: those that are not.
fn others(of: usize) -> String {
    match of - 1 {
        0 => String::new(),
        1 => " and another".to_owned(),
        more => format!(" and {more} others"),
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
    let others = match waited.locks {
        MOST_LOCKS.. => format!(" and over {} others", MOST_LOCKS - 1),
        locks => others(locks),
    };
    [
        waited.kind.word().to_owned(),
        waited.cause.name().to_owned(),
        process(waited, names),
        waited.sum.waits.to_string(),
        compact(waited.sum.ns as f64 / 1e6),
        compact(waited.sum.longest_ns as f64 / 1e6),
        during_flushes(waited, facts).unwrap_or_default(),
        format!("{}{others}", waited.place.name()),
    ]
}

/// The table, with a line on the waits that it lacks. There is none if the recording has no waits.
pub(crate) fn grid(locks: &Locks, names: &Names, facts: &Facts) -> Option<Grid> {
    let (rows, idle) = (told(locks, facts)?.rows(), idle(locks.idle));
    let is_empty = rows.is_empty() && idle.is_none();
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
    if let Some(idle) = idle {
        grid.heading(idle);
    }
    (!is_empty).then_some(grid)
}

/// A row in words.
pub(crate) fn line(waited: &Waited, names: &Names, facts: &Facts) -> String {
    let [.., ms, longest, _, _] = cells(waited, names, facts);
    let during = during_flushes(waited, facts);
    let during = during.map_or_else(String::new, |part| format!(", {part} during its flushes"));
    format!(
        "{} by {}: {}, {ms} ms, longest {longest} ms{during}",
        name(waited),
        process(waited, names),
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
            "processes": waited.processes,
            "waits": waited.sum.waits,
            "waited_ns": waited.sum.ns,
            "longest_ns": waited.sum.longest_ns,
            "during_flushes_ns": (facts.counted == Count::Sent).then_some(waited.sum.flush_ns),
            "locks": waited.locks,
            "lock": format!("{:#x}", waited.lock),
            "place": waited.place.name(),
        })
    };
    told(locks, facts).map_or(Value::Null, |locks| locks.rows().iter().map(row).collect())
}

/// The waits that no row has, as JSON; `null` if the recording does not tell waits.
pub(crate) fn idle_json(locks: &Locks, facts: &Facts) -> Value {
    let sum = |locks: &Locks| json!({ "waits": locks.idle.waits, "waited_ns": locks.idle.ns });
    told(locks, facts).map_or(Value::Null, sum)
}

#[cfg(test)]
mod tests {
    use ceasefire_linux::events::LockKind;
    use ceasefire_linux::locks::Wait;
    use ceasefire_linux::shootdowns::Cause;

    use super::*;

    /// The table of the waits of these processes for locks of these kinds.
    fn table(waits: &[(u32, LockKind)]) -> String {
        let events = ["lock:contention_begin", "lock:contention_end"].map(String::from);
        let facts = Facts { ended_ns: 1_000_000_000, events: events.into(), ..Facts::default() };
        let mut names = Names::default();
        let program = names.add("program");
        let mut locks = Locks::new(facts.clone());
        for (lock, (process, kind)) in (0..).zip(waits) {
            let (process, kind) = (*process, *kind);
            let (cause, ended_ns) = (Cause::Other, 2_000_000 + lock);
            locks.add(&Wait {
                thread: process,
                process,
                program,
                lock,
                kind,
                cause,
                began_ns: 0,
                ended_ns,
                flush_ns: 0,
            });
        }
        grid(&locks, &names, &facts).expect("waits").text(120)
    }

    #[test]
    fn rows_that_say_the_same_are_one_and_idle_threads_are_counted_in_a_sentence() {
        let idle = "not among the waits for locks: 2 waits (4 ms) of the kernel's own threads on semaphores, where they sleep";
        let both = [(0, LockKind::Semaphore); 2];
        assert!(table(&both).starts_with(idle), "{}", table(&both));
        let others = [(0, LockKind::Spin), (7, LockKind::Spin), (8, LockKind::Spin)];
        let text = table(&[&both[..], &others].concat());
        let rows: Vec<&str> = text.lines().collect();
        assert!(rows[1].starts_with("spin lock other program (8) and 2 others     3  6"), "{text}");
        assert!(rows[1].ends_with("0% object and 2 others") && rows[2].starts_with(idle), "{text}");
    }
}
