//! What the axes of a tensor are, followed through the operators that only move values.
//!
//! ```text
//! LSTM       [time] [direction] [batch] [unit]
//! Transpose  [time] [batch] [direction] [unit]
//! Reshape    [time] [batch] [direction unit]        both directions of a unit side by side
//! ```
//!
//! An axis is a product of factors, the slowest first; an axis of one element has none. Reshaping
//! keeps the sequence of all factors and groups it in another way.

/// Factors of a computed size; a graph may multiply one with itself again and again.
const MAX_FACTORS: usize = 16;

/// A factor of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Factor {
    Time,
    Batch,
    /// Forward, then backward.
    Direction,
    /// This many values of one step.
    Units(usize),
    /// An axis of a graph's input, of which nothing is known.
    Any(usize),
}

pub(super) type Axis = Vec<Factor>;

/// One dimension of a shape that a graph computes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Size {
    /// A number; in the target of a `Reshape`, 0 copies a dimension and -1 is what remains.
    Number(i64),
    /// As long as these factors together.
    Factors(Axis),
}

impl Factor {
    fn size(self) -> Option<usize> {
        match self {
            Factor::Direction => Some(2),
            Factor::Units(n) => Some(n),
            Factor::Time | Factor::Batch | Factor::Any(_) => None,
        }
    }
}

impl Size {
    /// The product of two.
    pub fn times(&self, other: &Size) -> Option<Size> {
        match (self, other) {
            (Size::Factors(a), Size::Factors(b)) if a.len() + b.len() <= MAX_FACTORS => {
                Some(Size::Factors([a.clone(), b.clone()].concat()))
            }
            (Size::Number(1), other) | (other, Size::Number(1)) => Some(other.clone()),
            (Size::Number(a), Size::Number(b)) => a.checked_mul(*b).map(Size::Number),
            _ => None,
        }
    }
}

/// The axes after a `Reshape` to `target`; None if that cannot be known.
pub(super) fn reshaped(axes: &[Axis], target: &[Size]) -> Option<Vec<Axis>> {
    let target = target.iter().enumerate().map(|(i, size)| match size {
        Size::Number(0) => axes.get(i).map(|axis| Size::Factors(axis.clone())),
        other => Some(other.clone()),
    });
    let target: Vec<Size> = target.collect::<Option<_>>()?;
    let factors: Vec<Factor> = axes.concat();
    let (mut front, mut back) = (Vec::new(), Vec::new());
    let mut rest = factors.as_slice();
    let mut open = target.as_slice();
    while let Some((first, others)) = open.split_first() {
        let Some(count) = leading(rest, first) else { break };
        front.push(rest[..count].to_vec());
        (rest, open) = (&rest[count..], others);
    }
    while let Some((last, others)) = open.split_last() {
        let Some(count) = trailing(rest, last) else { break };
        back.push(rest[rest.len() - count..].to_vec());
        (rest, open) = (&rest[..rest.len() - count], others);
    }
    back.reverse();
    let between: Vec<Axis> = match open {
        [] if rest.is_empty() => Vec::new(),
        [Size::Number(-1)] => vec![rest.to_vec()],
        // Sizes of time and batch, written as numbers when the graph was made.
        open if open.len() == rest.len() && rest.iter().all(|factor| factor.size().is_none()) => {
            rest.iter().map(|factor| vec![*factor]).collect()
        }
        [Size::Number(_)] if rest.iter().all(|factor| factor.size().is_none()) => {
            vec![rest.to_vec()]
        }
        _ => return None,
    };
    Some([front, between, back].concat())
}

/// How many of the first factors make up `size`.
fn leading(factors: &[Factor], size: &Size) -> Option<usize> {
    match size {
        Size::Factors(wanted) => factors.starts_with(wanted).then_some(wanted.len()),
        Size::Number(n) => matching(factors.iter(), *n),
    }
}

/// How many of the last factors make up `size`.
fn trailing(factors: &[Factor], size: &Size) -> Option<usize> {
    match size {
        Size::Factors(wanted) => factors.ends_with(wanted).then_some(wanted.len()),
        Size::Number(n) => matching(factors.iter().rev(), *n),
    }
}

fn matching<'a>(factors: impl Iterator<Item = &'a Factor>, n: i64) -> Option<usize> {
    let n = usize::try_from(n).ok()?;
    let mut product = 1usize;
    for (count, factor) in factors.enumerate() {
        if product == n {
            return Some(count);
        }
        product = product.checked_mul(factor.size()?)?;
        if product == n && n > 1 {
            return Some(count + 1);
        }
    }
    (product == n && n == 1).then_some(0)
}

/// An axis counted from the end if it is negative.
pub(super) fn at(axis: i64, rank: usize) -> Option<usize> {
    let axis = if axis < 0 { axis.checked_add_unsigned(rank as u64)? } else { axis };
    usize::try_from(axis).ok().filter(|&axis| axis < rank)
}

/// Several of them.
pub(super) fn all_at(axes: &[i64], rank: usize) -> Option<Vec<usize>> {
    axes.iter().map(|&axis| at(axis, rank)).collect()
}

#[cfg(test)]
mod tests {
    use super::Factor::{Batch, Direction, Time, Units};
    use super::*;

    #[test]
    fn both_directions_are_joined() {
        let axes = [vec![Time], vec![Batch], vec![Direction], vec![Units(4)]];
        let joined = Some(vec![vec![Time], vec![Batch], vec![Direction, Units(4)]]);
        let numbers = |sizes: &[i64]| sizes.iter().map(|n| Size::Number(*n)).collect::<Vec<_>>();
        for target in [[0, 0, -1], [0, 0, 8], [-1, 3, 8], [6, 3, 8], [6, -1, 8]] {
            assert_eq!(reshaped(&axes, &numbers(&target)), joined, "{target:?}");
        }
        let computed = [
            Size::Factors(vec![Time]),
            Size::Factors(vec![Batch]),
            Size::Factors(vec![Direction]).times(&Size::Factors(vec![Units(4)])).unwrap(),
        ];
        assert_eq!(reshaped(&axes, &computed), joined);
        let rows = Some(vec![vec![Time, Batch], vec![Direction, Units(4)]]);
        assert_eq!(reshaped(&axes, &numbers(&[-1, 8])), rows);
        for target in [&[0, 0, 4][..], &[0, 0, 7, -1], &[-1], &[0, 0, 0, 0, 0], &[i64::MIN]] {
            let found = reshaped(&axes, &numbers(target));
            assert!(found != joined, "{target:?}: {found:?}");
        }
    }

    #[test]
    fn axes_of_one_element_come_and_go() {
        let axes = [vec![Time], vec![], vec![Batch], vec![Units(4)]];
        let numbers = |sizes: &[i64]| sizes.iter().map(|n| Size::Number(*n)).collect::<Vec<_>>();
        let plain = Some(vec![vec![Time], vec![Batch], vec![Units(4)]]);
        assert_eq!(reshaped(&axes, &numbers(&[0, -1, 4])), plain);
        assert_eq!(reshaped(&axes, &numbers(&[6, 3, 4])), plain);
        assert_eq!(at(-1, 3), Some(2));
        assert_eq!(at(3, 3), None);
        assert_eq!(at(i64::MIN, 3), None);
    }
}
