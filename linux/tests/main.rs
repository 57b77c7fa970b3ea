//! Recordings, read and replayed: one program, so that it is linked once.

mod anonymous;
mod corpus;
mod damage;
mod export;
mod guests;
mod imports;
mod own_row;
#[path = "../../sim/perfetto/tests/reader/mod.rs"]
mod reader;
mod recordings;
mod worked;
