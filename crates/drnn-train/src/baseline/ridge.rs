//! Ridge regression by the normal equations.
//!
//! ```text
//! w = argmin sum_i (y_i - w x_i - b)^2 + penalty |w|^2        (X^T X + penalty I) w = X^T y
//! ```
//!
//! X^T X is positive definite once a penalty is added, so a Cholesky factorisation of a few lines
//! solves it; no linear-algebra crate is needed.

/// Sums over rows, from which the regression is solved for any penalty.
#[derive(Debug, Clone)]
pub struct NormalEquations {
    /// Inputs and a constant, p.
    width: usize,
    /// Outputs, m.
    outputs: usize,
    /// X^T X: the lower triangle, row by row, (p, p).
    gram: Vec<f64>,
    /// X^T y, (p, m).
    right: Vec<f64>,
    rows: usize,
}

impl NormalEquations {
    /// For rows of `inputs` numbers and `outputs` targets.
    pub fn new(inputs: usize, outputs: usize) -> NormalEquations {
        let width = inputs + 1;
        let (gram, right) = (vec![0.0; width * width], vec![0.0; width * outputs]);
        NormalEquations { width, outputs, gram, right, rows: 0 }
    }

    /// Rows that were added.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Adds a row; `x` has the inputs, `y` the targets.
    pub fn add(&mut self, x: &[f32], y: &[f32]) {
        let NormalEquations { width, outputs, gram, right, rows } = self;
        *rows += 1;
        let constant = [1.0];
        for (i, a) in x.iter().chain(&constant).enumerate() {
            let a = f64::from(*a);
            if a == 0.0 {
                continue;
            }
            let row = &mut gram[i * *width..][..=i];
            for (sum, b) in row.iter_mut().zip(x.iter().chain(&constant)) {
                *sum += a * f64::from(*b);
            }
            let row = &mut right[i * *outputs..][..*outputs];
            row.iter_mut().zip(y).for_each(|(sum, y)| *sum += a * f64::from(*y));
        }
    }

    /// The weights (p, m), the constant's last; None where rows and penalty leave them undetermined.
    /// The penalty is per row, and the constant has none.
    pub fn solve(&self, penalty: f64) -> Option<Vec<f64>> {
        let (p, m) = (self.width, self.outputs);
        let mut factor = self.gram.clone();
        for i in 0..p - 1 {
            factor[i * p + i] += penalty * self.rows as f64;
        }
        cholesky(&mut factor, p)?;
        let mut weights = self.right.clone();
        // L z = X^T y, then L^T w = z.
        for i in 0..p {
            for j in 0..i {
                subtract(&mut weights, m, i, j, factor[i * p + j]);
            }
            weights[i * m..][..m].iter_mut().for_each(|w| *w /= factor[i * p + i]);
        }
        for i in (0..p).rev() {
            for j in i + 1..p {
                subtract(&mut weights, m, i, j, factor[j * p + i]);
            }
            weights[i * m..][..m].iter_mut().for_each(|w| *w /= factor[i * p + i]);
        }
        weights.iter().all(|w| w.is_finite()).then_some(weights)
    }
}

/// Row i of `weights` less `factor` times row j.
fn subtract(weights: &mut [f64], m: usize, i: usize, j: usize, factor: f64) {
    for k in 0..m {
        weights[i * m + k] -= factor * weights[j * m + k];
    }
}

/// Replaces the lower triangle of a positive definite matrix by its factor L, A = L L^T.
fn cholesky(a: &mut [f64], p: usize) -> Option<()> {
    for i in 0..p {
        for j in 0..=i {
            let (above, row) = a.split_at(i * p);
            let other = if j == i { &row[..j] } else { &above[j * p..][..j] };
            let sum: f64 = row[..j].iter().zip(other).map(|(x, y)| x * y).sum();
            let rest = a[i * p + j] - sum;
            a[i * p + j] = match i == j {
                // What rounding leaves of a column that depends on others is not positive enough.
                true if rest > 1e-12 * a[i * p + i].abs() => rest.sqrt(),
                true => return None,
                false => rest / a[j * p + j],
            };
        }
    }
    Some(())
}

/// The outputs for a row.
pub(crate) fn predict(weights: &[f64], x: &[f32], y: &mut [f32]) {
    let (slopes, constant) = weights.split_at(x.len() * y.len());
    let mut sums = constant.to_vec();
    // Input by input, because the weights of one are next to each other.
    for (x, slopes) in x.iter().zip(slopes.chunks_exact(y.len())) {
        let x = f64::from(*x);
        sums.iter_mut().zip(slopes).for_each(|(sum, slope)| *sum += slope * x);
    }
    y.iter_mut().zip(sums).for_each(|(y, sum)| *y = sum as f32);
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn::random::Rng;

    /// The gradient of the penalised squares is zero at the solution: checked from the rows themselves.
    #[test]
    fn the_solution_is_a_minimum() {
        let (rows, inputs, outputs) = (40, 6, 2);
        let mut rng = Rng::new(1);
        let mut draw = |n: usize| -> Vec<f32> { (0..n).map(|_| rng.symmetric(1.0)).collect() };
        let (x, y) = (draw(rows * inputs), draw(rows * outputs));
        let mut equations = NormalEquations::new(inputs, outputs);
        x.chunks(inputs).zip(y.chunks(outputs)).for_each(|(x, y)| equations.add(x, y));
        for penalty in [0.0, 1e-3, 1.0] {
            let weights = equations.solve(penalty).unwrap();
            let mut found = vec![0.0; outputs];
            let mut gradient = vec![0.0; (inputs + 1) * outputs];
            for (x, y) in x.chunks(inputs).zip(y.chunks(outputs)) {
                predict(&weights, x, &mut found);
                for (i, x) in x.iter().chain(&[1.0]).enumerate() {
                    for k in 0..outputs {
                        gradient[i * outputs + k] += f64::from((found[k] - y[k]) * x);
                    }
                }
            }
            for (i, sum) in gradient.iter().enumerate() {
                let is_slope = i < inputs * outputs;
                let expected = if is_slope { -penalty * rows as f64 * weights[i] } else { 0.0 };
                assert!((sum - expected).abs() < 1e-4, "{penalty} {i}: {sum}, {expected}");
            }
        }
    }

    #[test]
    fn a_linear_rule_is_found_and_equal_columns_need_a_penalty() {
        let mut equations = NormalEquations::new(2, 1);
        for i in 0..20 {
            let x = [(i as f32).sin(), (i as f32).cos()];
            equations.add(&x, &[3.0 * x[0] - 2.0 * x[1] + 0.5]);
        }
        let weights = equations.solve(0.0).unwrap();
        for (found, expected) in weights.iter().zip([3.0, -2.0, 0.5]) {
            assert!((found - expected).abs() < 1e-5, "{weights:?}");
        }
        let mut equal = NormalEquations::new(2, 1);
        (0..20).for_each(|i| equal.add(&[i as f32; 2], &[i as f32]));
        assert_eq!(equal.solve(0.0), None);
        let weights = equal.solve(1e-6).unwrap();
        assert!((weights[0] - 0.5).abs() < 1e-3 && (weights[1] - 0.5).abs() < 1e-3, "{weights:?}");
    }
}
