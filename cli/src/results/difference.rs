//! The names of the figures in which two recordings may differ.

use ceasefire_linux::difference::Figure;
use ceasefire_linux::events::Spelled as _;

/// A figure's name, and the unit of its rate with the factor for it.
pub(crate) fn difference_name(figure: &Figure) -> (String, f64) {
    match figure {
        Figure::Flushes => ("flushes/s".into(), 1.0),
        Figure::Interrupts => ("interrupts/s".into(), 1.0),
        Figure::SenderNs => ("senders wait, ms/s".into(), 1e-6),
        Figure::VictimNs => ("handlers run, ms/s".into(), 1e-6),
        Figure::Waits => ("lock waits/s".into(), 1.0),
        Figure::WaitNs => ("lock waits, ms/s".into(), 1e-6),
        Figure::OfCause(cause) => (format!("  {}", cause.name()), 1.0),
        Figure::OfProgram(program) => (format!("  {program}"), 1.0),
        Figure::OfLock(kind, cause) => (format!("  {} ({}), ms/s", kind.word(), cause.name()), 1e-6),
    }
}
