//! The operation of a step of a script, and its text.
//!
//! All numbers are relative to the state when the step runs: `area=7` is the eighth live mapping of the thread's
//! space, counted cyclically, and `page=9` the tenth page of it, likewise. So a script remains valid when steps are
//! removed.

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $verb:literal { $($field:ident),* })*) => {
        /// An operation with its relative numbers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Operation {
            $($(#[$doc])* $name { $($field: u32),* },)*
        }

        impl Operation {
            /// The first word of its text.
            pub(crate) fn verb(&self) -> &'static str {
                match self {
                    $(Self::$name { .. } => $verb,)*
                }
            }

            /// Its numbers, by name.
            pub(crate) fn numbers(&self) -> Vec<(&'static str, u32)> {
                match *self {
                    $(Self::$name { $($field),* } => vec![$((stringify!($field), $field)),*],)*
                }
            }

            /// The operation that `verb` names, with a number for each name that it requires.
            ///
            /// # Errors
            /// If there is no such verb, or the error of `number`.
            pub(crate) fn new(
                verb: &str,
                mut number: impl FnMut(&'static str) -> Result<u32, String>,
            ) -> Result<Self, String> {
                let _ = &mut number;
                Ok(match verb {
                    $($verb => Self::$name { $($field: number(stringify!($field))?),* },)*
                    _ => return Err(format!("`{verb}` is no operation")),
                })
            }

            /// Every verb.
            #[cfg(test)]
            pub(crate) const VERBS: &'static [&'static str] = &[$($verb),*];
        }
    };
}

operations! {
    /// Loads a word.
    Load = "load" { area, page, word }
    /// Stores a value to a word that no other store uses.
    Store = "store" { area, page, word }
    /// Loads or stores a word of each of several pages, one after the other.
    Sweep = "sweep" { area, page, pages, word, store }
    /// Loads or stores at an unmapped address.
    Wild = "wild" { page, store }
    /// Maps fresh memory.
    MapAnonymous = "map-anonymous" { pages }
    /// Maps a file shared.
    MapShared = "map-shared" { file, first, pages, writable }
    /// Maps a file privately.
    MapPrivate = "map-private" { file, first, pages }
    /// Unmaps part of a mapping.
    Unmap = "unmap" { area, page, pages }
    /// Discards part of a mapping, which resets it to its initial content.
    Discard = "discard" { area, page, pages }
    /// Changes the rights: 0 none, 1 loads, 2 loads and stores.
    Protect = "protect" { area, page, pages, to }
    /// Moves, grows or shrinks part of a mapping. `to` is 0 for in place, 1 for anywhere, 2 for a free address, and
    /// higher for on top of other mappings.
    Remap = "remap" { area, page, pages, size, to }
    /// Gives contents up.
    Free = "advise-free" { area, page, pages }
    /// Advises that pages are not used soon.
    Cold = "advise-cold" { area, page, pages }
    /// Reclaims pages.
    PageOut = "advise-page-out" { area, page, pages }
    /// Allows or forbids huge pages.
    Huge = "advise-huge" { area, allow }
    /// Keeps pages in memory.
    Lock = "lock" { area, page, pages }
    /// No longer keeps them there.
    Unlock = "unlock" { area, page, pages }
    /// Copies the space. The threads of this space whose bits are set in `threads` continue in the copy.
    Fork = "fork" { threads }
    /// Ends a forked space. Its threads continue in the space from which it was forked.
    Exit = "exit" { }
    /// Makes a huge page.
    Collapse = "collapse" { area, page }
    /// Moves all pages of one node to another.
    MigrateSpace = "migrate-space" { from, to }
    /// Moves pages to a node.
    MovePages = "move-pages" { area, page, pages, node }
    /// Makes the next access of each page move it to a near node.
    Hint = "hint" { area, page, pages }
    /// Reads a file.
    Read = "read" { file, page, inside, bytes }
    /// Writes a file.
    Write = "write" { file, page, inside, bytes }
    /// Makes a file longer or shorter.
    Truncate = "truncate" { file, page, inside }
    /// Drops the pages of a file that are in memory.
    Invalidate = "invalidate" { file, page, pages }
    /// Writes a file out.
    Sync = "sync" { file }
    /// Calls with an invalid range. `how` selects the error.
    Wrong = "wrong" { area, call, how }
}

/// A step: a thread, its operation, and a pause before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// The thread.
    pub(crate) thread: u32,
    /// The pause before it, in nanoseconds.
    pub(crate) pause: u32,
    /// The operation.
    pub(crate) operation: Operation,
}

impl std::fmt::Display for Step {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} +{} {}", self.thread, self.pause, self.operation.verb())?;
        self.operation.numbers().iter().try_for_each(|(name, number)| write!(f, " {name}={number}"))
    }
}

impl std::str::FromStr for Step {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let mut next = |what: &str| words.next().ok_or(format!("no {what} in `{line}`"));
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is not a number, in `{line}`"));
        let thread = number(next("thread")?)?;
        let pause = next("pause")?;
        let pause = number(pause.strip_prefix('+').ok_or(format!("no + before `{pause}` in `{line}`"))?)?;
        let verb = next("operation")?;
        let mut given = Numbers::new(words)?;
        let operation = Operation::new(verb, |name| given.take(name))?;
        given.finish()?;
        Ok(Self { thread, pause, operation })
    }
}

/// `name=number` words of a line.
#[derive(Debug)]
pub(crate) struct Numbers<'a>(Vec<(&'a str, u32)>);

impl<'a> Numbers<'a> {
    pub(crate) fn new(words: impl Iterator<Item = &'a str>) -> Result<Self, String> {
        let pair = |word: &'a str| {
            let (name, number) = word.split_once('=')?;
            Some((name, number.parse().ok()?))
        };
        let pairs = words.map(|word| pair(word).ok_or(format!("`{word}` is not name=number")));
        Ok(Self(pairs.collect::<Result<_, _>>()?))
    }

    pub(crate) fn take(&mut self, name: &str) -> Result<u32, String> {
        let at = self.0.iter().position(|(given, _)| *given == name);
        at.map(|at| self.0.swap_remove(at).1).ok_or(format!("no {name}="))
    }

    pub(crate) fn finish(self) -> Result<(), String> {
        self.0.first().map_or(Ok(()), |(name, _)| Err(format!("{name}= is unknown here")))
    }
}
