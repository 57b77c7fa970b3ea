//! ostd in a folder of its own: as it is published, or on this project's engine.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::edits;
use crate::failure::{self, ensure, At as _, Failure};
use crate::workspace::{self, Workspace};

/// The version of ostd and of its build tool.
const VERSION: &str = "0.19.0";
/// The version of the crate `unwinding`. Later ones do not build with the toolchain that ostd pins.
const UNWINDING: &str = "0.2.10";

/// An architecture for which ostd is built. `ports/ostd/OSDK.toml` has a scheme for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arch {
    /// Its name, which is that of its scheme too.
    pub(super) name: &'static str,
    /// Rust's target.
    target: &'static str,
    /// The layers that ostd needs there in any case, as published too.
    layers: &'static [Layer],
    /// Settings of cargo for it.
    config: &'static str,
    /// Tests that cannot pass on the emulated processor, each after its file.
    pub(super) unfit: &'static [&'static str],
}

pub(super) const X86_64: Arch =
    Arch { name: "x86_64", target: "x86_64-unknown-none", layers: &[], config: "", unfit: &[] };

pub(super) const RISCV64: Arch = Arch {
    name: "riscv64",
    target: "riscv64imac-unknown-none-elf",
    layers: &[CONSOLE, INTERRUPTS],
    // There the unwinder has no index, and searches all functions for each one on the stack. Unoptimised that takes tens
    // of seconds for each test that panics.
    config: "\n[profile.dev.package]\ngimli = { opt-level = 3 }\nunwinding = { opt-level = 3 }\n",
    // They expect that a device uses a buffer in its place. ostd copies it on processors that cannot write caches back
    // (Zicbom), and QEMU 7.2 emulates no other.
    unfit: &["mm/dma/test.rs: to_device", "mm/dma/test.rs: from_device"],
};

impl Arch {
    pub(super) const ALL: &'static [Self] = &[X86_64, RISCV64];
}

/// Where a file of Bochs or of what it needs is, and the package that has the file.
const BOCHS: [(&str, &str); 7] = [
    ("/usr/bin/bochs", "bochs"),
    ("/usr/share/bochs/BIOS-bochs-latest", "bochsbios"),
    ("/usr/share/vgabios/vgabios.bin", "vgabios"),
    ("/usr/bin/grub-mkrescue", "grub-common"),
    ("/usr/lib/grub/i386-pc", "grub-pc-bin"),
    ("/usr/bin/xorriso", "xorriso"),
    ("/usr/bin/mformat", "mtools"),
];

/// ostd as cargo has fetched it, with the tools that build it.
pub(super) struct Ostd {
    pub(super) arch: Arch,
    /// Whether Bochs boots it, whose processors have PCIDs, and not QEMU. It boots from a disc, and is much slower.
    pub(super) bochs: bool,
    /// This repository, and its folder for the port.
    root: PathBuf,
    ours: PathBuf,
    /// The folder of all that is made.
    made: PathBuf,
    published: PathBuf,
    tool: PathBuf,
    /// A folder with other emulators than those of the search path.
    pub(super) emulators: Option<PathBuf>,
}

/// A part of the port: files to lay over ostd's own, and edits of others. Each is a folder of `ports/ostd`.
pub(super) type Layer = &'static str;
/// The engine.
pub(super) const ENGINE: Layer = "engine";
/// Counters for the kernel `rounds`.
pub(super) const COUNTERS: Layer = "counters";
/// Tests of our own.
pub(super) const PROBES: Layer = "probes";
/// Ways for the kernel `conformance` into what is private to ostd.
pub(super) const DOORS: Layer = "doors";
/// A console on riscv64 with old firmware.
const CONSOLE: Layer = "console";
/// Interrupts between CPUs of riscv64 that are not lost.
const INTERRUPTS: Layer = "interrupts";

/// What the build tool does.
#[derive(Debug)]
pub(super) struct Run<'a> {
    /// Its command and options.
    pub(super) line: &'a str,
    pub(super) layers: &'a [Layer],
    pub(super) cpus: u32,
    /// Options of QEMU besides those for all runs.
    pub(super) machine: &'a str,
    /// The engine's guards can be removed.
    pub(super) removable: bool,
}

impl<'a> Run<'a> {
    pub(super) fn new(line: &'a str, layers: &'a [Layer], cpus: u32) -> Self {
        Self { line, layers, cpus, machine: "", removable: false }
    }
}

impl Ostd {
    /// Installs the toolchain, its target and the build tool if they are missing, and fetches ostd.
    pub(super) fn fetch(arch: Arch, bochs: bool) -> Result<Self, Failure> {
        let missing = BOCHS.iter().filter(|(file, _)| bochs && !Path::new(file).exists());
        let missing: Vec<&str> = missing.map(|(_, package)| *package).collect();
        ensure!(missing.is_empty(), new, "Bochs needs Debian's {}", missing.join(", "));
        let workspace = Workspace::load()?;
        let (ours, made) = (workspace.root.join("ports/ostd"), workspace.target.join("ports/ostd"));
        let channel = channel(&read(&ours.join("rust-toolchain.toml"))?)?;
        workspace::toolchain(&channel, &["rust-src"], &[arch.target])?;
        let tool = tool(&channel, &made)?;
        let published = fetch(&channel, &made)?;
        Ok(Self { arch, bochs, root: workspace.root, ours, made, published, tool, emulators: None })
    }

    /// Writes a copy with these layers and those of the architecture, and returns its folder. Files that are the same
    /// stay as they are, so that the next build is short. An edit of a file that a layer lays over is left out.
    pub(super) fn lay_out(&self, layers: &[Layer]) -> Result<PathBuf, Failure> {
        let layers = &[self.arch.layers, layers].concat();
        let to = self.made.join([&["ostd"], layers.as_slice()].concat().join("-"));
        let published = files(&self.published)?;
        let (mut list, mut laid_over) = (Vec::new(), Vec::new());
        for layer in layers {
            let folder = self.ours.join(layer);
            list.extend(edits::read(&read(&folder.join("edits.toml"))?)?);
            let overlay = folder.join("overlay");
            if overlay.exists() {
                laid_over.extend(files(&overlay)?.into_iter().map(|file| (overlay.join(&file), file)));
            }
        }
        for edits::Edit { file, .. } in &list {
            let is_there = published.iter().any(|known| known == Path::new(file));
            ensure!(is_there, new, "ostd {VERSION} has no {file}, which an edit changes");
        }
        for file in published.iter().filter(|file| !laid_over.iter().any(|(_, over)| over == *file)) {
            let mut text = read(&self.published.join(file))?;
            for edit in list.iter().filter(|edit| Path::new(&edit.file) == file) {
                text = edit.apply(&text)?;
            }
            if file == Path::new("Cargo.toml") {
                text = self.manifest(&text, layers);
            }
            write(&to.join(file), &text)?;
        }
        for (from, file) in laid_over {
            write(&to.join(file), &read(&from)?)?;
        }
        Ok(to)
    }

    fn manifest(&self, text: &str, layers: &[Layer]) -> String {
        let unwinding = |version| format!("dependencies.unwinding]\nversion = \"{version}\"");
        let pinned = unwinding(format!("={UNWINDING}"));
        let mut text = text.replace(&unwinding(UNWINDING.to_owned()), &pinned);
        text.push_str("\n[workspace]\n");
        if layers.contains(&ENGINE) {
            let engine = self.root.join("engine");
            let _ = write!(text, "\n[dependencies.ceasefire]\npath = \"{}\"\n", engine.display());
        }
        text
    }

    /// Copies the kernel `ports/ostd/NAME` for ostd with these layers, and returns its folder.
    pub(super) fn kernel(&self, name: &str, layers: &[Layer]) -> Result<PathBuf, Failure> {
        let (from, to) = (self.ours.join(name), self.lay_out(layers)?.with_extension(name));
        for file in files(&from)? {
            // A manifest names packages of this repository by their place in it.
            let text = read(&from.join(&file))?.replace("{repository}", &self.root.display().to_string());
            write(&to.join(&file), &text)?;
        }
        Ok(to)
    }

    /// The command of the build tool in a folder.
    pub(super) fn osdk(&self, folder: &Path, run: &Run<'_>) -> Result<Command, Failure> {
        let ostd = self.lay_out(run.layers)?;
        // The tool builds a package that asks for ostd by its version.
        let mut config = format!("[patch.crates-io]\nostd = {{ path = \"{}\" }}\n", ostd.display());
        config.push_str(self.arch.config);
        if run.removable {
            // The tool passes no `RUSTFLAGS` on, so the flag stands in the profile.
            config.push_str("\n[unstable]\nprofile-rustflags = true\n");
            config.push_str("[profile.dev]\nrustflags = [\"--cfg\", \"ceasefire_sabotage\"]\n");
        }
        write(&folder.join(".cargo/config.toml"), &config)?;
        write(&folder.join("rust-toolchain.toml"), &read(&self.ours.join("rust-toolchain.toml"))?)?;
        let kind = if folder == ostd { "library" } else { "kernel" };
        let settings = read(&self.ours.join("OSDK.toml"))?;
        let settings = settings.replace("{kind}", kind).replace("{cpus}", &run.cpus.to_string());
        let settings = settings.replace("{bochs}", &self.ours.join("bochs.sh").display().to_string());
        write(&folder.join("OSDK.toml"), &settings.replace("{more}", run.machine))?;
        let mut command = Command::new(&self.tool);
        command.arg("osdk").args(run.line.split_whitespace()).current_dir(folder);
        let scheme = if self.bochs { "bochs" } else { self.arch.name };
        command.args(["--target-arch", self.arch.name, "--scheme", scheme]);
        // cargo takes the toolchain that the folder names. A CPU leaves a space's set when it leaves the space, as in
        // ostd, so that the space is dropped as early.
        command.env_remove("RUSTUP_TOOLCHAIN");
        // Each copy has its own target folder: the tool makes packages there that need the copy's toolchain.
        command.env_remove("CARGO_TARGET_DIR");
        if let Some(emulators) = &self.emulators {
            let paths = std::env::var_os("PATH").unwrap_or_default();
            let paths = std::iter::once(emulators.clone()).chain(std::env::split_paths(&paths));
            command.env("PATH", std::env::join_paths(paths).at(emulators)?);
        }
        command.envs([("CEASEFIRE_MAX_CPUS", "64"), ("CEASEFIRE_MAX_ASIDS", "0"), ("CEASEFIRE_PLACES", "1")]);
        Ok(command)
    }
}

/// The toolchain that ostd pins.
fn channel(text: &str) -> Result<String, Failure> {
    let channel = text.lines().find_map(|line| line.strip_prefix("channel = \"")?.strip_suffix('"'));
    Ok(channel.ok_or_else(|| Failure::new("ports/ostd/rust-toolchain.toml names no channel"))?.to_owned())
}

/// The build tool's program, which is installed if it is missing.
fn tool(channel: &str, folder: &Path) -> Result<PathBuf, Failure> {
    let root = folder.join("tools");
    let program = root.join("bin/cargo-osdk");
    if !program.exists() {
        let line = format!("+{channel} install cargo-osdk --locked --version ={VERSION} --root");
        failure::run(Command::new("cargo").args(line.split(' ')).arg(&root))?;
    }
    Ok(program)
}

/// The folder to which cargo has fetched ostd. The registry vouches for its content.
fn fetch(channel: &str, folder: &Path) -> Result<PathBuf, Failure> {
    let package = folder.join("fetch");
    let manifest = format!(
        "[package]\nname = \"fetch\"\nedition = \"2021\"\n[lib]\npath = \"lib.rs\"\n[dependencies]\nostd = \"={VERSION}\"\n[workspace]\n"
    );
    write(&package.join("Cargo.toml"), &manifest)?;
    write(&package.join("lib.rs"), "")?;
    let mut metadata = Command::new("cargo");
    metadata.args([&format!("+{channel}"), "metadata", "--format-version", "1"]).current_dir(&package);
    let metadata: Value =
        serde_json::from_str(&failure::stdout(&mut metadata)?).at("`cargo metadata` of ostd")?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let ostd = packages.find(|package| package["name"] == "ostd");
    let manifest = ostd.and_then(|package| package["manifest_path"].as_str()).map(Path::new);
    let folder = manifest.and_then(Path::parent).ok_or_else(|| Failure::new("cargo has not fetched ostd"))?;
    Ok(folder.to_owned())
}

/// The files under a folder, by their paths inside it.
fn files(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut find = Command::new("find");
    find.args([".", "-type", "f", "-printf", "%P\\n"]).current_dir(folder);
    Ok(failure::stdout(&mut find)?.lines().map(PathBuf::from).collect())
}

fn read(path: &Path) -> Result<String, Failure> {
    fs::read_to_string(path).at(path)
}

/// Writes a file, unless it has this content.
fn write(path: &Path, text: &str) -> Result<(), Failure> {
    if fs::read_to_string(path).is_ok_and(|is| is == text) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().unwrap_or(path)).and_then(|()| fs::write(path, text)).at(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lists_of_edits_are_readable() {
        for (list, file) in [
            (include_str!("../../../ports/ostd/engine/edits.toml"), "src/mm/vm_space.rs"),
            (include_str!("../../../ports/ostd/counters/edits.toml"), "src/smp.rs"),
            (include_str!("../../../ports/ostd/probes/edits.toml"), "src/mm/kspace/mod.rs"),
            (include_str!("../../../ports/ostd/doors/edits.toml"), "src/lib.rs"),
            (include_str!("../../../ports/ostd/console/edits.toml"), "src/arch/riscv/serial.rs"),
            (include_str!("../../../ports/ostd/interrupts/edits.toml"), "src/arch/riscv/trap/mod.rs"),
        ] {
            let edits = edits::read(list).expect("edits");
            assert!(edits.iter().any(|edit| edit.file == file), "{file}");
        }
        let toolchain = include_str!("../../../ports/ostd/rust-toolchain.toml");
        assert_eq!(channel(toolchain).expect("a channel"), "nightly-2026-07-21");
    }
}
