//! A straight line through points.

/// A line through points.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Line {
    /// Its value at 0.
    pub start: f64,
    /// Its growth.
    pub slope: f64,
}

impl Line {
    /// The line with the least squares of distances; `None` unless two points differ in their first coordinate.
    pub fn through(points: &[(f64, f64)]) -> Option<Self> {
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (x, y) = (mean(|point| point.0), mean(|point| point.1));
        let sum = |of: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>();
        let spread = sum(&|point| (point.0 - x).powi(2));
        if spread.is_nan() || spread <= 0.0 {
            return None;
        }
        let slope = sum(&|point| (point.0 - x) * (point.1 - y)) / spread;
        Some(Self { start: y - slope * x, slope })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_needs_two_points() {
        assert_eq!(Line::through(&[]), None);
        assert_eq!(Line::through(&[(1.0, 2.0), (1.0, 3.0)]), None);
        assert_eq!(Line::through(&[(1.0, 2.0), (3.0, 6.0)]), Some(Line { start: 0.0, slope: 2.0 }));
    }
}
