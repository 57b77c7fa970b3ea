//! What the terminal shows.

use std::time::Duration;

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::Event;
use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};
use ratatui::Frame;

use crate::top::keys::{action, Action, BAR, COLUMNS, HELP};
use crate::top::map;
use crate::top::sample::Sample;
use crate::top::table::{self, ColumnKind, Table, BY_REQUESTS};

/// The views.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum View {
    Processes,
    Causes,
    Cpus,
    Map,
}

const VIEWS: [(View, &str); 4] =
    [(View::Processes, "Processes"), (View::Causes, "Causes"), (View::Cpus, "CPUs"), (View::Map, "Map")];

/// The lines of the totals at most, and the part of the screen that they may take.
const TOTALS: usize = 3;
const TOTALS_PART: usize = 5;

/// The state of the screen.
#[derive(Debug)]
pub(super) struct Screen {
    interval: Duration,
    sample: Option<Sample>,
    view: View,
    /// For each view, the column by which it is sorted, and whether the other way round.
    sorted: [(usize, bool); 4],
    /// The rows that are scrolled away.
    above: usize,
    /// The rows that the last screen had room for.
    page: usize,
    is_paused: bool,
    is_help: bool,
}

impl Screen {
    /// An empty screen, with a sample in each interval to come.
    pub(super) fn new(interval: Duration) -> Self {
        let [processes, causes] = BY_REQUESTS;
        Self {
            interval,
            sample: None,
            view: View::Processes,
            sorted: [(processes, false), (causes, false), (0, false), (0, false)],
            above: 0,
            page: 1,
            is_paused: false,
            is_help: false,
        }
    }

    /// Takes a new sample, unless the user has paused.
    pub(super) fn update(&mut self, sample: Sample) {
        if !self.is_paused {
            self.sample = Some(sample);
        }
    }

    /// Answers a key. Returns whether it ends the command.
    pub(super) fn answer(&mut self, event: &Event) -> bool {
        let Some(action) = action(event) else { return false };
        if self.is_help && action != Action::Quit {
            self.is_help = false;
            return false;
        }
        let columns = self.table().map_or(0, |table| table.columns.len());
        let (by, reversed) = &mut self.sorted[self.view as usize];
        match action {
            Action::Quit => return true,
            Action::Help => self.is_help = true,
            Action::Pause => self.is_paused = !self.is_paused,
            Action::Show(view) => self.show(view),
            Action::NextView => {
                let next = (self.view as usize + 1) % VIEWS.len();
                self.show(VIEWS[next].0);
            }
            Action::SortRight if columns > 0 => (*by, *reversed) = ((*by + 1) % columns, false),
            Action::SortLeft if columns > 0 => (*by, *reversed) = ((*by + columns - 1) % columns, false),
            Action::SortRight | Action::SortLeft | Action::Back => {}
            Action::Reverse => *reversed = !*reversed,
            Action::Scroll(rows) => self.above = self.above.saturating_add_signed(rows),
            Action::Page(pages) => {
                self.above = self.above.saturating_add_signed(pages * self.page.cast_signed());
            }
            Action::First => self.above = 0,
            Action::Last => self.above = usize::MAX,
        }
        false
    }

    fn show(&mut self, view: View) {
        self.view = view;
        self.above = 0;
    }

    /// The table of the view, in no order; none if it has none.
    fn table(&self) -> Option<Table> {
        let sample = self.sample.as_ref()?;
        match self.view {
            View::Processes => Some(table::processes(sample)),
            View::Causes => Some(table::causes(sample)),
            View::Cpus => Some(table::cpus(sample)),
            View::Map => None,
        }
    }

    /// Draws the screen.
    pub(super) fn draw(&mut self, frame: &mut Frame<'_>) {
        let area = frame.area();
        let buffer = frame.buffer_mut();
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let mut lines = Lines { area, at: 0 };
        for line in self.totals(width, (height / TOTALS_PART).clamp(1, TOTALS)) {
            lines.add(buffer, &line, Style::new());
        }
        self.draw_views(buffer, &mut lines);
        let room = height.saturating_sub(usize::from(lines.at) + 1);
        if self.is_help {
            for line in help().iter().take(room) {
                lines.add(buffer, line, Style::new());
            }
        } else if let Some(table) = self.table() {
            self.draw_table(buffer, &mut lines, table, width, room);
        } else if let Some(sample) = &self.sample {
            for line in map::lines(sample, width, room).iter().take(room) {
                lines.add(buffer, line, Style::new());
            }
        }
        if height > 0 {
            draw_bar(buffer, Rect { y: area.bottom() - 1, height: 1, ..area });
        }
    }

    /// The totals, in so many lines.
    fn totals(&self, width: usize, most: usize) -> Vec<String> {
        let Some(sample) = &self.sample else {
            return vec![format!("watching for {} s", self.interval.as_secs_f64())];
        };
        let mut lines = vec![String::new()];
        for item in table::totals(sample) {
            let last = lines.last_mut().map_or(0, |line| line.chars().count());
            if last > 0 && last + 3 + item.chars().count() > width {
                if lines.len() == most {
                    break;
                }
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                line.push_str(if line.is_empty() { "" } else { "   " });
                line.push_str(&item);
            }
        }
        lines
    }

    /// Draws the names of the views.
    fn draw_views(&self, buffer: &mut Buffer, lines: &mut Lines) {
        let names = VIEWS.map(|(view, name)| {
            if view == self.view && !self.is_help {
                format!("[{name}]")
            } else {
                format!(" {name} ")
            }
        });
        let state = match (self.is_help, self.is_paused) {
            (true, _) => "[Help]",
            (false, true) => "[paused]",
            (false, false) => "",
        };
        lines.add(buffer, &format!("{} {state}", names.join("")), Style::new().add_modifier(Modifier::BOLD));
    }

    /// Draws a table with its heads in so many lines.
    fn draw_table(
        &mut self,
        buffer: &mut Buffer,
        lines: &mut Lines,
        mut table: Table,
        width: usize,
        room: usize,
    ) {
        let (by, reversed) = self.sorted[self.view as usize];
        table.sort(by, reversed);
        let shown = table.fitting(width);
        let line = |cells: &dyn Fn(usize) -> String| {
            let cells = shown.iter().map(|&column| {
                let (kind, width) = (table.columns[column].kind, table.columns[column].width);
                let cell: String = cells(column).chars().take(width).collect();
                match kind {
                    ColumnKind::Words => format!("{cell:<width$}"),
                    ColumnKind::Ids | ColumnKind::Amounts => format!("{cell:>width$}"),
                }
            });
            cells.collect::<Vec<_>>().join(" ")
        };
        let head = |column: usize| {
            let head = table.columns[column].head;
            match (column == by, reversed) {
                (true, false) => format!("{head}▼"),
                (true, true) => format!("{head}▲"),
                (false, _) => head.to_owned(),
            }
        };
        lines.add(buffer, &format!("{:<width$}", line(&head)), Style::new().add_modifier(Modifier::REVERSED));
        self.page = room.saturating_sub(1).max(1);
        self.above = self.above.min(table.rows.len().saturating_sub(self.page));
        for row in table.rows.iter().skip(self.above).take(room.saturating_sub(1)) {
            let is_marked = row.iter().any(|cell| *cell == table::Value::Words("isolated".to_owned()));
            let style = if is_marked { Style::new().add_modifier(Modifier::BOLD) } else { Style::new() };
            lines.add(buffer, &line(&|column| row[column].text()), style);
        }
        if table.rows.is_empty() {
            lines.add(buffer, "no shootdowns", Style::new());
        }
    }
}

/// The lines of the help.
fn help() -> Vec<String> {
    let line = |(name, meaning): &(&str, &str)| format!("{name:>15}  {meaning}");
    HELP.iter().map(line).chain([String::new()]).chain(COLUMNS.iter().map(line)).collect()
}

/// Draws the keys in the last line: those that have room.
fn draw_bar(buffer: &mut Buffer, area: Rect) {
    let mut at = area.x;
    for (key, meaning) in BAR {
        let width = (key.len() + meaning.len() + 1) as u16;
        if at + width > area.right() + 1 {
            continue;
        }
        buffer.set_string(at, area.y, key, Style::new());
        let after = at + key.len() as u16;
        buffer.set_string(after, area.y, meaning, Style::new().add_modifier(Modifier::REVERSED));
        at += width;
    }
}

/// Lines from the top of an area on.
struct Lines {
    area: Rect,
    at: u16,
}

impl Lines {
    /// Adds a line, of which the area's width is shown, if there is room.
    fn add(&mut self, buffer: &mut Buffer, text: &str, style: Style) {
        if self.at < self.area.height {
            buffer.set_stringn(self.area.x, self.area.y + self.at, text, self.area.width.into(), style);
        }
        self.at += 1;
    }
}

#[cfg(test)]
mod tests {
    use ratatui::backend::TestBackend;
    use ratatui::buffer::Cell;
    use ratatui::crossterm::event::KeyCode;
    use ratatui::Terminal;

    use super::*;
    use crate::top::testing::sample;

    /// The screen as text.
    fn text(screen: &mut Screen, width: u16, height: u16) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a terminal");
        terminal.draw(|frame| screen.draw(frame)).expect("a screen");
        let cells = terminal.backend().buffer().content();
        let rows = cells
            .chunks(usize::from(width.max(1)))
            .map(|row| row.iter().map(Cell::symbol).collect::<String>());
        rows.map(|row| row.trim_end().to_owned() + "\n").collect()
    }

    fn screen(cpus: u32) -> Screen {
        let mut screen = Screen::new(Duration::from_secs(1));
        screen.update(sample(cpus));
        screen
    }

    fn press(screen: &mut Screen, key: KeyCode) -> bool {
        screen.answer(&Event::Key(key.into()))
    }

    #[test]
    fn escape_leaves_the_help_and_does_nothing_else() {
        let mut screen = screen(2);
        press(&mut screen, KeyCode::F(3));
        let before = text(&mut screen, 80, 24);
        press(&mut screen, KeyCode::Esc);
        assert_eq!(text(&mut screen, 80, 24), before);
        press(&mut screen, KeyCode::F(1));
        assert_ne!(text(&mut screen, 80, 24), before);
        press(&mut screen, KeyCode::Esc);
        assert_eq!(text(&mut screen, 80, 24), before);
    }

    /// Compares each view at a size with the kept screens, which stand one after the other.
    fn compare(cpus: u32, width: u16, height: u16, kept: &str) {
        let mut screen = screen(cpus);
        let mut all = String::new();
        for key in ['P', 'C', 'V', 'M', 'h'] {
            assert!(!press(&mut screen, KeyCode::Char(key)));
            let text = text(&mut screen, width, height);
            assert_eq!(text.lines().count(), usize::from(height));
            all = format!("{all}=== {key}\n{text}");
        }
        assert!(all == kept, "the screens of {width}x{height} are now:\n{all}");
    }

    #[test]
    fn every_view_on_a_usual_terminal() {
        compare(4, 80, 24, include_str!("screens/80x24.txt"));
    }

    #[test]
    fn every_view_on_a_wide_terminal() {
        compare(512, 120, 40, include_str!("screens/120x40.txt"));
    }

    #[test]
    fn every_view_on_a_small_terminal() {
        compare(48, 40, 10, include_str!("screens/40x10.txt"));
    }

    #[test]
    fn a_terminal_of_any_size_is_drawn() {
        for (width, height) in [(0, 0), (1, 1), (3, 2), (300, 1), (1, 300)] {
            let mut screen = screen(4);
            for key in ['P', 'C', 'V', 'M', 'h'] {
                press(&mut screen, KeyCode::Char(key));
                text(&mut screen, width, height);
            }
        }
    }

    #[test]
    fn keys_sort_scroll_pause_and_quit() {
        let mut screen = screen(512);
        press(&mut screen, KeyCode::F(4));
        let first = |screen: &mut Screen| {
            let text = text(screen, 80, 24);
            let row =
                text.lines().skip_while(|line| !line.contains("sent/s")).nth(1).expect("a row").to_owned();
            row.split_whitespace().next().expect("a CPU").to_owned()
        };
        assert_eq!(first(&mut screen), "0");
        press(&mut screen, KeyCode::Down);
        assert_eq!(first(&mut screen), "1");
        press(&mut screen, KeyCode::End);
        let last = first(&mut screen);
        press(&mut screen, KeyCode::PageDown);
        assert_eq!(first(&mut screen), last, "the last page stays");
        press(&mut screen, KeyCode::Home);
        press(&mut screen, KeyCode::Char('I'));
        assert_eq!(first(&mut screen), "511");
        for _ in 0..3 {
            press(&mut screen, KeyCode::Char('>'));
        }
        assert!(text(&mut screen, 80, 24).contains("recv/s▼"));
        press(&mut screen, KeyCode::Char(' '));
        screen.update(sample(2));
        assert_eq!(screen.sample.as_ref().map(|sample| sample.cpus), Some(512), "paused");
        assert!(text(&mut screen, 80, 24).contains("[paused]"));
        press(&mut screen, KeyCode::Char('p'));
        screen.update(sample(2));
        assert_eq!(screen.sample.as_ref().map(|sample| sample.cpus), Some(2));
        assert!(press(&mut screen, KeyCode::Char('q')));
    }
}
