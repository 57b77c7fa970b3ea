//! A machine from a file.

use std::path::{Path, PathBuf};

use super::builtin;
use super::contention::Contention;
use super::copy::CopyCost;
use super::costs::Costs;
use super::idle::IdleState;
use super::latency::Latency;
use super::linux::KERNELS;
use super::machine::Machine;
use super::mark::Origin;
use super::matrix::Matrix;
use super::memory::TierMemory;
use super::processor::Processor;
use super::quantity::{Parameter, Picoseconds, TIME};
use super::smt::Smt;
use super::storage::Storage;
use super::tlb::TlbGeometry;
use super::topology::Topology;
use super::{MachineError, Problem};
use crate::document::{self, Entry, Section};

impl Machine {
    /// The machine that the TOML file at `path` describes.
    ///
    /// # Errors
    /// The file or its matrix cannot be read or is not valid. The error names the place.
    pub fn from_file(path: &Path) -> Result<Self, MachineError> {
        let text = read_text(path)?;
        let base_dir = path.parent().unwrap_or_else(|| "".as_ref());
        let mut machine = Self::from_toml(&path.to_string_lossy(), &text, base_dir)?;
        machine.files.push(path.to_owned());
        Ok(machine)
    }

    /// The machine that `text` describes. Errors name `file`. `base_dir` is the folder of its matrix, unless the
    /// matrix is built in.
    ///
    /// # Errors
    /// The text is not valid, or the matrix cannot be read or is not valid. The error names the place.
    pub fn from_toml(file: &str, text: &str, base_dir: &Path) -> Result<Self, MachineError> {
        let mut root = document::parse(file, text)?;
        let mut sources = Vec::new();
        let topology = Topology::read(root.take("topology")?.section()?, &mut sources)?;
        assemble(root, base_dir, topology, sources)
    }
}

/// A machine of `topology`, with everything else from `root`.
pub(super) fn assemble(
    mut root: Section<'_>,
    base_dir: &Path,
    topology: Topology,
    mut sources: Vec<Parameter>,
) -> Result<Machine, MachineError> {
    let (mut files, mut warnings) = (Vec::new(), Vec::new());
    let name = root.take("name")?.text()?;
    let description = root.take("description")?.text()?;
    root.refuse("kernel", "linux")?;
    let linux = root.take_if_there("linux").map(|entry| entry.one_of(&KERNELS)).transpose()?;
    let tlb = TlbGeometry::read(root.take("tlb")?.section()?, &mut sources)?;
    let section = root.take("latency")?.section()?;
    let latency = read_latency(section, base_dir, &topology, &mut sources, &mut files)?;
    let costs = Costs::read(root.take("costs")?.section()?, &mut sources)?;
    let copies = match root.take_if_there("copy") {
        Some(entry) => CopyCost::read_all(entry, &topology, &mut sources)?,
        None => Vec::new(),
    };
    let storage = match root.take_if_there("storage") {
        Some(entry) => Some(Storage::read(entry.section()?, &mut sources)?),
        None => None,
    };
    let processor = match root.take_if_there("processor") {
        Some(entry) => Processor::read(entry.section()?, &mut sources, &mut warnings)?,
        None => Processor::default(),
    };
    let contention = match root.take_if_there("contention") {
        Some(entry) => Contention::read(entry.section()?, &mut sources)?,
        None => Contention::default(),
    };
    let smt = match root.take_if_there("smt") {
        Some(entry) => Some(Smt::read(entry.section()?, &topology, &mut sources)?),
        None => None,
    };
    let idle = match root.take_if_there("idle") {
        Some(entry) => IdleState::read_all(entry, &mut sources)?,
        None => Vec::new(),
    };
    let memory = match root.take_if_there("memory") {
        Some(entry) => TierMemory::read_all(entry, &topology, &mut sources)?,
        None => Vec::new(),
    };
    let tick = match root.take_if_there("timer") {
        Some(entry) => read_timer(entry.section()?, &mut sources)?,
        None => 0,
    };
    root.finish()?;
    Ok(Machine {
        name,
        description,
        topology,
        tlb,
        costs,
        latency,
        copies,
        storage,
        processor,
        contention,
        smt,
        idle,
        memory,
        tick,
        linux,
        without: Vec::new(),
        sources,
        files,
        warnings,
    })
}

/// The text of the file at `path`.
pub(super) fn read_text(path: &Path) -> Result<String, MachineError> {
    let unreadable = |error: std::io::Error| Problem::Unreadable(error.to_string());
    std::fs::read_to_string(path).map_err(|error| unreadable(error).in_file(&path.to_string_lossy()))
}

/// Reads `[timer]`: the time that a tick takes.
fn read_timer(mut section: Section<'_>, sources: &mut Vec<Parameter>) -> Result<Picoseconds, MachineError> {
    let tick = TIME.read(section.take("tick")?, sources)?;
    section.finish()?;
    Ok(tick)
}

fn read_latency(
    mut section: Section<'_>,
    base_dir: &Path,
    topology: &Topology,
    sources: &mut Vec<Parameter>,
    files: &mut Vec<PathBuf>,
) -> Result<Latency, MachineError> {
    let ways = ["uniform", "matrix", "cells"].map(|key| section.take_if_there(key).map(|entry| (key, entry)));
    let mut ways = ways.into_iter().flatten();
    let (key, entry) = match ways.next() {
        Some(way) => way,
        None => ("matrix", section.take("matrix")?),
    };
    if let Some((other, beside)) = ways.next() {
        return Err(beside
            .place()
            .error(Problem::invalid(format!("`{other}` beside `{key}`"), "one of the two")));
    }
    if key == "uniform" {
        let latency = TIME.read(entry, sources)?;
        section.finish()?;
        return Ok(Latency::uniform(topology.cpu_count(), latency));
    }
    let matrix = if key == "cells" {
        // Its lines are those of the text, not of the file.
        let MachineError { file, .. } = entry.place().error(Problem::Missing);
        Matrix::parse(&format!("{file}: latency.cells"), &entry.text()?)?
    } else {
        load_matrix(&entry, base_dir, files)?
    };
    let sockets = section.take_if_there("sockets");
    let origin = Origin::take(&mut section)?;
    section.finish()?;

    sources.push(Parameter::new(entry.place().key(), f64::from(matrix.cpus()), "CPUs", &origin));
    if let Some(sockets) = sockets {
        let sockets = read_sockets(sockets, &matrix, topology)?;
        return Ok(Latency::of_sockets(&matrix, sockets, topology));
    }
    if matrix.cpus() != topology.cpu_count() {
        return Err(entry.place().error(Problem::invalid(
            format!("matrix of {} CPUs", matrix.cpus()),
            format!("of {}, as many as the machine has, unless `sockets` composes it", topology.cpu_count()),
        )));
    }
    Ok(Latency::whole(&matrix, topology))
}

/// A built-in matrix, or else a file, which is added to `files`. Built-in matrices come first: a file of the same name
/// must not change a published machine.
fn load_matrix(entry: &Entry<'_>, base_dir: &Path, files: &mut Vec<PathBuf>) -> Result<Matrix, MachineError> {
    let name = entry.text()?;
    if let Some(text) = builtin::matrix(&name) {
        return Matrix::parse(&name, text);
    }
    let path = base_dir.join(&name);
    if !path.exists() {
        let known = builtin::matrix_names().collect::<Vec<_>>().join(", ");
        let bound = format!("a file, relative to the machine file, or one of {known}");
        return Err(entry.place().error(Problem::invalid(format!("{name:?}"), bound)));
    }
    let matrix = Matrix::parse(&path.to_string_lossy(), &read_text(&path)?)?;
    files.push(path);
    Ok(matrix)
}

/// Two lists of CPUs of `matrix`, equally long, with no CPU twice. Each node of `topology` must be a part of a list
/// or a whole number of lists.
fn read_sockets(
    entry: Entry<'_>,
    matrix: &Matrix,
    topology: &Topology,
) -> Result<[Vec<u16>; 2], MachineError> {
    let place = entry.place().clone();
    let mut seen = vec![false; usize::from(matrix.cpus())];
    let mut sockets = Vec::new();
    for list in entry.items()? {
        let mut socket = Vec::new();
        for item in list.items()? {
            let cpu = item.count(0, u32::from(matrix.cpus()) - 1)? as u16;
            if std::mem::replace(&mut seen[usize::from(cpu)], true) {
                return Err(item.place().error(Problem::invalid(format!("CPU {cpu}"), "listed only once")));
            }
            socket.push(cpu);
        }
        sockets.push(socket);
    }
    let sockets: [Vec<u16>; 2] = sockets.try_into().map_err(|all: Vec<_>| {
        place.error(Problem::invalid(format!("{} sockets", all.len()), "2 sockets"))
    })?;
    let lengths = sockets.each_ref().map(Vec::len);
    if lengths[0] != lengths[1] {
        let value = format!("sockets of {} and {} CPUs", lengths[0], lengths[1]);
        return Err(place.error(Problem::invalid(value, "of equally many")));
    }
    let fits = |cpus: usize| cpus <= lengths[0] || cpus.is_multiple_of(lengths[0]);
    if let Some(cpus) = topology.nodes().iter().map(|node| node.cpus.len()).find(|&cpus| !fits(cpus)) {
        let value = format!("sockets of {} CPUs", lengths[0]);
        let bound = format!("of at least {cpus}, as many as a node has, or of a divisor of it");
        return Err(place.error(Problem::invalid(value, bound)));
    }
    Ok(sockets)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::testing::TempDir;
    use super::super::Linux;
    use super::*;

    /// A machine of two nodes of one CPU.
    fn text(latency: &str) -> String {
        let node = "{ cpus = 1, memory = { value = 1, unit = 'GiB', source = 's' } }";
        let cost = |key| format!("{key} = {{ value = 1, unit = 'ns', source = 's' }}\n");
        let costs: String = Costs::KEYS.iter().map(cost).collect();
        format!(
            "name = 'small'\ndescription = 'for tests'\n\
             [latency]\n{latency}\n\
             [topology]\nsource = 's'\nnodes = [{node}, {node}]\n\
             [tlb]\nl1 = {{ entries = 64, ways = 4, source = 's' }}\nl2 = {{ entries = 512, ways = 4, source = 's' }}\n\
             walk_cache = {{ entries = 32, source = 's' }}\n\
             [costs]\n{costs}"
        )
    }

    const UNIFORM: &str = "uniform = { value = 60, unit = 'ns', source = 's' }";

    fn read(text: &str) -> Result<Machine, String> {
        Machine::from_toml("f", text, "".as_ref()).map_err(|error| error.to_string())
    }

    fn refused(latency: &str) -> String {
        read(&text(latency)).expect_err("must be refused")
    }

    #[test]
    fn a_whole_machine_is_read() {
        let machine = read(&text(UNIFORM)).expect("valid");
        assert_eq!((machine.name.as_str(), machine.description.as_str()), ("small", "for tests"));
        assert_eq!(machine.latency.pair(0, 1), 60_000);
        assert_eq!(machine.sources.len(), 4 + 5 + 1 + Costs::KEYS.len());
    }

    #[test]
    fn optional_parts_are_read() {
        let plain = read(&text(UNIFORM)).expect("valid");
        assert_eq!((plain.copies.len(), plain.storage, plain.processor), (0, None, Processor::default()));

        let time = |value| format!("{{ value = {value}, unit = 'ns', source = 's' }}");
        let more = format!(
            "{}[[copy]]\nfrom = 0\nto = 0\nother_node = {}\n[processor]\nsource = 's'\nasids = false\n\
             [storage]\nread = {}\nwrite = {}\nqueue_depth = {{ value = 4, unit = 'requests', source = 's' }}\n",
            text(UNIFORM),
            time(7),
            time(8),
            time(9)
        );
        let machine = read(&more).expect("valid");
        assert_eq!(machine.copies[0].other_node, Some(7_000));
        assert_eq!(machine.storage.map(|storage| (storage.read, storage.write)), Some((8_000, 9_000)));
        assert!(!machine.processor.asids);
        assert_eq!(machine.sources.len(), plain.sources.len() + 1 + 3 + 1);
    }

    #[test]
    fn a_release_of_linux_is_a_part_of_the_machine() {
        let plain = read(&text(UNIFORM)).expect("valid");
        let named = |name: &str| read(&format!("linux = '{name}'\n{}", text(UNIFORM)));
        let machine = named("6.9").expect("valid");
        assert_eq!((plain.linux, machine.linux.map(Linux::name)), (None, Some("6.9")));
        assert!(machine.hash() != plain.hash() && machine.hash() != named("6.3").expect("valid").hash());
        let known = r#""4.2", "6.3", "6.9", "6.12", "6.13", "6.18", "7.2""#;
        for name in ["6.10", ""] {
            assert_eq!(named(name), Err(format!("f:1: linux: {name:?}: must be one of {known}")));
        }
        let of = |line| read(&format!("{line}\n{}", text(UNIFORM))).expect_err("must be refused");
        assert_eq!(of("linux = 6.10"), "f:1: linux: 6.10: must be a text: \"6.10\"");
        assert_eq!(of("kernel = '6.9'"), "f:1: kernel: unknown key; did you mean 'linux'?");
    }

    #[test]
    fn missing_and_unknown_parts_are_refused() {
        for key in ["name", "description", "topology", "tlb", "latency", "costs"] {
            let text =
                text(UNIFORM).replace(&format!("[{key}]"), "[x]").replace(&format!("{key} = '"), "x = '");
            assert_eq!(read(&text).expect_err("must be refused"), format!("f: {key}: missing"));
        }
        let text = format!("{}[extra]\n", text(UNIFORM));
        let line = text.lines().count();
        assert_eq!(read(&text).expect_err("must be refused"), format!("f:{line}: extra: unknown key"));
    }

    #[test]
    fn bad_syntax_is_refused_in_one_line() {
        let error = read("name = 'x'\n[costs\n").expect_err("must be refused");
        assert!(error.starts_with("f:2: ") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn bad_latencies_are_refused() {
        let x5650 = "matrix = 'intel-xeon-x5650-westmere-2s.csv'\nsource = 's'";
        for (latency, expected) in [
            (String::new(), "f:3: latency.matrix: missing"),
            ("matrix = 'aws-graviton3.csv'".to_owned(), "f:3: latency.source: missing"),
            (format!("{UNIFORM}\nmatrix = 'aws-graviton3.csv'"), "f:5: latency.matrix: `matrix` beside `uniform`: must be one of the two"),
            (
                x5650.to_owned(),
                "f:4: latency.matrix: matrix of 24 CPUs: must be of 2, as many as the machine has, unless `sockets` composes it",
            ),
            (format!("{x5650}\nsockets = [[0]]"), "f:6: latency.sockets: 1 sockets: must be 2 sockets"),
            (format!("{x5650}\nsockets = [[0], [24]]"), "f:6: latency.sockets[1][0]: 24: must be 0 to 23"),
            (format!("{x5650}\nsockets = [[0], [0]]"), "f:6: latency.sockets[1][0]: CPU 0: must be listed only once"),
            (
                format!("{x5650}\nsockets = [[0, 1], [6]]"),
                "f:6: latency.sockets: sockets of 2 and 1 CPUs: must be of equally many",
            ),
            (
                format!("{x5650}\nsockets = [[], []]"),
                "f:6: latency.sockets: sockets of 0 CPUs: must be of at least 1, as many as a node has, or of a divisor of it",
            ),
        ] {
            assert_eq!(refused(&latency), expected);
        }
    }

    #[test]
    fn a_matrix_may_stand_in_the_machine_file() {
        let cells = "cells = \"\"\"\n,\n7,\n\"\"\"\nsource = 's'";
        let machine = read(&text(cells)).expect("valid");
        assert_eq!(machine.latency.pair(0, 1), 7_000);
        assert!(machine.sources.iter().any(|parameter| parameter.key == "latency.cells"));
        let refused = |from: &str, to: &str| refused(&cells.replace(from, to));
        assert_eq!(refused("7", "x"), "f: latency.cells:2:1: x: must be a latency of 0 to 1000000 ns");
        assert_eq!(
            refused("source", "matrix = 'm.csv'\nsource"),
            "f:4: latency.cells: `cells` beside `matrix`: must be one of the two"
        );
    }

    #[test]
    fn latencies_are_composed_from_a_built_in_matrix() {
        let latency = "matrix = 'intel-xeon-x5650-westmere-2s.csv'\nsource = 's'\nsockets = [[0], [6]]";
        assert_eq!(read(&text(latency)).expect("valid").latency.pair(0, 1), 71_869);
    }

    #[test]
    fn a_node_is_composed_from_several_sockets() {
        let latency = "matrix = 'intel-xeon-x5650-westmere-2s.csv'\nsource = 's'\nsockets = [[0, 1], [6, 7]]";
        let with_cpus = |cpus: u16| text(latency).replace("cpus = 1,", &format!("cpus = {cpus},"));
        let machine = read(&with_cpus(4)).expect("valid");
        assert!(machine.latency.pair(0, 1) < 40_000 && machine.latency.pair(2, 3) < 40_000, "one socket");
        assert!(machine.latency.pair(1, 2) > 60_000, "two sockets of one node");
        assert_eq!(
            read(&with_cpus(3)).expect_err("must be refused"),
            "f:6: latency.sockets: sockets of 2 CPUs: must be of at least 3, as many as a node has, or of a divisor of it"
        );
    }

    #[test]
    fn the_matrix_is_found_beside_the_machine_file() {
        let dir = TempDir::new();
        dir.write("m.csv", ",\n7,\n");
        dir.write("machine.toml", &text("matrix = 'm.csv'\nsource = 's'"));
        let path = dir.path().join("machine.toml");
        let machine = Machine::from_file(&path).expect("valid");
        assert_eq!(machine.latency.pair(0, 1), 7_000);
        assert_eq!(machine.files, [dir.path().join("m.csv"), path.clone()]);

        dir.write("m.csv", ",\nx,\n");
        let error = Machine::from_file(&path).expect_err("must be refused").to_string();
        assert!(error.ends_with("m.csv:2:1: x: must be a latency of 0 to 1000000 ns"), "{error}");

        fs::remove_file(dir.path().join("m.csv")).expect("it was just written");
        let error = Machine::from_file(&path).expect_err("must be refused").to_string();
        assert!(
            error.contains("latency.matrix: \"m.csv\": must be a file, relative to the machine"),
            "{error}"
        );
        assert!(error.contains("or one of ") && error.contains("aws-graviton3.csv"), "{error}");
    }

    #[test]
    fn an_error_names_a_file_that_cannot_be_read() {
        let dir = TempDir::new();
        let error =
            Machine::from_file(&dir.path().join("none.toml")).expect_err("must be refused").to_string();
        assert!(error.contains("none.toml: cannot read: "), "{error}");
    }
}
