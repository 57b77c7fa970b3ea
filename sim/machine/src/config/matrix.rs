//! Measured latencies between the CPUs of a real machine.

use super::{MachineError, Problem};

/// The greatest number of CPUs of a matrix, which limits its cells to 4 MiB.
const MAX_SOURCE_CPUS: usize = 1024;

/// The longest latency, in nanoseconds.
const MAX_LATENCY: f64 = 1e6;

/// The latency of each pair of a measured machine's CPUs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Matrix {
    cpus: u16,
    /// Row by row, both triangles, in picoseconds.
    cells: Vec<u32>,
}

impl Matrix {
    /// Reads the CSV text of `file`: a row and a column for each CPU, nanoseconds below the diagonal, nothing
    /// elsewhere.
    pub(super) fn parse(file: &str, text: &str) -> Result<Self, MachineError> {
        let cpus = text.lines().count();
        if cpus == 0 || cpus > MAX_SOURCE_CPUS {
            let problem = Problem::invalid(format!("{cpus} rows"), format!("1 to {MAX_SOURCE_CPUS} rows"));
            return Err(problem.in_file(file));
        }
        let mut cells = vec![0; cpus * cpus];
        for (row, line) in text.lines().enumerate() {
            let place =
                |problem: Problem| MachineError { line: Some(row as u32 + 1), ..problem.in_file(file) };
            let width = line.split(',').count();
            if width != cpus {
                return Err(place(Problem::invalid(
                    format!("{width} cells"),
                    format!("{cpus}, as many as rows"),
                )));
            }
            for (column, cell) in line.split(',').enumerate() {
                let latency = parse_cell(cell.trim(), column < row)
                    .map_err(|problem| MachineError { column: Some(column as u32 + 1), ..place(problem) })?;
                if column < row {
                    cells[row * cpus + column] = latency;
                    cells[column * cpus + row] = latency;
                }
            }
        }
        Ok(Self { cpus: cpus as u16, cells })
    }

    /// The number of measured CPUs.
    pub(super) fn cpus(&self) -> u16 {
        self.cpus
    }

    /// The latencies from `cpu` to each CPU, in picoseconds; 0 to itself.
    pub(super) fn row(&self, cpu: u16) -> &[u32] {
        let width = usize::from(self.cpus);
        &self.cells[usize::from(cpu) * width..][..width]
    }

    /// The longest latency of any pair, in picoseconds.
    pub(super) fn longest(&self) -> u32 {
        self.cells.iter().copied().max().unwrap_or(0)
    }
}

/// A cell in picoseconds. Only cells below the diagonal hold a value.
fn parse_cell(cell: &str, below_diagonal: bool) -> Result<u32, Problem> {
    match (cell.is_empty(), below_diagonal) {
        (true, true) => Err(Problem::Missing),
        (true, false) => Ok(0),
        (false, false) => {
            Err(Problem::invalid(shown(cell), "left empty, since it is not below the diagonal"))
        }
        (false, true) => match cell.parse::<f64>() {
            Ok(latency) if (0.0..=MAX_LATENCY).contains(&latency) => Ok((latency * 1000.0).round() as u32),
            _ => Err(Problem::invalid(shown(cell), format!("a latency of 0 to {MAX_LATENCY} ns"))),
        },
    }
}

fn shown(cell: &str) -> String {
    cell.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Matrix::parse("m.csv", text).expect_err("must be refused").to_string()
    }

    #[test]
    fn the_lower_triangle_is_mirrored() {
        let matrix = Matrix::parse("m.csv", ",,\n1.5,,\r\n2,3,\n").expect("valid");
        assert_eq!(matrix.cpus(), 3);
        assert_eq!(matrix.row(0), [0, 1500, 2000]);
        assert_eq!(matrix.row(1), [1500, 0, 3000]);
        assert_eq!(matrix.row(2), [2000, 3000, 0]);
        assert_eq!(matrix.longest(), 3000);
    }

    #[test]
    fn a_single_cpu_is_allowed() {
        assert_eq!(Matrix::parse("m.csv", "\n").map(|matrix| matrix.longest()), Ok(0));
    }

    #[test]
    fn an_error_names_the_place_of_a_bad_cell() {
        for (text, expected) in [
            ("", "m.csv: 0 rows: must be 1 to 1024 rows"),
            (",\n", "m.csv:1: 2 cells: must be 1, as many as rows"),
            (",\n1,,\n", "m.csv:2: 3 cells: must be 2, as many as rows"),
            (",\n1,\n\n", "m.csv:1: 2 cells: must be 3, as many as rows"),
            (",\n,\n", "m.csv:2:1: missing"),
            (",\nx,\n", "m.csv:2:1: x: must be a latency of 0 to 1000000 ns"),
            (",\n-1,\n", "m.csv:2:1: -1: must be a latency of 0 to 1000000 ns"),
            (",\nNaN,\n", "m.csv:2:1: NaN: must be a latency of 0 to 1000000 ns"),
            (",\n1e7,\n", "m.csv:2:1: 1e7: must be a latency of 0 to 1000000 ns"),
            (",1\n1,\n", "m.csv:1:2: 1: must be left empty, since it is not below the diagonal"),
        ] {
            assert_eq!(refused(text), expected);
        }
        assert_eq!(refused(&"\n".repeat(1025)), "m.csv: 1025 rows: must be 1 to 1024 rows");
    }
}
