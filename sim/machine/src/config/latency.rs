//! The latencies between the CPUs of a machine.
//!
//! The measured matrix stays as it is. Each CPU of the machine only records the measured CPUs that it stands for. So
//! 8192 CPUs take 48 KiB beside the matrix.
//!
//! CPUs form **blocks**, and the pairs within a block are measured ones. The use of the matrix decides the blocks and
//! the latency between them:
//! - whole: a block is the measured machine. CPU k of node n stands for the k-th CPU of node n in the machine file.
//!   Further CPUs begin another block. The latency between blocks is the longest of the matrix.
//! - by sockets: a block is one measured socket. CPU k of a node stands for CPU k of the first list. CPUs of a node
//!   beyond the list begin another block. Between blocks, the CPU with the lower number stands for its place in the
//!   first list, the other for its place in the second.

use serde::Serialize;

use super::matrix::Matrix;
use super::quantity::Picoseconds;
use super::topology::Topology;

/// The latency of each pair of CPUs: half the round trip of a cache line.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Latency {
    layout: Layout,
    /// Rows of measured CPUs, with one extra column for CPUs outside the matrix.
    cells: Box<[u32]>,
    width: u32,
    seats: Box<[Seat]>,
}

/// The use of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
enum Layout {
    Uniform,
    /// The measured CPUs of each node.
    Whole(Vec<Vec<u16>>),
    /// The measured CPUs of two sockets, equally many.
    Sockets([Vec<u16>; 2]),
}

/// The measured CPUs that a CPU stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
struct Seat {
    block: u16,
    /// Its row, and its column for CPUs of its own block.
    near: u16,
    /// Its column for CPUs of other blocks.
    far: u16,
}

impl Latency {
    /// A machine of `cpus` with the same `latency` between all, capped at `u32::MAX` ps (4.29 ms).
    pub fn uniform(cpus: u16, latency: Picoseconds) -> Self {
        let latency = u32::try_from(latency).unwrap_or(u32::MAX);
        let seat = Seat { block: 0, near: 0, far: 0 };
        Self {
            layout: Layout::Uniform,
            cells: Box::new([latency]),
            width: 1,
            seats: vec![seat; usize::from(cpus)].into_boxed_slice(),
        }
    }

    /// The measured machine. `matrix` and `topology` must have equally many CPUs.
    pub(super) fn whole(matrix: &Matrix, topology: &Topology) -> Self {
        let nodes = topology.nodes().iter().map(|node| node.cpus.clone()).collect();
        Self::composed(matrix, Layout::Whole(nodes), topology)
    }

    /// A machine whose nodes are sockets of `matrix`. The lists name its CPUs, equally many.
    pub(super) fn of_sockets(matrix: &Matrix, sockets: [Vec<u16>; 2], topology: &Topology) -> Self {
        Self::composed(matrix, Layout::Sockets(sockets), topology)
    }

    fn composed(matrix: &Matrix, layout: Layout, topology: &Topology) -> Self {
        let longest = matrix.longest();
        let rows = (0..matrix.cpus()).flat_map(|cpu| matrix.row(cpu).iter().copied().chain([longest]));
        let seats = layout.seats(topology, matrix.cpus());
        Self { layout, cells: rows.collect(), width: u32::from(matrix.cpus()) + 1, seats }
    }

    /// The same interconnect for a machine with another number of CPUs.
    pub(super) fn reseated(&self, topology: &Topology) -> Self {
        let outside = (self.width - 1) as u16;
        Self { seats: self.layout.seats(topology, outside), ..self.clone() }
    }

    /// The latency between `a` and `b`; 0 if they are the same.
    ///
    /// # Panics
    /// If the machine has no such CPU.
    pub fn pair(&self, a: u16, b: u16) -> Picoseconds {
        if a == b {
            return 0;
        }
        let (low, high) = (self.seats[usize::from(a.min(b))], self.seats[usize::from(a.max(b))]);
        let column = if low.block == high.block { high.near } else { high.far };
        Picoseconds::from(self.cells[usize::from(low.near) * self.width as usize + usize::from(column)])
    }
}

impl Layout {
    /// The seat of every CPU of `topology`. `outside` is the column for CPUs outside the matrix.
    fn seats(&self, topology: &Topology, outside: u16) -> Box<[Seat]> {
        let mut seats =
            vec![Seat { block: 0, near: 0, far: 0 }; usize::from(topology.cpu_count())].into_boxed_slice();
        let mut blocks = 0;
        for (index, node) in topology.nodes().iter().enumerate() {
            let near = match self {
                Self::Uniform => return seats,
                Self::Whole(nodes) => &nodes[index],
                Self::Sockets([first, _]) => first,
            };
            // A node without measured CPUs has none here either: CPUs are only spread over nodes that had some.
            for (chunk, cpus) in node.cpus.chunks(near.len().max(1)).enumerate() {
                for (place, &cpu) in cpus.iter().enumerate() {
                    seats[usize::from(cpu)] = match self {
                        Self::Sockets([_, second]) => {
                            Seat { block: blocks, near: near[place], far: second[place] }
                        }
                        _ => Seat { block: chunk as u16, near: near[place], far: outside },
                    };
                }
                blocks += 1;
            }
        }
        seats
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::Node;
    use super::*;

    /// The latency of CPUs `a` < `b` is `10 * b + a` ns.
    fn matrix(cpus: usize) -> Matrix {
        let cell = |row: usize, column: usize| {
            if column < row {
                (10 * row + column).to_string()
            } else {
                String::new()
            }
        };
        let row = |row| (0..cpus).map(|column| cell(row, column)).collect::<Vec<_>>().join(",");
        Matrix::parse("m.csv", &(0..cpus).map(row).collect::<Vec<_>>().join("\n")).expect("valid")
    }

    fn topology(nodes: u16, cpus: u16) -> Topology {
        let node = |node| Node { cpus: (node * cpus..(node + 1) * cpus).collect(), bytes: 4096, tier: 0 };
        Topology::new((0..nodes).map(node).collect()).expect("valid")
    }

    #[test]
    fn a_whole_matrix_gives_the_measured_latencies() {
        let latency = Latency::whole(&matrix(4), &topology(2, 2));
        assert_eq!(latency.pair(3, 1), 31_000);
        assert_eq!(latency.pair(1, 3), 31_000);
        assert_eq!(latency.pair(2, 2), 0);
    }

    #[test]
    fn a_measured_machine_repeats_in_blocks() {
        let small = topology(2, 2);
        let large = small.with_cpus(8).expect("allowed");
        let latency = Latency::whole(&matrix(4), &small).reseated(&large);
        // Node 0 has CPUs 0 to 3 and node 1 CPUs 4 to 7; 2, 3, 6 and 7 are the second block.
        assert_eq!(latency.pair(0, 1), 10_000);
        assert_eq!(latency.pair(0, 5), 30_000);
        assert_eq!(latency.pair(2, 7), 30_000);
        assert_eq!(latency.pair(0, 2), 32_000);
        assert_eq!(latency.pair(1, 7), 32_000);
    }

    #[test]
    fn a_measured_machine_shrinks_evenly() {
        let full = topology(2, 2);
        let latency = Latency::whole(&matrix(4), &full).reseated(&full.with_cpus(2).expect("allowed"));
        assert_eq!(latency.pair(0, 1), 20_000);
    }

    #[test]
    fn nodes_are_composed_from_sockets() {
        let latency = Latency::of_sockets(&matrix(4), [vec![0, 2], vec![1, 3]], &topology(3, 2));
        assert_eq!(latency.pair(0, 1), 20_000, "CPUs 0 and 2 of the first socket");
        assert_eq!(latency.pair(4, 5), 20_000, "the same in another node");
        assert_eq!(latency.pair(0, 2), 10_000, "CPU 0 of the first socket, CPU 1 of the second");
        assert_eq!(latency.pair(1, 4), 21_000, "CPU 2 of the first socket, CPU 1 of the second");
        assert_eq!(latency.pair(4, 1), latency.pair(1, 4));
    }

    #[test]
    fn a_full_socket_is_followed_by_another() {
        let small = topology(1, 2);
        let large = small.with_cpus(4).expect("allowed");
        let latency = Latency::of_sockets(&matrix(4), [vec![0, 2], vec![1, 3]], &small).reseated(&large);
        assert_eq!(latency.pair(2, 3), 20_000);
        assert_eq!(latency.pair(0, 2), 10_000);
    }

    #[test]
    fn no_pair_of_the_largest_machine_is_free() {
        let small = topology(4, 3);
        let large = small.with_cpus(8192).expect("allowed");
        for latency in [
            Latency::whole(&matrix(12), &small).reseated(&large),
            Latency::of_sockets(&matrix(6), [vec![0, 1, 2], vec![3, 4, 5]], &small).reseated(&large),
            Latency::uniform(12, 60_000).reseated(&large),
        ] {
            assert!((1..8192).all(|cpu| latency.pair(0, cpu) > 0 && latency.pair(cpu, 8191 - cpu) > 0));
            assert!(latency.cells.len() <= 12 * 13);
        }
    }

    #[test]
    fn a_uniform_machine_has_one_latency() {
        let latency = Latency::uniform(3, 60_000);
        assert_eq!((latency.pair(0, 2), latency.pair(1, 1)), (60_000, 0));
        assert_eq!(Latency::uniform(2, u64::MAX).pair(0, 1), u64::from(u32::MAX));
    }
}
