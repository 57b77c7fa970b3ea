//! QEMU with plugins that can read registers, and the plugin.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use ceasefire_sanitizer::emulator::{version_in, FIRST};

use crate::debian;
use crate::failure::{self, ensure, At as _, Failure};
use crate::workspace::Workspace;

/// Debian's packages of QEMU. Their suite is that of the machine's release with newer versions.
const PACKAGES: [&str; 3] = ["qemu-system-x86", "qemu-system-arm", "qemu-system-riscv"];

/// The emulator, with the plugin.
pub(crate) struct Emulator {
    /// The unpacked packages, unless the machine's own QEMU is new enough.
    unpacked: Option<PathBuf>,
    plugin: PathBuf,
}

impl Emulator {
    /// Finds or fetches QEMU, and builds the plugin.
    pub(crate) fn find(workspace: &Workspace) -> Result<Self, Failure> {
        let folder = workspace.target.join("sanitize/qemu");
        let own = ["x86_64", "aarch64", "riscv64"].map(|arch| version(Command::new(program(arch))));
        let unpacked = if own.iter().all(|own| own.is_some_and(|own| own >= FIRST)) {
            None
        } else if folder.is_dir() {
            Some(folder)
        } else {
            fetch(&folder).map_err(|why| {
                let (major, minor) = FIRST;
                Failure::new(format!(
                    "QEMU {major}.{minor} or newer is not here, and not in Debian's backports: {why}"
                ))
            })?;
            Some(folder)
        };
        failure::run(&mut workspace.cargo("build --release --package ceasefire-plugin"))?;
        let plugin = workspace.target.join("release/libceasefire_plugin.so");
        Ok(Self { unpacked, plugin })
    }

    /// The command that emulates an architecture with the plugin, which writes to a report.
    pub(crate) fn command(&self, arch: &str, report: &Path) -> Result<Command, Failure> {
        // A report of an earlier run is none of this one.
        fs::write(report, "").at(report)?;
        Ok(self.plugged(arch, "out", report))
    }

    /// The command that emulates an architecture with the plugin, which counts instructions of the kernel.
    pub(crate) fn counting(&self, arch: &str, count: &Path) -> Command {
        self.plugged(arch, "count", count)
    }

    /// The same, with the plugin and the file that it writes.
    fn plugged(&self, arch: &str, what: &str, file: &Path) -> Command {
        let mut command = self.unwatched(arch);
        command.arg("-plugin").arg(format!("{},{what}={}", self.plugin.display(), file.display()));
        command
    }

    /// The command that emulates an architecture.
    pub(crate) fn unwatched(&self, arch: &str) -> Command {
        let Some(unpacked) = &self.unpacked else { return Command::new(program(arch)) };
        let mut command = Command::new(unpacked.join("usr/bin").join(program(arch)));
        let libraries = unpacked.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH));
        // Modules of another build are refused.
        command.env("QEMU_MODULE_DIR", libraries.join("qemu")).env("LD_LIBRARY_PATH", libraries);
        for data in ["qemu", "seabios"] {
            command.arg("-L").arg(unpacked.join("usr/share").join(data));
        }
        command
    }
}

fn program(arch: &str) -> String {
    format!("qemu-system-{arch}")
}

fn fetch(folder: &Path) -> Result<(), Failure> {
    let release = fs::read_to_string("/etc/os-release").at("/etc/os-release")?;
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    ensure!(name.is_some(), new, "/etc/os-release names no release of Debian");
    let release = name.unwrap_or_default().trim_matches('"');
    let suite = format!("{release}-backports");
    debian::unpack(folder, &[release, &suite], |apt, packages| apt.download_all(&PACKAGES, &suite, packages))
}

/// The version of QEMU, if it is there.
fn version(mut command: Command) -> Option<(u32, u32)> {
    let output = command.arg("--version").output().ok()?;
    version_in(&String::from_utf8_lossy(&output.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_qemu_is_known_by_its_version() {
        for (text, is_new) in [
            ("QEMU emulator version 10.0.2 (Debian 1:10.0.2+ds-2)\nCopyright", true),
            ("QEMU emulator version 9.2.0\n", true),
            ("QEMU emulator version 7.2.22\n", false),
            ("qemu-x86_64 version 10.0", false),
        ] {
            assert_eq!(version_in(text).is_some_and(|version| version >= FIRST), is_new, "{text}");
        }
    }

    #[test]
    fn an_unpacked_qemu_has_its_own_libraries_and_data() {
        let emulator = Emulator { unpacked: Some("u".into()), plugin: "p".into() };
        let line = failure::line(&emulator.unwatched("aarch64"));
        assert!(line.starts_with("LD_LIBRARY_PATH=\"u/usr/lib/"), "{line}");
        assert!(
            line.ends_with("u/usr/bin/qemu-system-aarch64 -L u/usr/share/qemu -L u/usr/share/seabios"),
            "{line}"
        );
    }
}
