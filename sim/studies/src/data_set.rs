//! The results of studies in a folder: Parquet files, one folder for each experiment, machine and mechanism.
//!
//! The folders are named as other tools expect it, `experiment=mmap-read/machine=1-socket/mechanism=batched`. Each file
//! is written beside its place and put there whole, so a reader never sees half of one. Files are small while a study
//! runs, and are put together at its end. Files of two data sets can be copied together: a point that both have is one
//! point.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use ceasefire_experiments::{Cells, Column};
use parquet::errors::ParquetError;
use percent_encoding::{utf8_percent_encode, AsciiSet, NON_ALPHANUMERIC};
use rustix::fs::{flock, FlockOperation};
use rustix::io::Errno;
use tempfile::Builder;

use crate::join::{joined, picked};
use crate::parquet::{footer, from_parquet, to_parquet};
use crate::point::hash;
use crate::row::{table, Partition, Row};

/// The format of the files, and its name in their metadata.
const FORMAT: (&str, &str) = ("ceasefire_study", "1");
/// The number of rows from which a file is large enough, and is not put together with others.
const LARGE: usize = 50_000;
/// The number of small files of a folder that are put together while a study runs.
const MANY: usize = 64;
/// The beginning of the name of a file that is being written.
const UNFINISHED: &str = ".part-";
/// The characters that a value in a folder's name may have. All others are written as in addresses.
const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// The results of studies in a folder. One process at a time has it open.
#[derive(Debug)]
pub struct DataSet {
    folder: PathBuf,
    /// The number of small files, by folder.
    small: HashMap<PathBuf, usize>,
    /// Locked until it is closed.
    _lock: File,
}

/// The reason for which a data set cannot be used.
#[derive(Debug)]
pub enum DataSetError {
    /// A file or folder cannot be read or written.
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The system's error.
        error: io::Error,
    },
    /// A file is not one that a study wrote, or is damaged.
    File {
        /// The file.
        path: PathBuf,
        /// The problem.
        error: ParquetError,
    },
    /// Another version wrote a file in another format.
    Format {
        /// The file.
        path: PathBuf,
        /// Its format; none if no study wrote it.
        found: Option<String>,
    },
    /// Another process has the data set open.
    Busy(PathBuf),
}

impl fmt::Display for DataSetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { path, error } => write!(f, "{}: {error}", path.display()),
            Self::File { path, error } => write!(f, "{}: {error}", path.display()),
            Self::Format { path, found: Some(found) } => {
                write!(
                    f,
                    "{}: format {found}: must be format {}, or use another folder",
                    path.display(),
                    FORMAT.1
                )
            }
            Self::Format { path, found: None } => {
                write!(f, "{}: not a file of a study: move it away, or use another folder", path.display())
            }
            Self::Busy(folder) => write!(f, "{}: another sweep writes to this folder", folder.display()),
        }
    }
}

impl std::error::Error for DataSetError {}

/// The error of a system call about a path.
fn io(path: &Path) -> impl Fn(io::Error) -> DataSetError + '_ {
    |error| DataSetError::Io { path: path.to_owned(), error }
}

/// The error of a file's contents.
fn damaged(path: &Path) -> impl Fn(ParquetError) -> DataSetError + '_ {
    |error| DataSetError::File { path: path.to_owned(), error }
}

impl DataSet {
    /// Opens the data set in a folder, which is made if there is none.
    ///
    /// # Errors
    /// The folder cannot be written, holds files of another format, or is open in another process.
    pub fn open(folder: &Path) -> Result<Self, DataSetError> {
        fs::create_dir_all(folder).map_err(io(folder))?;
        let path = folder.join("_lock");
        let lock = File::create(&path).map_err(io(&path))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
            Errno::WOULDBLOCK => DataSetError::Busy(folder.to_owned()),
            error => io(&path)(error.into()),
        })?;
        let mut set = Self { folder: folder.to_owned(), small: HashMap::new(), _lock: lock };
        for path in set.files(UNFINISHED)? {
            fs::remove_file(&path).map_err(io(&path))?;
        }
        for path in set.parts()? {
            let facts = footer(open(&path)?).map_err(damaged(&path))?.facts;
            let found = facts.into_iter().find(|(name, _)| name == FORMAT.0).map(|(_, value)| value);
            if found.as_deref() != Some(FORMAT.1) {
                return Err(DataSetError::Format { path, found });
            }
            set.count(&path);
        }
        Ok(set)
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Keeps the text of a study in the folder, for its readers.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn keep(&self, study: &str) -> Result<(), DataSetError> {
        let path = self.folder.join("_study.toml");
        write(&path, study.as_bytes())
    }

    /// The names of the points that it has; without those that failed, if they are to be run again.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn points(&self, with_failed: bool) -> Result<HashSet<String>, DataSetError> {
        let mut points = HashSet::new();
        for path in self.parts()? {
            points.extend(points_in(&path, with_failed)?);
        }
        Ok(points)
    }

    /// Adds rows, which are on the disk afterwards.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn append(&mut self, rows: &[Row]) -> Result<(), DataSetError> {
        let mut partitions: BTreeMap<Partition, Vec<Row>> = BTreeMap::new();
        for row in rows {
            partitions.entry(row.partition()).or_default().push(row.clone());
        }
        for (partition, rows) in partitions {
            let folder = self.folder_of(&partition);
            let path = put(&folder, &table(&rows))?;
            self.count(&path);
            if self.small.get(&folder).is_some_and(|small| *small >= MANY) {
                self.compact(&folder)?;
            }
        }
        Ok(())
    }

    /// Puts the small files of each folder together. A point that is there twice is kept once.
    ///
    /// # Errors
    /// A file cannot be read or written.
    pub fn finish(&mut self) -> Result<(), DataSetError> {
        let folders: HashSet<PathBuf> =
            self.parts()?.iter().filter_map(|path| path.parent().map(Path::to_owned)).collect();
        folders.iter().try_for_each(|folder| self.compact(folder))
    }

    fn compact(&mut self, folder: &Path) -> Result<(), DataSetError> {
        let (mut small, mut large) = (Vec::new(), Vec::new());
        for path in parts_in(folder)? {
            let rows = footer(open(&path)?).map_err(damaged(&path))?.rows;
            (if rows >= LARGE { &mut large } else { &mut small }).push(path);
        }
        if small.len() < 2 {
            return Ok(());
        }
        let mut known = HashSet::new();
        for path in &large {
            known.extend(points_in(path, false)?);
        }
        let tables: Vec<Vec<Column>> = small
            .iter()
            .map(|path| from_parquet(open(path)?, |_| true).map_err(damaged(path)))
            .collect::<Result<_, _>>()?;
        let all = joined(tables);
        let (points, failed) = (texts(&all, "point"), failures(&all));
        // Runs that succeeded come first, so that a failure is dropped if the point was run again.
        let (mut rows, bad): (Vec<usize>, Vec<usize>) = (0..points.len()).partition(|&row| !failed[row]);
        rows.extend(bad);
        rows.retain(|&row| known.insert(points[row].clone()));
        // So the file does not depend on the order in which runs ended.
        rows.sort_unstable_by(|one, other| points[*one].cmp(&points[*other]));
        let mut written = HashSet::new();
        if !rows.is_empty() {
            written.insert(put(folder, &picked(&all, &rows))?);
        }
        for path in small.iter().filter(|path| !written.contains(*path)) {
            fs::remove_file(path).map_err(io(path))?;
        }
        self.small.insert(folder.to_owned(), 1);
        Ok(())
    }

    fn count(&mut self, part: &Path) {
        if let Some(folder) = part.parent() {
            *self.small.entry(folder.to_owned()).or_default() += 1;
        }
    }

    fn folder_of(&self, partition: &Partition) -> PathBuf {
        partition.iter().fold(self.folder.clone(), |folder, (name, value)| {
            folder.join(format!("{name}={}", utf8_percent_encode(value, PLAIN)))
        })
    }

    fn parts(&self) -> Result<Vec<PathBuf>, DataSetError> {
        self.files("part-")
    }

    /// The files of all partitions whose names begin so, sorted.
    fn files(&self, begin: &str) -> Result<Vec<PathBuf>, DataSetError> {
        let mut folders = vec![self.folder.clone()];
        for name in ["experiment=", "machine=", "mechanism="] {
            let inner = folders.iter().map(|folder| entries(folder, name)).collect::<Result<Vec<_>, _>>()?;
            folders = inner.concat();
        }
        let files = folders.iter().map(|folder| entries(folder, begin)).collect::<Result<Vec<_>, _>>()?;
        Ok(files.concat())
    }
}

/// The files or folders in a folder whose names begin so, sorted.
fn entries(folder: &Path, begin: &str) -> Result<Vec<PathBuf>, DataSetError> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(io(folder))? {
        let entry = entry.map_err(io(folder))?;
        if entry.file_name().to_string_lossy().starts_with(begin) {
            found.push(entry.path());
        }
    }
    found.sort_unstable();
    Ok(found)
}

fn parts_in(folder: &Path) -> Result<Vec<PathBuf>, DataSetError> {
    entries(folder, "part-")
}

fn open(path: &Path) -> Result<File, DataSetError> {
    File::open(path).map_err(io(path))
}

/// The names of the points of a file; without those that failed, if they are to be run again.
fn points_in(path: &Path, with_failed: bool) -> Result<Vec<String>, DataSetError> {
    let table =
        from_parquet(open(path)?, |name| ["point", "error"].contains(&name)).map_err(damaged(path))?;
    let points = texts(&table, "point").iter().zip(failures(&table));
    Ok(points.filter(|(_, failed)| with_failed || !failed).map(|(point, _)| point.clone()).collect())
}

/// The texts of a column; none if there is no such column.
fn texts<'a>(table: &'a [Column], name: &str) -> &'a [String] {
    table.iter().find(|column| column.name == name).map_or(&[], |column| match &column.cells {
        Cells::Text(cells) => cells,
        _ => &[],
    })
}

/// Whether each row has an error.
fn failures(table: &[Column]) -> Vec<bool> {
    let rows = table.first().map_or(0, |column| column.cells.len());
    let errors = table.iter().find(|column| column.name == "error").map(|column| &column.cells);
    match errors {
        Some(Cells::TextOrNone(cells)) => cells.iter().map(Option::is_some).collect(),
        _ => vec![false; rows],
    }
}

/// Writes a table to a file of a folder, named by its points.
fn put(folder: &Path, table: &[Column]) -> Result<PathBuf, DataSetError> {
    fs::create_dir_all(folder).map_err(io(folder))?;
    let path = folder.join(format!("part-{}.parquet", hash(&texts(table, "point").join("\n"))));
    let facts = [(FORMAT.0, FORMAT.1.to_owned()), ("ceasefire", env!("CARGO_PKG_VERSION").to_owned())];
    let bytes = to_parquet(table, &facts).map_err(damaged(&path))?;
    write(&path, &bytes)?;
    Ok(path)
}

/// Writes a file whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<(), DataSetError> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let mut file = Builder::new().prefix(UNFINISHED).tempfile_in(folder).map_err(io(path))?;
    file.write_all(bytes).and_then(|()| file.as_file().sync_all()).map_err(io(path))?;
    file.persist(path).map_err(|error| io(path)(error.error))?;
    Ok(())
}
