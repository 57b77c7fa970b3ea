//! Machines and measured matrices that come with the program.

use super::error::MachineError;
use super::Machine;

/// The names of the built-in machines.
pub const BUILTIN: &[&str] = &["4-node-48-cpu", "1-socket"];

/// The built-in machine called `name`, or nothing if there is none.
///
/// # Errors
/// As [`Machine::from_toml`]; the files that come with the program are valid.
pub fn builtin(name: &str) -> Option<Result<Machine, MachineError>> {
    let text = match name {
        "4-node-48-cpu" => include_str!("../../machines/4-node-48-cpu.toml"),
        "1-socket" => include_str!("../../machines/1-socket.toml"),
        _ => return None,
    };
    Some(Machine::from_toml(name, text, "".as_ref()))
}

/// What is assumed of a machine about which Linux says no more than its topology: a machine file without `[topology]`.
pub(super) const HOST: &str = include_str!("../../machines/host.toml");

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

#[cfg(test)]
mod tests {
    use super::super::matrix::Matrix;
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
}
