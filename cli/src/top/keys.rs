//! What the keys do.

use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::top::screen::View;

/// What a key asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    Help,
    /// Leave the help.
    Back,
    Pause,
    Show(View),
    NextView,
    /// Sort by the next column, or by the one before.
    SortRight,
    SortLeft,
    Reverse,
    /// So many rows down.
    Scroll(isize),
    /// So many screens down.
    Page(isize),
    First,
    Last,
}

/// The action of an event.
pub(super) fn action(event: &Event) -> Option<Action> {
    let Event::Key(KeyEvent { code, modifiers, kind: KeyEventKind::Press | KeyEventKind::Repeat, .. }) =
        event
    else {
        return None;
    };
    if modifiers.contains(KeyModifiers::CONTROL) {
        return matches!(code, KeyCode::Char('c')).then_some(Action::Quit);
    }
    Some(match code {
        KeyCode::Char('q') | KeyCode::F(10) => Action::Quit,
        KeyCode::Char('h' | '?') | KeyCode::F(1) => Action::Help,
        KeyCode::Esc => Action::Back,
        KeyCode::Char(' ' | 'p') => Action::Pause,
        KeyCode::Char('P') | KeyCode::F(2) => Action::Show(View::Processes),
        KeyCode::Char('C') | KeyCode::F(3) => Action::Show(View::Causes),
        KeyCode::Char('V') | KeyCode::F(4) => Action::Show(View::Cpus),
        KeyCode::Char('M') | KeyCode::F(5) => Action::Show(View::Map),
        KeyCode::Tab => Action::NextView,
        KeyCode::Char('>') | KeyCode::F(6) => Action::SortRight,
        KeyCode::Char('<') => Action::SortLeft,
        KeyCode::Char('I') => Action::Reverse,
        KeyCode::Up | KeyCode::Char('k') => Action::Scroll(-1),
        KeyCode::Down | KeyCode::Char('j') => Action::Scroll(1),
        KeyCode::PageUp => Action::Page(-1),
        KeyCode::PageDown => Action::Page(1),
        KeyCode::Home => Action::First,
        KeyCode::End => Action::Last,
        _ => return None,
    })
}

/// The keys and their meanings, for the help.
pub(super) const HELP: &[(&str, &str)] = &[
    ("F2 P", "processes"),
    ("F3 C", "causes"),
    ("F4 V", "CPUs (victims)"),
    ("F5 M", "map of senders and victims"),
    ("Tab", "next view"),
    ("F6 > <", "sort by the next column, the one before"),
    ("I", "the other way round"),
    ("arrows PgDn End", "scroll"),
    ("Space p", "pause"),
    ("F1 h", "this help"),
    ("F10 q Ctrl-C", "quit"),
];

/// The columns and their meanings, for the help.
pub(super) const COLUMNS: &[(&str, &str)] = &[
    ("flush/s", "flushes that ask other CPUs"),
    ("req/s ±", "requests that they send to CPUs; half the range, if scaled"),
    ("CPUs/fl", "CPUs that a flush asks"),
    ("pages/fl", "pages of a flush, if not all"),
    ("send ms", "time a second for which senders wait"),
    ("hit ms", "time a second that the handlers take"),
    ("recv/s", "requests that are received"),
    ("slow µs", "longest way of a request"),
];

/// The keys in the last line: their names and meanings.
pub(super) const BAR: &[(&str, &str)] = &[
    ("F1", "Help"),
    ("F2", "Procs"),
    ("F3", "Causes"),
    ("F4", "CPUs"),
    ("F5", "Map"),
    ("F6", "Sort"),
    ("Spc", "Pause"),
    ("F10", "Quit"),
];
