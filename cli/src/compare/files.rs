//! The check that no two options name the same file, whose last writer would overwrite the others.

use std::path::{Path, PathBuf};

use crate::args::CompareArguments;
use crate::failure::{Done, Failure};

/// Refuses a command line in which two options name the same file, even by different paths. Pipes and devices may be
/// named repeatedly.
pub(crate) fn distinct(arguments: &CompareArguments, machine: Option<&Path>) -> Done {
    let json = arguments.json.as_deref().filter(|path| *path != Path::new("-"));
    let (html, trace) = (arguments.html.as_deref(), arguments.trace.as_deref());
    let mut seen: Vec<(&str, PathBuf)> = Vec::new();
    for (option, path) in [("--machine", machine), ("--json", json), ("--html", html), ("--trace", trace)] {
        let Some((path, place)) = path.and_then(|path| Some((path, place(path)?))) else { continue };
        if let Some((earlier, _)) = seen.iter().find(|(_, other)| *other == place) {
            return Err(Failure::Input(format!(
                "{earlier} and {option} name the same file: {}",
                path.display()
            )));
        }
        seen.push((option, place));
    }
    Ok(())
}

/// The canonical path of a file that exists or could be created; `None` for anything else.
fn place(path: &Path) -> Option<PathBuf> {
    if let Ok(place) = path.canonicalize() {
        return place.is_file().then_some(place);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}
