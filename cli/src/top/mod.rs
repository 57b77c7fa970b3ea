//! `ceasefire top`: the TLB shootdowns of this Linux machine while they happen.
//!
//! A `sample` has the rates of one interval, as JSON has them too. `table` makes tables of it, for the screen and for
//! text, and `map` the picture of senders and victims. `screen` is what the terminal shows, `keys` what its keys do.

mod keys;
mod map;
mod sample;
mod screen;
mod table;
#[cfg(test)]
mod testing;

use std::io::{self, stdout, IsTerminal as _, Write as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use ceasefire_linux::live::Live;
use ratatui::crossterm::event;
use rustix::event::{poll, PollFd, PollFlags, Timespec};

use crate::args::TopArguments;
use crate::failure::{Done, Failure};
use crate::output::interrupt;
use crate::output::text::Text;
use crate::stdout::print;
use crate::terminal::width;
use crate::top::sample::Sample;
use crate::top::screen::Screen;

/// The longest time between two visits to the kernel's buffers.
const PERIOD: Duration = Duration::from_millis(100);

/// The shortest interval that can be watched in windows.
const SHORTEST: Duration = Duration::from_secs(1);

pub(crate) fn run(arguments: &TopArguments) -> Done {
    let TopArguments { interval, count, once, json, full } = arguments;
    let is_shown = !once && json.is_none();
    if is_shown && !stdout().is_terminal() {
        return Err(Failure::input(
            "standard output is no terminal, so top can show no screen: use --once or --json -",
        ));
    }
    let destination = json.as_deref().map(Text::check).transpose()?;
    let is_printed = matches!(destination, Some(Text::Printed));
    // Before tracing begins, so that every end is an orderly one.
    let stopped = interrupt::stops_early();
    // A shorter interval has too few windows.
    let live = Live::begin(*full || *interval < SHORTEST).map_err(Failure::input)?;
    let count = if *once { Some(1) } else { *count };
    let clock = Clock { live, interval: *interval, next: Instant::now() + *interval, left: count };
    if is_shown {
        return show(clock, stopped);
    }
    let print_sample = |sample: &Sample| {
        if is_printed {
            print(&sample.json())
        } else if *once {
            print(&table::text(sample, width()))
        } else {
            Ok(())
        }
    };
    let Some(Text::File(file)) = destination else { return each(clock, stopped, print_sample) };
    let mut file = file.open()?;
    let shown = json.as_deref().unwrap_or(Path::new("")).display().to_string();
    let failed = |error: io::Error| Failure::writing(&shown, &error);
    each(clock, stopped, |sample| {
        // At once, so that a reader of the file sees whole lines.
        file.write_all(sample.json().as_bytes()).map_err(failed)?;
        print_sample(sample)
    })
}

/// The intervals of a live view.
struct Clock {
    live: Live,
    interval: Duration,
    /// The end of the interval.
    next: Instant,
    /// The number of intervals to come; none without end.
    left: Option<u16>,
}

impl Clock {
    /// The time until there is something to do.
    fn wait(&self) -> Duration {
        let wait = self.next.saturating_duration_since(Instant::now()).min(PERIOD);
        self.live.wait().map_or(wait, |until| wait.min(until))
    }

    /// Whether the last interval is over.
    fn has_ended(&self) -> bool {
        self.left == Some(0)
    }

    /// Reads the kernel's buffers. Returns the sample of an interval that is over.
    fn step(&mut self) -> Result<Option<Sample>, Failure> {
        self.live.follow().map_err(Failure::input)?;
        if Instant::now() < self.next {
            return Ok(None);
        }
        let interval = self.live.interval().map_err(Failure::input)?;
        self.left = self.left.map(|left| left - 1);
        // After a pause of the machine, the intervals in it are left out.
        self.next = (self.next + self.interval).max(Instant::now());
        Ok(Some(Sample::of(&interval, self.live.names(), self.live.facts())))
    }
}

/// Gives each sample to `use_sample`, until the end.
fn each(mut clock: Clock, stopped: impl Fn() -> bool, mut use_sample: impl FnMut(&Sample) -> Done) -> Done {
    while !clock.has_ended() && !stopped() {
        thread::sleep(clock.wait());
        if let Some(sample) = clock.step()? {
            use_sample(&sample)?;
        }
    }
    Ok(())
}

/// Shows the samples on the terminal, which is as before at the end.
fn show(clock: Clock, stopped: impl Fn() -> bool) -> Done {
    let failed = |error: io::Error| Failure::input(format!("the terminal cannot be used: {error}"));
    let mut terminal = ratatui::try_init().map_err(failed)?;
    let ended = shown(&mut terminal, clock, stopped);
    // A terminal that was closed has no modes to restore.
    let _ = ratatui::try_restore();
    match ended {
        Ok(Err(Failure::NoReader)) => closed(terminal),
        Ok(done) => done,
        Err(_) if wait_for_key(Duration::ZERO) == Waited::Closed => closed(terminal),
        Err(error) => Err(failed(error)),
    }
}

/// The end on a terminal that was closed.
fn closed(terminal: ratatui::DefaultTerminal) -> Done {
    // It would try to show the cursor, and complain.
    std::mem::forget(terminal);
    Err(Failure::NoReader)
}

/// Shows the samples on a terminal that is ready for it. The outer result is that of the terminal.
fn shown(
    terminal: &mut ratatui::DefaultTerminal,
    mut clock: Clock,
    stopped: impl Fn() -> bool,
) -> io::Result<Done> {
    let mut screen = Screen::new(clock.interval);
    terminal.draw(|frame| screen.draw(frame))?;
    while !clock.has_ended() && !stopped() {
        if wait_for_key(clock.wait()) == Waited::Closed {
            return Ok(Err(Failure::NoReader));
        }
        let mut is_changed = false;
        // A new size is an event too.
        while event::poll(Duration::ZERO)? {
            is_changed = true;
            if screen.answer(&event::read()?) {
                return Ok(Ok(()));
            }
        }
        match clock.step() {
            Ok(Some(sample)) => {
                screen.update(sample);
                is_changed = true;
            }
            Ok(None) => {}
            Err(failure) => return Ok(Err(failure)),
        }
        if is_changed {
            terminal.draw(|frame| screen.draw(frame))?;
        }
    }
    Ok(Ok(()))
}

/// The end of a wait.
#[derive(Debug, PartialEq, Eq)]
enum Waited {
    /// There may be something to do.
    Over,
    /// The terminal was closed.
    Closed,
}

/// Waits for a key, at most so long. crossterm's own wait does not end on a terminal that is closed.
fn wait_for_key(most: Duration) -> Waited {
    let terminal = stdout();
    let mut terminal = [PollFd::new(&terminal, PollFlags::IN)];
    let most = Timespec { tv_sec: most.as_secs().cast_signed(), tv_nsec: most.subsec_nanos().into() };
    // A signal ends the wait early.
    let _ = poll(&mut terminal, Some(&most));
    let closed = PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;
    if terminal[0].revents().intersects(closed) {
        Waited::Closed
    } else {
        Waited::Over
    }
}
