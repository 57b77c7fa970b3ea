//! How figures move with parameters, and how well they determine them.

use nalgebra::{DMatrix, DVector};

/// The least elasticity with which a figure determines a parameter.
pub const LEAST_ELASTICITY: f64 = 0.05;
/// The greatest condition with which figures tell their parameters apart.
pub const GREATEST_CONDITION: f64 = 1000.0;

/// The elasticities of figures: by how many percent a figure changes when a parameter changes by 1%. Figure number `n`
/// is the one to which parameter number `n` is fitted.
#[derive(Debug, Clone, PartialEq)]
pub struct Sensitivity(DMatrix<f64>);

impl Sensitivity {
    /// The elasticities, a list for each figure with one for each parameter.
    ///
    /// # Panics
    /// If there are not as many parameters as figures.
    pub fn new(elasticities: &[Vec<f64>]) -> Self {
        let size = elasticities.len();
        assert!(elasticities.iter().all(|row| row.len() == size), "as many parameters as figures");
        Self(DMatrix::from_fn(size, size, |figure, parameter| elasticities[figure][parameter]))
    }

    /// The elasticity of a figure.
    pub fn elasticity(&self, figure: usize, parameter: usize) -> f64 {
        self.0[(figure, parameter)]
    }

    /// The number of parameters.
    pub fn len(&self) -> usize {
        self.0.ncols()
    }

    /// Whether there are no parameters.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether some figure moves with the parameter, by at least [`LEAST_ELASTICITY`].
    pub fn is_determined(&self, parameter: usize) -> bool {
        self.0.column(parameter).amax() >= LEAST_ELASTICITY
    }

    /// The parameters that are determined.
    pub(super) fn determined(&self) -> Vec<usize> {
        (0..self.len()).filter(|&parameter| self.is_determined(parameter)).collect()
    }

    /// By how many percent a parameter changes if each figure is off by 1%, independently of the others. `None`: the
    /// figures do not determine it.
    pub fn width(&self, parameter: usize) -> Option<f64> {
        let determined = self.determined();
        let place = determined.iter().position(|&known| known == parameter)?;
        let inverse = self.part(&determined, &determined).try_inverse()?;
        Some(inverse.row(place).norm())
    }

    /// The condition of the parameters that are determined: the ratio of the best determined mixture of them to the
    /// worst. With 1 each figure tells a parameter of its own; if it is great, two figures say nearly the same. `None`:
    /// two say just the same, or no parameter is determined.
    pub fn condition(&self) -> Option<f64> {
        self.condition_of(&self.determined())
    }

    /// The condition of the parameters `of`.
    pub(super) fn condition_of(&self, of: &[usize]) -> Option<f64> {
        if of.is_empty() {
            return None;
        }
        let values = self.part(of, of).singular_values();
        (values.min() > 0.0).then(|| values.max() / values.min())
    }

    /// By how much, in logarithms, the parameters `of` must change so that the figures `of` change by `by`.
    pub(super) fn solve(&self, of: &[usize], by: &[f64]) -> Option<Vec<f64>> {
        if of.is_empty() {
            return Some(Vec::new());
        }
        let solved = self.part(of, of).lu().solve(&DVector::from_column_slice(by))?;
        solved.iter().all(|value| value.is_finite()).then(|| solved.as_slice().to_vec())
    }

    /// By how much, in logarithms, the figures change with the parameters.
    pub(super) fn moved(&self, by: &[f64]) -> Vec<f64> {
        (&self.0 * DVector::from_column_slice(by)).as_slice().to_vec()
    }

    /// Takes in that a step `by` changed the figures by `moved`, in logarithms, with the least change of the
    /// elasticities (C. Broyden, 1965).
    pub(super) fn learn(&mut self, by: &[f64], moved: &[f64]) {
        let by = DVector::from_column_slice(by);
        let square = by.norm_squared();
        if square > 0.0 {
            let surprise = DVector::from_column_slice(moved) - &self.0 * &by;
            self.0 += surprise * by.transpose() / square;
        }
    }

    fn part(&self, figures: &[usize], parameters: &[usize]) -> DMatrix<f64> {
        self.0.select_rows(figures).select_columns(parameters)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_as_wide_as_its_figure_is_flat() {
        let sensitivity = Sensitivity::new(&[vec![0.5, 0.0], vec![0.0, 2.0]]);
        assert_eq!([0, 1].map(|parameter| sensitivity.width(parameter)), [Some(2.0), Some(0.5)]);
        assert_eq!(sensitivity.condition(), Some(4.0));
    }

    #[test]
    fn figures_that_move_alike_have_a_great_condition_and_wide_parameters() {
        let alike = Sensitivity::new(&[vec![1.0, 1.0], vec![1.0, 1.001]]);
        assert!(alike.condition().is_some_and(|condition| condition > GREATEST_CONDITION));
        assert!(alike.width(0).is_some_and(|width| width > 1000.0));
        assert_eq!(Sensitivity::new(&[vec![1.0, 1.0], vec![1.0, 1.0]]).width(0), None);
    }

    #[test]
    fn a_parameter_that_moves_nothing_is_not_determined_and_does_not_widen_the_others() {
        let sensitivity = Sensitivity::new(&[vec![0.5, 0.01], vec![0.3, 0.04]]);
        assert!(sensitivity.is_determined(0) && !sensitivity.is_determined(1));
        assert_eq!([0, 1].map(|parameter| sensitivity.width(parameter)), [Some(2.0), None]);
        assert_eq!(sensitivity.condition(), Some(1.0));
    }
}
