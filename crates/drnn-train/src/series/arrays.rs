//! Sequences from two arrays.
//!
//! ```text
//! X (T, B, q) floats      Y (T, B, m) floats, or (T, B) integers: a class each, negative for none
//! ```

use super::sequences::{Sequences, Truth};
use crate::error::{Error, Result};
use crate::read::{self, Array, Input, Missing, Source, Values, refuse};
use std::collections::BTreeSet;

/// Reads two arrays, for targets `ahead` steps after their rows, or none for the rows themselves. Inputs are called x0, x1, .., targets y0, y1, .., classes by their numbers.
pub fn from_arrays(
    x: &Input,
    y: &Input,
    missing: Missing,
    max_classes: usize,
    ahead: &[usize],
) -> Result<Sequences> {
    let open = |input: &Input| {
        let source: Source = input.open()?;
        let name = source.name().to_string();
        Ok::<_, Error>((name, read::array(source)?))
    };
    let ((x_name, x), (y_name, y)) = (open(x)?, open(y)?);
    let (Values::Floats(numbers), &[steps, rows, q]) = (&x.values, &x.shape[..]) else {
        return Err(refuse(&x_name, None, shape_error(&x, "floats [T, B, q]")));
    };
    let fits = y.shape.len() >= 2 && y.shape[..2] == [steps, rows];
    let m = match (&y.values, &y.shape[..]) {
        (Values::Floats(_), &[_, _, m]) if fits && m > 0 => Some(m),
        (Values::Floats(_), &[_, _]) if fits => Some(1),
        (Values::Integers(_), &[_, _]) if fits => None,
        _ => {
            let what = format!("floats [{steps}, {rows}, m] or integers [{steps}, {rows}]");
            return Err(refuse(&y_name, None, shape_error(&y, &what)));
        }
    };
    if numbers.is_empty() {
        return Err(refuse(&x_name, None, format!("holds nothing: shape {:?}", x.shape)));
    }
    let named = |letter: char, n: usize| (0..n).map(|i| format!("{letter}{i}")).collect();
    let classes: Option<BTreeSet<i64>> = match &y.values {
        Values::Integers(y) => Some(y.iter().copied().filter(|y| *y >= 0).collect()),
        Values::Floats(_) => None,
    };
    if classes.as_ref().is_some_and(|classes| classes.len() > max_classes) {
        let what = format!(
            "has more than {} different classes; targets that are values are floats, and \
             --max-classes N allows more",
            drnn::text::grouped(max_classes)
        );
        return Err(refuse(&y_name, None, what));
    }
    let classes: Option<Vec<i64>> = classes.map(|classes| classes.into_iter().collect());
    let labels = classes.as_ref().map(|classes| classes.iter().map(i64::to_string).collect());
    let mut sequences = Sequences::new(named('x', q), named('y', m.unwrap_or(1)), labels);
    for row in 0..rows {
        sequences.begin();
        for step in 0..steps {
            let at = step * rows + row;
            let place = |what: &str| format!("step {step} of sequence {row}: {what}");
            let x = &numbers[at * q..][..q];
            let truth = match (&y.values, m) {
                (Values::Floats(y), Some(m)) => Truth::Values(&y[at * m..][..m]),
                (Values::Integers(y), _) => {
                    let id = classes.as_ref().and_then(|all| all.binary_search(&y[at]).ok());
                    Truth::Label(id.map(|id| id as u32))
                }
                _ => return Err(refuse(&y_name, None, place("no target"))),
            };
            if x.iter().any(|x| x.is_infinite()) {
                return Err(refuse(&x_name, None, place("a number is not finite")));
            }
            if matches!(truth, Truth::Values(y) if y.iter().any(|y| y.is_infinite())) {
                return Err(refuse(&y_name, None, place("a number is not finite")));
            }
            sequences
                .push(x, truth, missing)
                .map_err(|what| refuse(&x_name, None, place(&what)))?;
        }
    }
    sequences.finish().map_err(|what| refuse(&x_name, None, what))?.forecast(ahead)
}

fn shape_error(array: &Array, expected: &str) -> String {
    format!("{} of shape {:?}, expected {expected}", array.values.kind(), array.shape)
}
