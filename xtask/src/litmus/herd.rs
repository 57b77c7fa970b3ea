//! herd7, with the model as it comes and with DSB NSH as a barrier of its CPU.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

use ceasefire_litmus::{Judge, Test, Verdict};

use crate::failure::{self, ensure, At as _, Failure};
use crate::workspace::Workspace;
use crate::{debian, guests};

/// The package with herd7, and its suite.
const PACKAGE: &str = "herdtools7";
const SUITE: &str = "sid";

/// The file of the model that says which barriers there are.
const BARRIERS: &str = "aarch64fences.cat";

/// Lines of that file, and the same with the barriers that reach as far as the CPU. The model of January 2026 has them
/// too.
const REPLACED: [(&str, &str); 3] = [
    (
        "let dsb.full = DSB.ISH | DSB.OSH | DSB.SY\n",
        "let dsb.full = DSB.ISH | DSB.OSH | DSB.SY | (try DSB.NSH with emptyset)\n",
    ),
    (
        "let dsb.ld = DSB.ISHLD | DSB.OSHLD | DSB.LD\n",
        "let dsb.ld = DSB.ISHLD | DSB.OSHLD | DSB.LD | (try DSB.NSHLD with emptyset)\n",
    ),
    (
        "let dsb.st = DSB.ISHST | DSB.OSHST | DSB.ST\n",
        "let dsb.st = DSB.ISHST | DSB.OSHST | DSB.ST | (try DSB.NSHST with emptyset)\n",
    ),
];

/// herd7.
pub(super) struct Herd {
    /// The program, after the loader that runs it.
    words: Vec<PathBuf>,
    /// The folder of its models.
    models: PathBuf,
    /// The folder for tests and for the other model.
    folder: PathBuf,
}

impl Herd {
    /// The machine's herd7, or one that is fetched.
    pub(super) fn find(workspace: &Workspace) -> Result<Self, Failure> {
        let folder = workspace.target.join("litmus");
        guests::make(&folder)?;
        let paths = env::var_os("PATH").unwrap_or_default();
        let found = env::split_paths(&paths).map(|path| path.join("herd7")).find(|program| program.is_file());
        if let Some(program) = found {
            let models = failure::stdout(Command::new(&program).arg("-libdir"))?.trim().into();
            return Ok(Self { words: vec![program], models, folder });
        }
        let unpacked = folder.join("unpacked");
        if !unpacked.is_dir() {
            // With the C library that it needs: a newer one than that of the machine.
            debian::unpack(&unpacked, &[SUITE], |apt, packages| {
                apt.download([PACKAGE], packages)?;
                let depends = debian::depends(&guests::file(packages, "*.deb")?)?;
                apt.download(depends.iter().map(String::as_str), packages)
            })?;
        }
        let loader = guests::file(&unpacked, "*/ld-linux*.so.*")?;
        let libraries = loader.parent().map(Path::to_owned).unwrap_or_default();
        let program = guests::file(&unpacked, "*/bin/herd7")?;
        let models = unpacked.join("usr/share/herdtools7/herd");
        Ok(Self { words: vec![loader, "--library-path".into(), libraries, program], models, folder })
    }

    /// Whether the model as it comes takes DSB NSH for a barrier.
    pub(super) fn knows_non_shareable(&self) -> bool {
        let text = fs::read_to_string(self.models.join(BARRIERS));
        text.is_ok_and(|text| text.contains("DSB.NSH"))
    }

    /// The verdict of each test, by its name.
    pub(super) fn judge(&self, tests: &[Test]) -> Result<BTreeMap<String, Verdict>, Failure> {
        let workers = thread::available_parallelism().map_or(1, usize::from);
        let mut verdicts = BTreeMap::new();
        for judge in [Judge::AsItIs, Judge::NonShareable, Judge::Fetches] {
            let mut files = Vec::new();
            let folder = self.folder.join(format!("{judge:?}"));
            let _ = fs::remove_dir_all(&folder);
            guests::make(&folder)?;
            for test in tests.iter().filter(|test| test.judge == judge) {
                let file = folder.join(format!("{}.litmus", test.name));
                fs::write(&file, &test.text).at(&file)?;
                files.push(file);
            }
            let models = match judge {
                Judge::NonShareable if !self.knows_non_shareable() => self.patched()?,
                _ => self.models.clone(),
            };
            // Neighbours take about the same time.
            let shares =
                (0..workers).map(|worker| files.iter().skip(worker).step_by(workers).collect::<Vec<_>>());
            let shares: Vec<_> = shares.filter(|share| !share.is_empty()).collect();
            let found = thread::scope(|scope| {
                let models = &models;
                let run = |share| scope.spawn(move || self.run(models, judge, share));
                let runs: Vec<_> = shares.into_iter().map(run).collect();
                runs.into_iter().map(|run| run.join().expect("a worker ends")).collect::<Result<Vec<_>, _>>()
            })?;
            verdicts.extend(found.iter().flat_map(|text| observations(text)));
        }
        let missing = tests.iter().find(|test| !verdicts.contains_key(&test.name));
        ensure!(missing.is_none(), new, "herd7 gave no verdict on {}", missing.map_or("", |test| &test.name));
        Ok(verdicts)
    }

    /// Runs herd on some files, and returns what it printed.
    fn run(&self, models: &Path, judge: Judge, files: Vec<&PathBuf>) -> Result<String, Failure> {
        let variant = match judge {
            Judge::AsItIs | Judge::NonShareable => "vmsa,fatal",
            Judge::Fetches => "self",
        };
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).arg("-set-libdir").arg(models);
        // It stops at the first execution that settles a test.
        command.args(["-speedcheck", "true", "-variant", variant]).args(files);
        let output = command.output().map_err(|error| Failure::new(format!("herd7: {error}")))?;
        ensure!(
            output.status.success() && output.stderr.is_empty(),
            new,
            "herd7 failed: {}\n{}",
            output.status,
            failure::last_lines(&String::from_utf8_lossy(&output.stderr), 10)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// A copy of the models in which DSB NSH is a barrier.
    fn patched(&self) -> Result<PathBuf, Failure> {
        let copy = self.folder.join("models");
        let _ = fs::remove_dir_all(&copy);
        guests::make(&copy)?;
        for file in guests::files(&self.models)?
            .iter()
            .filter(|file| file.extension().is_some_and(|end| end == "cat"))
        {
            guests::copy(file, &copy.join(file.file_name().unwrap_or_default()))?;
        }
        let file = copy.join(BARRIERS);
        let mut text = fs::read_to_string(&file).at(&file)?;
        for (line, replaced) in REPLACED {
            ensure!(text.contains(line), new, "{} has no line `{}`", file.display(), line.trim_end());
            text = text.replace(line, replaced);
        }
        fs::write(&file, text).at(&file)?;
        Ok(copy)
    }
}

/// The verdicts in what herd prints: `Observation NAME Never 0 3`.
fn observations(text: &str) -> impl Iterator<Item = (String, Verdict)> + '_ {
    text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("Observation ")?.split_whitespace();
        let name = words.next()?.to_owned();
        let verdict = if words.next()? == "Never" { Verdict::Never } else { Verdict::Sometimes };
        Some((name, verdict))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_of_some_or_of_all_executions_is_one_that_occurs() {
        let text = "Test a Allowed\nObservation a Never 0 3\nTime a 0.02\nObservation b Sometimes 1 3\nObservation c Always 1 0\n";
        let found: Vec<_> = observations(text).collect();
        let expected = [("a", Verdict::Never), ("b", Verdict::Sometimes), ("c", Verdict::Sometimes)];
        assert_eq!(found, expected.map(|(name, verdict)| (name.to_owned(), verdict)));
    }
}
