//! The tables of processes, causes and CPUs.

use std::cmp::Ordering;

use ceasefire_linux::recording::Count;

use crate::number::compact;
use crate::tables::grid::{self, Grid};
use crate::top::sample::{CauseRates, CpuRates, ProcessRates, Rates, Sample};

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) head: &'static str,
    /// Its width on the screen, in characters.
    pub(super) width: usize,
    pub(super) kind: ColumnKind,
    /// Columns with a higher rank are left out first. Those of rank 0 always stay.
    pub(super) rank: u8,
}

/// The kinds of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnKind {
    /// The least first.
    Words,
    /// Numbers that name something, the least first.
    Ids,
    /// The greatest first.
    Amounts,
}

/// A value of a table.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Words(String),
    Id(u32),
    Amount(Option<f64>),
    /// Half the range of a scaled figure, as a part of it.
    Part(Option<f64>),
    /// A number of pages that is all of them.
    All,
}

/// A table.
#[derive(Debug)]
pub(super) struct Table {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Vec<Value>>,
}

const fn column(head: &'static str, width: usize, kind: ColumnKind, rank: u8) -> Column {
    Column { head, width, kind, rank }
}

const fn amount(head: &'static str, rank: u8) -> Column {
    column(head, 8, ColumnKind::Amounts, rank)
}

/// The range of the column before.
const RANGE: Column = column("±", 4, ColumnKind::Amounts, 1);

const PROGRAM: usize = 15;
const CAUSE: usize = 15;

const PROCESSES: &[Column] = &[
    column("PID", 7, ColumnKind::Ids, 0),
    column("program", PROGRAM, ColumnKind::Words, 0),
    column("top cause", CAUSE, ColumnKind::Words, 3),
    amount("flush/s", 5),
    amount("req/s", 0),
    RANGE,
    amount("CPUs/fl", 6),
    amount("pages/fl", 7),
    amount("send ms", 1),
    amount("hit ms", 2),
    amount("recv/s", 4),
];

const CAUSES: &[Column] = &[
    column("cause", CAUSE, ColumnKind::Words, 0),
    column("top program", PROGRAM, ColumnKind::Words, 3),
    amount("flush/s", 4),
    amount("req/s", 0),
    RANGE,
    amount("CPUs/fl", 5),
    amount("pages/fl", 6),
    amount("send ms", 1),
    amount("hit ms", 2),
];

const CPUS: &[Column] = &[
    column("CPU", 5, ColumnKind::Ids, 0),
    column("isolated", 8, ColumnKind::Words, 1),
    amount("sent/s", 2),
    amount("recv/s", 0),
    RANGE,
    amount("hit ms", 3),
    amount("slow µs", 4),
    column("hit most", PROGRAM, ColumnKind::Words, 5),
];

/// The columns by which tables are sorted at first.
pub(super) const BY_REQUESTS: [usize; 2] = [4, 3];

/// The processes.
pub(super) fn processes(sample: &Sample) -> Table {
    let row = |process: &ProcessRates| {
        let mut row = vec![
            Value::Id(process.process),
            Value::Words(process.program.clone()),
            Value::Words(process.cause.unwrap_or("").to_owned()),
        ];
        row.extend(amounts(&process.rates));
        row.push(Value::Amount(Some(process.received_per_s)));
        row
    };
    Table { columns: PROCESSES, rows: sample.processes.iter().map(row).collect() }
}

/// The causes.
pub(super) fn causes(sample: &Sample) -> Table {
    let row = |cause: &CauseRates| {
        let mut row = vec![Value::Words(cause.cause.to_owned()), Value::Words(cause.program.clone())];
        row.extend(amounts(&cause.rates));
        row
    };
    Table { columns: CAUSES, rows: sample.causes.iter().map(row).collect() }
}

/// The CPUs.
pub(super) fn cpus(sample: &Sample) -> Table {
    let row = |cpu: &CpuRates| {
        vec![
            Value::Id(cpu.cpu),
            Value::Words(if cpu.isolated { "isolated" } else { "" }.to_owned()),
            Value::Amount(Some(cpu.sent_per_s)),
            Value::Amount(Some(cpu.received_per_s)),
            Value::Part(cpu.range.part("received_per_s", cpu.received_per_s)),
            Value::Amount(Some(cpu.handler_ms_per_s)),
            Value::Amount(Some(cpu.slowest_us)),
            Value::Words(cpu.program.clone().unwrap_or_default()),
        ]
    };
    Table { columns: CPUS, rows: sample.per_cpu.iter().map(row).collect() }
}

fn amounts(rates: &Rates) -> [Value; 7] {
    let pages = match rates.pages_per_flush {
        None if rates.whole_per_s > 0.0 => Value::All,
        pages => Value::Amount(pages),
    };
    [
        Value::Amount(Some(rates.flushes_per_s)),
        Value::Amount(Some(rates.requests_per_s)),
        Value::Part(rates.range.part("requests_per_s", rates.requests_per_s)),
        Value::Amount(rates.cpus_per_flush),
        pages,
        Value::Amount(Some(rates.sender_ms_per_s)),
        Value::Amount(Some(rates.victim_ms_per_s)),
    ]
}

impl Value {
    /// Its text.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Words(words) => words.clone(),
            Self::Id(id) => id.to_string(),
            Self::Amount(amount) => amount.map_or_else(|| "-".to_owned(), compact),
            Self::Part(part) => part.map_or_else(String::new, |part| format!("{:.0}%", part * 100.0)),
            Self::All => "all".to_owned(),
        }
    }

    /// The order of two values of a column.
    fn order(&self, other: &Self) -> Ordering {
        let amount = |value: &Self| match value {
            Self::Amount(amount) | Self::Part(amount) => amount.unwrap_or(f64::NEG_INFINITY),
            _ => f64::INFINITY,
        };
        match (self, other) {
            (Self::Words(one), Self::Words(other)) => one.cmp(other),
            (Self::Id(one), Self::Id(other)) => one.cmp(other),
            _ => amount(other).total_cmp(&amount(self)),
        }
    }
}

impl Table {
    /// Sorts the rows by a column, the other way round if `reversed`. Rows that are equal there keep their order.
    pub(super) fn sort(&mut self, column: usize, reversed: bool) {
        self.rows.sort_by(|one, other| {
            let order = one[column].order(&other[column]);
            if reversed {
                order.reverse()
            } else {
                order
            }
        });
    }

    /// The columns that fit a width, the most important ones.
    pub(super) fn fitting(&self, width: usize) -> Vec<usize> {
        let sizes: Vec<_> = self.columns.iter().map(|column| (column.width, column.rank)).collect();
        grid::fitting(&sizes, width)
    }

    /// The table as text.
    fn text(&self, width: usize) -> String {
        let column = |column: &Column| match column.kind {
            ColumnKind::Words => grid::Column::words(column.head, column.rank),
            ColumnKind::Ids | ColumnKind::Amounts => grid::Column::numbers(column.head, column.rank),
        };
        let mut grid = Grid::new(&self.columns.iter().map(column).collect::<Vec<_>>());
        for row in &self.rows {
            grid.row(row.iter().map(Value::text));
        }
        grid.text(width)
    }
}

/// The totals, the processes and the causes as text.
pub(super) fn text(sample: &Sample, width: usize) -> String {
    let mut text = totals(sample).join("\n") + "\n";
    let (mut processes, mut causes) = (processes(sample), causes(sample));
    processes.sort(BY_REQUESTS[0], false);
    causes.sort(BY_REQUESTS[1], false);
    for table in [processes, causes].iter().filter(|table| !table.rows.is_empty()) {
        text.push('\n');
        text.push_str(&table.text(width));
    }
    text
}

/// The totals of all shootdowns, the most important first.
pub(super) fn totals(sample: &Sample) -> Vec<String> {
    let percent = |part: f64| format!("{:.1}%", part * 100.0);
    let least = if sample.lost_uncounted { "at least " } else { "" };
    let unreadable = match sample.unreadable {
        0 => String::new(),
        records => format!(", {records} unreadable records"),
    };
    let sent =
        (sample.counted == Count::Sent).then(|| format!("requests {}/s", compact(sample.all.requests_per_s)));
    let others = [
        format!("answered {}/s", compact(sample.handled_per_s)),
        match sample.tlb_row_per_s {
            Some(row) => format!("TLB row {}/s", compact(row)),
            None => "no TLB row".to_owned(),
        },
        if sample.watched < 1.0 {
            format!("watched {} of the time: scaled", percent(sample.watched))
        } else {
            "watched 100%".to_owned()
        },
        format!("lost {least}{} events{unreadable}", sample.lost),
        format!("flushes {}/s", compact(sample.all.flushes_per_s)),
        format!("interrupts {}/s", compact(sample.all.interrupts_per_s)),
        format!("senders wait {} ms/s", compact(sample.all.sender_ms_per_s)),
        format!("handlers run {} ms/s", compact(sample.all.victim_ms_per_s)),
        format!("overhead: {} of a CPU, tracing {}", percent(sample.own_time), percent(sample.tracing_time)),
    ];
    sent.into_iter().chain(others).collect()
}
