//! What a step of a script does, and its text.
//!
//! All numbers are relative to what there is when the step runs: `area=7` is the eighth live mapping of the thread's
//! space, counted round and round, and `page=9` the tenth page of it, likewise. So a script keeps its sense when steps
//! are taken out.

macro_rules! operations {
    ($($(#[$doc:meta])* $name:ident = $verb:literal { $($field:ident),* })*) => {
        /// An operation with its relative numbers.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Operation {
            $($(#[$doc])* $name { $($field: u32),* },)*
        }

        impl Operation {
            /// The word that its text begins with.
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

            /// The operation that `verb` names, with a number for each name that it asks for.
            ///
            /// # Errors
            /// There is no such verb, or what `number` said.
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
    /// Stores a value that nothing else ever has to a word.
    Store = "store" { area, page, word }
    /// Loads or stores a word of each of several pages, one after the other.
    Sweep = "sweep" { area, page, pages, word, store }
    /// Loads or stores where nothing is mapped.
    Wild = "wild" { page, store }
    /// Maps fresh memory.
    MapAnonymous = "map-anonymous" { pages }
    /// Maps a file as everyone sees it.
    MapShared = "map-shared" { file, first, pages, writable }
    /// Maps a file and keeps stores to itself.
    MapPrivate = "map-private" { file, first, pages }
    /// Unmaps part of a mapping.
    Unmap = "unmap" { area, page, pages }
    /// Finds part of a mapping as it was first mapped.
    Discard = "discard" { area, page, pages }
    /// Changes what is allowed: 0 nothing, 1 loads, 2 stores too.
    Protect = "protect" { area, page, pages, to }
    /// Moves, grows or shrinks part of a mapping. `to` is 0 for in place, 1 for anywhere, 2 for a free address, and
    /// more for on top of other mappings.
    Remap = "remap" { area, page, pages, size, to }
    /// Gives contents up.
    Free = "advise-free" { area, page, pages }
    /// Says that pages are not used soon.
    Cold = "advise-cold" { area, page, pages }
    /// Has pages reclaimed.
    PageOut = "advise-page-out" { area, page, pages }
    /// Allows or forbids huge pages.
    Huge = "advise-huge" { area, allow }
    /// Keeps pages in memory.
    Lock = "lock" { area, page, pages }
    /// No longer keeps them there.
    Unlock = "unlock" { area, page, pages }
    /// Copies the space and lets the threads of this space whose bits are set in `threads` go on in the copy.
    Fork = "fork" { threads }
    /// Ends a forked space; its threads go on in the one that it was forked from.
    Exit = "exit" { }
    /// Makes a huge page.
    Collapse = "collapse" { area, page }
    /// Moves all that lies on one node to another.
    MigrateSpace = "migrate-space" { from, to }
    /// Moves pages to a node.
    MovePages = "move-pages" { area, page, pages, node }
    /// Lets the next access of each page move it near.
    Hint = "hint" { area, page, pages }
    /// Reads a file.
    Read = "read" { file, page, inside, bytes }
    /// Writes a file.
    Write = "write" { file, page, inside, bytes }
    /// Makes a file longer or shorter.
    Truncate = "truncate" { file, page, inside }
    /// Drops what of a file is in memory.
    Invalidate = "invalidate" { file, page, pages }
    /// Has a file written out.
    Sync = "sync" { file }
    /// Calls with a range that is none: `how` says what is wrong with it.
    Wrong = "wrong" { area, call, how }
}

/// A step: who does what, after how long a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// The thread.
    pub(crate) thread: u32,
    /// Nanoseconds that it computes first.
    pub(crate) pause: u32,
    /// What it does.
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
        let number = |text: &str| text.parse().map_err(|_| format!("`{text}` is no number, in `{line}`"));
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
        self.0.first().map_or(Ok(()), |(name, _)| Err(format!("{name}= means nothing here")))
    }
}
