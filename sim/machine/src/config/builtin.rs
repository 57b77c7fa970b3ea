//! Machines and measured matrices that come with the program.

use super::machine::Machine;
use super::MachineError;

/// The names of the built-in machines.
pub const BUILTIN: &[&str] = &[
    "4-node-48-cpu",
    "1-socket",
    "2-socket-intel",
    "128-core-arm64",
    "xeon-6430-cxl",
    "small-vm",
    "milan-36",
    "milan-72",
    "milan-8192",
];

/// The built-in machine called `name`, if there is one.
///
/// # Errors
/// As for [`Machine::from_toml`]. The built-in files are valid.
pub fn builtin(name: &str) -> Option<Result<Machine, MachineError>> {
    text(name).map(|text| Machine::from_toml(name, text, "".as_ref()))
}

/// The file of the built-in machine called `name`.
pub(super) fn text(name: &str) -> Option<&'static str> {
    Some(match name {
        "4-node-48-cpu" => include_str!("../../machines/4-node-48-cpu.toml"),
        "1-socket" => include_str!("../../machines/1-socket.toml"),
        "2-socket-intel" => include_str!("../../machines/2-socket-intel.toml"),
        "128-core-arm64" => include_str!("../../machines/128-core-arm64.toml"),
        "milan-36" => include_str!("../../machines/milan-36.toml"),
        "milan-8192" => include_str!("../../machines/milan-8192.toml"),
        "milan-72" => include_str!("../../machines/milan-72.toml"),
        "small-vm" => include_str!("../../machines/small-vm.toml"),
        "xeon-6430-cxl" => include_str!("../../machines/xeon-6430-cxl.toml"),
        _ => return None,
    })
}

/// The assumptions about a computer of which Linux describes only the topology: a machine file without `[topology]`.
///
/// [`Machine::host`] is made of them. With a `[topology]` it is a whole machine file.
pub const HOST: &str = include_str!("../../machines/host.toml");

macro_rules! matrices {
    ($($name:literal,)*) => {
        /// The measured matrices, by name, as CSV text.
        const MATRICES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../latencies/", $name))),)*];
    };
}

matrices! {
    "amd-epyc-7742-rome-2s.csv",
    "amd-epyc-7773x-milan-1s.csv",
    "amd-epyc-7r13-milan-1s.csv",
    "aws-graviton3.csv",
    "hisilicon-kunpeng-920-6426.csv",
    "intel-core-i7-6700k.csv",
    "intel-xeon-6242-cascadelake-2s.csv",
    "intel-xeon-8375c-icelake-2s.csv",
    "intel-xeon-e5-2690-sandybridge-2s.csv",
    "intel-xeon-x5650-westmere-2s.csv",
}

/// The CSV text of the built-in matrix called `name`.
pub(super) fn matrix(name: &str) -> Option<&'static str> {
    MATRICES.iter().find(|(known, _)| *known == name).map(|&(_, text)| text)
}

/// The names of the built-in matrices.
pub(super) fn matrix_names() -> impl Iterator<Item = &'static str> {
    MATRICES.iter().map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::super::costs::Costs;
    use super::super::matrix::Matrix;
    use super::super::quantity::Parameter;
    use super::*;

    #[test]
    fn every_built_in_machine_is_valid_and_bears_its_name() {
        for name in BUILTIN {
            let machine = builtin(name).expect("a listed name").expect("a valid file");
            assert_eq!(machine.name, *name);
        }
        assert!(builtin("no-such-machine").is_none());
    }

    #[test]
    fn every_built_in_matrix_is_valid() {
        for (name, text) in MATRICES {
            let matrix = Matrix::parse(name, text).expect("a valid file");
            assert!(matrix.longest() < 300_000, "{name}");
        }
    }

    #[test]
    fn the_four_node_machine_is_near_within_and_far_between_nodes() {
        let machine = builtin("4-node-48-cpu").expect("a listed name").expect("a valid file");
        assert_eq!((machine.topology.cpu_count(), machine.topology.bytes()), (48, 64 << 30));
        for a in 0..48 {
            for b in (0..48).filter(|&b| b != a) {
                let same_node = machine.topology.node_of(a) == machine.topology.node_of(b);
                let siblings = same_node && a % 12 % 6 == b % 12 % 6;
                let expected = match (siblings, same_node) {
                    (true, _) => 7_000..7_500,
                    (_, true) => 36_000..39_000,
                    _ => 68_000..80_000,
                };
                assert!(
                    expected.contains(&machine.latency.pair(a, b)),
                    "{a} {b} {}",
                    machine.latency.pair(a, b)
                );
            }
        }
    }

    #[test]
    fn the_one_socket_machine_is_as_measured() {
        let machine = builtin("1-socket").expect("a listed name").expect("a valid file");
        assert_eq!((machine.topology.cpu_count(), machine.topology.bytes()), (8, 8 << 30));
        assert_eq!(machine.latency.pair(0, 1), 6_930);
    }

    #[test]
    fn the_small_machine_has_the_costs_of_one_socket() {
        let machine = |name| builtin(name).expect("a listed name").expect("a valid file");
        let (small, socket) = (machine("small-vm"), machine("1-socket"));
        assert_eq!((small.topology.cpu_count(), small.topology.bytes()), (2, 256 << 20));
        // The hypervisor makes interrupts dearer.
        let Costs { interrupt_send, interrupt_deliver, .. } = small.costs;
        assert!(
            interrupt_send + interrupt_deliver
                > 4 * (socket.costs.interrupt_send + socket.costs.interrupt_deliver)
        );
        let time_slice = socket.costs.time_slice / 2;
        assert_eq!(small.costs, Costs { interrupt_send, interrupt_deliver, time_slice, ..socket.costs });
        assert_eq!(small.tlb, socket.tlb);
    }

    #[test]
    fn each_machine_has_its_fitted_and_its_tuned_numbers() {
        let counts = |&name: &&'static str| {
            let machine = builtin(name).expect("a listed name").expect("a valid file");
            let count = |is: fn(&Parameter) -> bool| machine.sources.iter().filter(|one| is(one)).count();
            (name, count(Parameter::is_fitted), count(Parameter::is_tuned))
        };
        assert_eq!(
            BUILTIN.iter().map(counts).collect::<Vec<_>>(),
            [
                ("4-node-48-cpu", 3, 8),
                ("1-socket", 2, 7),
                ("2-socket-intel", 0, 7),
                ("128-core-arm64", 0, 7),
                ("xeon-6430-cxl", 1, 7),
                ("small-vm", 2, 5),
                ("milan-36", 2, 12),
                ("milan-72", 2, 14),
                ("milan-8192", 2, 13),
            ]
        );
    }

    #[test]
    fn the_two_socket_machine_is_near_within_and_far_between_sockets() {
        let machine = builtin("2-socket-intel").expect("a listed name").expect("a valid file");
        assert_eq!((machine.topology.cpu_count(), machine.topology.bytes()), (64, 128 << 30));
        for a in 0..64 {
            for b in (0..64).filter(|&b| b != a) {
                let same_node = machine.topology.node_of(a) == machine.topology.node_of(b);
                let expected = match (same_node && a % 16 == b % 16, same_node) {
                    (true, _) => 7_000..13_500,
                    (_, true) => 42_000..57_000,
                    _ => 134_000..147_000,
                };
                assert!(expected.contains(&machine.latency.pair(a, b)), "{a} {b}");
            }
        }
        assert_eq!(mean_latency(&machine), 95);
        assert_eq!((machine.copy_cost(1, 1), machine.copy_cost(0, 1)), (400_000, 550_000));
        assert_eq!(machine.processor.broadcast_asids, None);
    }

    #[test]
    fn the_arm_machine_has_two_dies_a_node_and_broadcasts() {
        let machine = builtin("128-core-arm64").expect("a listed name").expect("a valid file");
        assert_eq!((machine.topology.cpu_count(), machine.topology.nodes().len()), (128, 2));
        for a in 0..128 {
            for b in (0..128).filter(|&b| b != a) {
                let expected = if a / 32 == b / 32 { 29_000..39_000 } else { 71_000..88_000 };
                assert!(expected.contains(&machine.latency.pair(a, b)), "{a} {b}");
            }
        }
        assert_eq!(mean_latency(&machine), 68);
        assert_eq!(machine.processor.broadcast_asids, Some(65_536));
    }

    #[test]
    fn the_two_milans_differ_only_in_their_cpus() {
        let machine = |name| builtin(name).expect("a listed name").expect("a valid file");
        let (cores, threads) = (machine("milan-36"), machine("milan-72"));
        assert_eq!((cores.topology.cpu_count(), threads.topology.cpu_count()), (36, 72));
        assert_eq!((&cores.costs, &cores.tlb), (&threads.costs, &threads.tlb));
        assert_eq!(cores.contention, threads.contention);
        assert_eq!(cores.processor, threads.processor);
        let processor = threads.processor;
        assert_eq!(
            (processor.broadcast_asids, processor.asid_space, processor.broadcast_pages),
            (None, 4096, 8)
        );
        let siblings = threads.smt.expect("two threads a core").siblings(&threads.topology);
        for a in 0..72 {
            for b in (0..72).filter(|&b| b != a) {
                let expected = match (siblings[usize::from(a)] == Some(b), a % 36 / 6 == b % 36 / 6) {
                    (true, _) => 9_000..11_000,
                    (_, true) => 20_000..27_000,
                    _ => 80_000..120_000,
                };
                assert!(expected.contains(&threads.latency.pair(a, b)), "{a} {b}");
                assert!(a > 35 || b > 35 || cores.latency.pair(a, b) == threads.latency.pair(a, b));
            }
        }
        assert_eq!(mean_latency(&cores), 93);
    }

    #[test]
    fn the_machine_with_cxl_is_one_socket_and_slow_memory() {
        let machine = builtin("xeon-6430-cxl").expect("a listed name").expect("a valid file");
        assert_eq!(machine.topology.cpu_count(), 64);
        let slow = &machine.topology.nodes()[1];
        assert_eq!((slow.cpus.len(), slow.bytes, slow.tier), (0, 98 << 30, 1));
        for a in 0..64 {
            for b in (0..64).filter(|&b| b != a) {
                let expected = if a % 32 == b % 32 { 8_000..8_300 } else { 39_000..63_000 };
                assert!(expected.contains(&machine.latency.pair(a, b)), "{a} {b}");
            }
        }
        assert_eq!(mean_latency(&machine), 51);
        assert_eq!((machine.copy_cost(0, 1), machine.copy_cost(1, 1)), (750_000, 1_000_000));
        assert_eq!(machine.tlb.instruction.map(|level| level.entries), Some(256));
        assert_eq!(machine.storage.map(|device| device.queue_depth.get()), Some(128));
    }

    /// The mean latency of all pairs of CPUs, in whole nanoseconds. The machine files state it in the sources of
    /// their interrupts.
    fn mean_latency(machine: &Machine) -> u64 {
        let cpus = machine.topology.cpu_count();
        let sum: u64 = (0..cpus)
            .flat_map(|a| (0..a).map(move |b| (a, b)))
            .map(|(a, b)| machine.latency.pair(a, b))
            .sum();
        let pairs = u64::from(cpus) * u64::from(cpus - 1) / 2;
        (sum / pairs + 500) / 1000
    }
}
