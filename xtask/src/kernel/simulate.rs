//! The same run on the simulator.
//!
//! The command line shrinks a machine's memory by its scale, and the work with it. Here the size is given: the
//! kernel's. So the machine file holds as much more memory as the scale takes away, and exactly the kernel's frames are
//! left. The scale itself is the other quantity that it stands for in each experiment.

use std::fmt::Write as _;
use std::fs;

use ceasefire_kernel_abi::options::Options;
use ceasefire_kernel_abi::sizes::PAGE;
use serde_json::Value;

use super::options::Run;
use super::qemu;
use crate::failure::{self, At as _, Failure};
use crate::workspace::Workspace;

/// The emulated machine without its size. [`TURN`] stands for the instructions of half a CPU's turn.
const TEMPLATE: &str = include_str!("../../../kernel/simulated.toml");
const TURN: &str = "@TURN@";
/// In `mmap-read` the scale is that of the time from one program's start to the next one's, 1 ms. The kernel starts
/// them at once: 1 us.
const START_SCALE: f64 = 1.0 / 1024.0;
/// In `migrate` the scale is that of the range, 4 GiB, here in pages.
const FULL_RANGE: u64 = 1 << 20;
/// The range is this part of the frames by default.
const RANGE_PART: u64 = 8;

/// Simulates a run of the kernel that had this many frames. Returns the simulator's report.
pub(super) fn simulate(workspace: &Workspace, run: &Run, frames: u64) -> Result<Value, Failure> {
    let Options { program, mechanism, seed, .. } = run.kernel;
    let (text, scale) = machine(run, frames);
    let file = workspace.target.join(format!("simulated-{program}-{mechanism}.toml"));
    fs::write(&file, text).at(&file)?;
    let mut command = workspace.cargo("run --release --quiet --package ceasefire-cli -- compare");
    command.args([program, "--mechanism", mechanism.name(), "--json", "-", "--machine"]).arg(&file);
    command.args(["--scale", &scale.to_string(), "--seed", &seed.to_string()]);
    eprintln!("==> {}", failure::line(&command));
    // The simulator's exit code, for instance for an invalid machine file, is not this task's exit code.
    let printed = failure::stdout(&mut command).map_err(|failure| Failure::new(failure.to_string()))?;
    let mut printed: Value = serde_json::from_str(&printed).unwrap_or_default();
    let report = printed.pointer_mut("/results/0").map(Value::take);
    report.ok_or_else(|| Failure::new(format!("the simulator reported nothing of {program} {mechanism}")))
}

/// The file of the kernel's machine for the simulator, and the scale at which it is the kernel's.
fn machine(Run { cpus, kernel, .. }: &Run, frames: u64) -> (String, f64) {
    let (cpus, nodes, pages) = (*cpus, kernel.nodes as u64, kernel.pages);
    let scale = if kernel.program == "migrate" {
        (if pages == 0 { frames / RANGE_PART } else { pages }) as f64 / FULL_RANGE as f64
    } else {
        START_SCALE
    };
    // Rounded up, so that the simulator, which rounds down, has no frame less.
    let bytes = ((frames / nodes) as f64 / scale).ceil() as u64 * PAGE;
    let template = TEMPLATE.replace(TURN, &(qemu::turn(cpus) / 2).max(1).to_string());
    let mut text = format!(
        "{template}\n[topology]\nsource = \"the machine that the kernel ran on, before scale {scale}\"\nnodes = [\n"
    );
    let each = frames / nodes;
    for node in 0..nodes {
        let own = (0..cpus).filter(|cpu| cpu * nodes / cpus == node).count();
        let memory = format!("{{ value = {bytes}, unit = \"B\", source = \"{each} frames\" }}");
        // Writing to a string cannot fail.
        let _ = writeln!(text, "    {{ cpus = {own}, memory = {memory} }},");
    }
    (text + "]\n", scale)
}

#[cfg(test)]
mod tests {
    use ceasefire_experiments::{Experiment, Mechanism, Plan};

    use super::super::options::tests::run;
    use super::*;

    /// The simulator's plan of a kernel's run.
    fn plan(line: &str, program: &str, frames: u64) -> Plan {
        let (text, scale) = machine(&run(&format!("{line} --program {program}")), frames);
        Plan {
            threads: None,
            kernel: Experiment::find(program).unwrap().kernel,
            lru_drain: None,
            experiment: Experiment::find(program).unwrap(),
            machine: ceasefire_machine::config::Machine::from_toml("f", &text, "".as_ref()).unwrap(),
            mechanism: Mechanism::Batched,
            payment: ceasefire::Payment::Free,
            // As it passes through the command line.
            scale: scale.to_string().parse().unwrap(),
            seed: 1,
            oracle: true,
            shadow: true,
            trace: None,
        }
    }

    #[test]
    fn the_simulated_machine_has_the_frames_and_cpus_of_the_kernel() {
        for (line, program, frames, cpus) in [
            ("", "mmap-read", 126_977, &[4, 4][..]),
            ("--cpus 5 --nodes 3", "mmap-read", 99_991, &[2, 2, 1]),
            ("--cpus 1", "mmap-read", 8_191, &[1]),
            ("--cpus 64 --nodes 8 --memory 2G", "mmap-read", 523_001, &[8; 8]),
            ("", "migrate", 126_977, &[4, 4]),
            ("--cpus 3", "migrate", 65_537, &[2, 1]),
            ("--pages 1025", "migrate", 126_977, &[4, 4]),
            ("--pages 49999", "migrate", 126_983, &[4, 4]),
            ("--cpus 64 --memory 2G --nodes 6", "migrate", 523_001, &[11, 11, 10, 11, 11, 10]),
        ] {
            let plan = plan(line, program, frames);
            plan.check().unwrap();
            let scaled = plan.machine.scaled(plan.scale).unwrap();
            let nodes = scaled.topology.nodes();
            let own: Vec<_> = nodes.iter().map(|node| node.cpus.len()).collect();
            assert_eq!(own, cpus, "{line} {program}");
            let each = frames / nodes.len() as u64 * PAGE;
            assert!(nodes.iter().all(|node| node.bytes == each), "{line} {program}: {nodes:?}");
            assert_eq!(scaled.name, "qemu");
        }
    }

    #[test]
    fn the_range_is_the_kernels() {
        for (line, pages) in [("", 15_872), ("--pages 4099", 4099)] {
            let scale = plan(line, "migrate", 126_977).scale;
            assert_eq!((scale * (4_u64 << 30) as f64) as u64 / PAGE, pages);
        }
    }
}
