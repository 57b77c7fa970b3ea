//! Headless Chromium from the command line. Each call starts a browser of its own, with an empty profile and without
//! network.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{self, Failure};

/// Its names on different systems.
const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
/// A browser that has not ended after this many seconds is ended.
const PATIENCE: &str = "180";
const FLAGS: [&str; 10] = [
    "--headless",
    // Its sandbox needs rights that containers do not give. It shows only the project's own page.
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--virtual-time-budget=5000",
];

pub(super) struct Browser(PathBuf);

impl Browser {
    /// The first that is installed.
    pub(super) fn find() -> Result<Self, Failure> {
        let folders: Vec<PathBuf> =
            env::var_os("PATH").map_or_else(Vec::new, |path| env::split_paths(&path).collect());
        let found = NAMES.iter().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
        let found = found.into_iter().find(|path| path.is_file());
        found.map(Self).ok_or_else(|| Failure::new("no browser is installed: install Debian's `chromium`"))
    }

    /// The document of a page, after its scripts have run.
    pub(super) fn dom(&self, page: &Path, folder: &Path) -> Result<String, Failure> {
        self.open(page, folder, &["--dump-dom".into()])
    }

    /// Prints a page to a PDF.
    pub(super) fn print(&self, page: &Path, to: &Path, folder: &Path) -> Result<(), Failure> {
        let to = format!("--print-to-pdf={}", to.display());
        self.open(page, folder, &[to, "--no-pdf-header-footer".into()]).map(drop)
    }

    /// A picture of a page on a desktop screen.
    pub(super) fn picture(&self, page: &Path, to: &Path, folder: &Path) -> Result<(), Failure> {
        let to = format!("--screenshot={}", to.display());
        self.open(page, folder, &[to, "--window-size=1280,4000".into()]).map(drop)
    }

    fn open(&self, page: &Path, folder: &Path, options: &[String]) -> Result<String, Failure> {
        let profile = folder.join(format!("profile-{}", std::process::id()));
        // A leftover of an earlier process with the same number.
        let _ = fs::remove_dir_all(&profile);
        let mut command = Command::new("timeout");
        command.args(["--kill-after=5", PATIENCE]).arg(&self.0).args(FLAGS);
        command.arg(format!("--user-data-dir={}", profile.display())).args(options).arg(page);
        let output = failure::output(&mut command);
        // A profile that stays does no harm.
        let _ = fs::remove_dir_all(&profile);
        output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    }
}
