//! Where a network's parameters lie in memory.

use crate::error::{Error, Result, Shape, check_finite, check_shape};
use crate::prelude::*;
use crate::spec::NetSpec;
use crate::spec::mask::check_outside;
use crate::spec::params::Layout;
use core::ops::Range;

/// A network's parameters: in one flat slice, or each tensor where its owner keeps it, as in a deep
/// learning framework.
///
/// ```
/// use drnn::{Cell, Model, NetSpec, Params};
///
/// let spec = NetSpec::builder(Cell::Gru).dense(2).units([8]).build()?;
/// let model = Model::init(&spec, 1)?;
/// let flat = Params::from(model.params());
/// let tensors: Vec<&[f32]> = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
///     .map(|name| model.tensor(name).unwrap())
///     .into();
/// assert_eq!(Params::Tensors(&tensors).len(), flat.len());
/// # Ok::<(), drnn::Error>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub enum Params<'a> {
    /// All of them, in the order of [`Layout`].
    Flat(&'a [f32]),
    /// One slice for each of [`Layout::tensors`], in their order.
    Tensors(&'a [&'a [f32]]),
}

impl<'a> From<&'a [f32]> for Params<'a> {
    fn from(flat: &'a [f32]) -> Params<'a> {
        Params::Flat(flat)
    }
}

impl<'a> From<&'a Vec<f32>> for Params<'a> {
    fn from(flat: &'a Vec<f32>) -> Params<'a> {
        Params::Flat(flat)
    }
}

impl<'a> Params<'a> {
    /// Number of parameters.
    pub fn len(&self) -> usize {
        match self {
            Params::Flat(flat) => flat.len(),
            Params::Tensors(tensors) => tensors.iter().map(|tensor| tensor.len()).sum(),
        }
    }

    /// Whether there is no parameter.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Part of one tensor, by its place in the flat vector; the parameters were checked.
    pub(crate) fn get(&self, range: Range<usize>) -> &'a [f32] {
        match *self {
            Params::Flat(flat) => &flat[range],
            Params::Tensors(tensors) => {
                let mut first = 0;
                for tensor in tensors {
                    if range.end <= first + tensor.len() {
                        return &tensor[range.start - first..range.end - first];
                    }
                    first += tensor.len();
                }
                panic!("no parameters {range:?} among {first}")
            }
        }
    }

    /// Right lengths; the error says what differs.
    pub(crate) fn check_lengths(&self, layout: &Layout) -> Result<()> {
        let Params::Tensors(tensors) = self else {
            return check_shape("params", self.len(), &[layout.len()]);
        };
        if tensors.len() != layout.tensors().len() {
            let (found, expected) = (Shape::Len(tensors.len()), Shape::Len(layout.tensors().len()));
            return Err(Error::Shape { name: "params".into(), found, expected });
        }
        let mut each = layout.tensors().iter().zip(*tensors);
        each.try_for_each(|(tensor, values)| check_shape(&tensor.name, values.len(), &tensor.dims))
    }

    /// Right lengths, every value finite, and zeros where blocks have them; the error names the tensor.
    pub(crate) fn check(&self, spec: &NetSpec, layout: &Layout) -> Result<()> {
        self.check_lengths(layout)?;
        for tensor in layout.tensors() {
            check_finite(&tensor.name, self.get(tensor.range.clone()))?;
        }
        check_outside(spec, layout, *self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Cell, params};

    #[test]
    fn tensors_are_found_wherever_they_lie() {
        let spec = NetSpec::builder(Cell::Lstm).tokens(7, 3).units([5, 4]).bidirectional();
        let spec = spec.outputs(2).build().unwrap();
        let (layout, flat) = (Layout::new(&spec), params::initial(&spec, 1));
        let tensors: Vec<&[f32]> =
            layout.tensors().iter().map(|tensor| &flat[tensor.range.clone()]).collect();
        let (apart, flat) = (Params::Tensors(&tensors), Params::from(&flat));
        assert_eq!(apart.len(), flat.len());
        apart.check(&spec, &layout).unwrap();
        for tensor in layout.tensors() {
            let (range, middle) = (tensor.range.clone(), tensor.range.start + 1..tensor.range.end);
            assert_eq!(apart.get(range.clone()), flat.get(range));
            assert_eq!(apart.get(middle.clone()), flat.get(middle));
        }
    }

    #[test]
    fn wrong_tensors_are_named() {
        let spec = NetSpec::builder(Cell::Gru).dense(2).units([3]).build().unwrap();
        let (layout, flat) = (Layout::new(&spec), params::initial(&spec, 1));
        let tensors: Vec<&[f32]> =
            layout.tensors().iter().map(|tensor| &flat[tensor.range.clone()]).collect();
        let refused = |tensors: &[&[f32]]| {
            Params::Tensors(tensors).check(&spec, &layout).unwrap_err().to_string()
        };
        assert!(refused(&tensors[1..]).contains("params"), "{}", refused(&tensors[1..]));
        let mut short = tensors.clone();
        short[1] = &short[1][1..];
        assert!(refused(&short).contains("weight_hh_l0"), "{}", refused(&short));
        let (mut bad, nan) = (tensors.clone(), [f32::NAN; 9]);
        bad[2] = &nan;
        assert!(refused(&bad).contains("bias_ih_l0"), "{}", refused(&bad));
    }
}
