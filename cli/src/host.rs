//! The machine `host`: this computer, as Linux describes it and as it was measured.

use std::env;
use std::path::PathBuf;
use std::sync::Once;

use ceasefire_linux::kernel::machine::processor;
use ceasefire_machine::config::{Machine, MachineError};

use crate::failure::complain;

/// The file that `ceasefire calibrate` writes and `--machine host` reads, in the user's folder for data (XDG Base
/// Directory Specification). `None` if the user has no such folder.
pub(crate) fn calibration_file() -> Option<PathBuf> {
    let absolute = |path: PathBuf| path.is_absolute().then_some(path);
    let data = env::var_os("XDG_DATA_HOME").map(PathBuf::from).and_then(absolute);
    let data = data.or_else(|| Some(absolute(env::home_dir()?)?.join(".local/share")))?;
    Some(data.join("ceasefire/host.toml"))
}

/// This computer with its measured costs if it was calibrated, and with assumed ones if not.
pub(crate) fn host() -> Result<Machine, MachineError> {
    // Each experiment asks for its machine.
    static SAID: Once = Once::new();
    let host = Machine::host()?;
    let Some(path) = calibration_file().filter(|path| path.exists()) else { return Ok(host) };
    let reason = match Machine::from_file(&path) {
        Ok(machine) => {
            let expected = description(&processor(), &host);
            if machine.description == expected {
                return Ok(machine);
            }
            format!(
                "{}: it is of another computer ({}), not of this one ({expected})",
                path.display(),
                machine.description
            )
        }
        Err(error) => error.to_string(),
    };
    SAID.call_once(|| complain(&format!("ignored: {reason}")));
    Ok(host)
}

/// The description of this computer's machine file. Another computer has another one.
pub(crate) fn description(processor: &str, machine: &Machine) -> String {
    let topology = &machine.topology;
    format!(
        "{processor}, CPUs: {}, nodes: {}; measured by ceasefire calibrate, the rest assumed",
        topology.cpu_count(),
        topology.nodes().len()
    )
}
