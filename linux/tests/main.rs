//! Recordings, read and replayed: one program, so that it is linked once.

mod corpus;
mod damage;
mod export;
mod guests;
mod imports;
mod recordings;
mod worked;
