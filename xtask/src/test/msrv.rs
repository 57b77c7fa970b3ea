//! The engine on the oldest Rust that its manifest promises.
//!
//! Kernels pin old compilers, so the engine promises an older Rust than the tools around it. That Rust cannot read the
//! tools' manifests. The engine is therefore checked from a manifest of its own, written from cargo's description of
//! the package.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::failure::Failure;
use crate::workspace::Workspace;

/// The engine's package.
const ENGINE: &str = "ceasefire";

/// The toolchain in `rust-version` of the engine.
pub(crate) fn toolchain(workspace: &Workspace) -> Result<String, Failure> {
    let version = workspace.package(ENGINE)?["rust_version"].as_str();
    let version = version.ok_or_else(|| Failure::new("the engine's manifest has no rust-version"))?;
    Ok(full_version(version))
}

/// `1.74` means the first release of that line; rustup would take the bare number for the last.
fn full_version(version: &str) -> String {
    if version.matches('.').count() < 2 {
        format!("{version}.0")
    } else {
        version.to_owned()
    }
}

/// Writes the separate manifest, and returns the command that checks it.
pub(crate) fn check(workspace: &Workspace, toolchain: &str) -> Result<Command, Failure> {
    let folder = workspace.target.join("msrv");
    let manifest = folder.join("Cargo.toml");
    let text = manifest_text(workspace.package(ENGINE)?)?;
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&manifest, text))
        .map_err(|error| Failure::new(format!("{}: {error}", manifest.display())))?;
    let mut command = workspace.cargo(&format!("+{toolchain} check"));
    command.arg("--manifest-path").arg(manifest).arg("--target-dir").arg(folder.join("target"));
    Ok(command)
}

/// A manifest for the library of `package` that needs no workspace around it.
fn manifest_text(package: &Value) -> Result<String, Failure> {
    let list = |key: &str| package[key].as_array().into_iter().flatten();
    if let Some(dependency) = list("dependencies").find(|dependency| dependency["kind"].is_null()) {
        // This is a promise of the engine, not a limit of this check: a kernel that adopts it takes no other package
        // with it.
        return Err(Failure::new(format!(
            "the engine depends on {}, it must depend on nothing",
            dependency["name"]
        )));
    }
    let is_library =
        |target: &&Value| target["kind"].as_array().is_some_and(|kinds| kinds.contains(&"lib".into()));
    let library = list("targets").find(is_library).ok_or_else(|| Failure::new("the engine is no library"))?;
    if package["features"].as_object().is_some_and(|all| !all.is_empty()) {
        return Err(Failure::new("the engine has features, and this manifest would leave them out"));
    }
    // Strings are written alike in JSON and in TOML.
    Ok(format!(
        "[workspace]\n\n[package]\nname = {}\nversion = {}\nedition = {}\n\n[lib]\npath = {}\n",
        package["name"], package["version"], package["edition"], library["src_path"]
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn two_numbers_name_the_first_release_of_the_line() {
        assert_eq!(full_version("1.74"), "1.74.0");
        assert_eq!(full_version("1.74.1"), "1.74.1");
    }

    #[test]
    fn the_manifest_stands_alone() {
        let mut package = json!({
            "name": "ceasefire", "version": "0.1.0", "edition": "2021", "features": {},
            "dependencies": [{ "name": "proptest", "kind": "dev" }],
            "targets": [{ "kind": ["example"], "src_path": "c.rs" }, { "kind": ["lib"], "src_path": "lib.rs" }],
        });
        let text = manifest_text(&package).unwrap();
        for line in ["[workspace]", "edition = \"2021\"", "path = \"lib.rs\""] {
            assert!(text.lines().any(|written| written == line), "{line} missing in\n{text}");
        }

        package["features"] = json!({ "std": [] });
        assert!(manifest_text(&package).unwrap_err().to_string().contains("features"));
        package["dependencies"] = json!([{ "name": "spin", "kind": null }]);
        assert!(manifest_text(&package).unwrap_err().to_string().contains("spin"));
    }
}
