//! One flat vector of parameters per model, and named views into it.
//!
//! Names, shapes, gate order and the order of tensors are PyTorch's:
//!
//! ```text
//! embedding.weight    [V, E]             token input only
//! weight_ih_l{k}      [gates * n, q]     q: what layer k reads
//! weight_hh_l{k}      [gates * n, n]
//! bias_ih_l{k}        [gates * n]
//! bias_hh_l{k}        [gates * n]        .. and again, with weight_hr, as `_reverse` for the other
//!                                        direction
//! weight_hr_l{k}      [p, n]             a projected LSTM only: h = W_hr (o tanh(c)), and weight_hh
//!                                        is [gates * n, p]
//! weight_hu_l0        [n, n]             a GRU in blocks only, and unknown to PyTorch:
//!                                        n = tanh(W_in x + b_in + W_hu h' + r (W_hn h' + b_hn))
//! output.weight       [m, n]             where there is an output layer
//! output.bias         [m]
//! ```

#[cfg(not(feature = "std"))]
#[allow(unused_imports, reason = "std's are found if a dependency has std")]
use crate::cpu::float::Float;
use crate::prelude::*;
use crate::random::Rng;
use crate::spec::blocks::Connections;
use crate::spec::mask::clear_outside;
use crate::spec::wiring::{Matrix, Wiring};
use crate::spec::{Direction, InputSpec, NetSpec};
use core::ops::Range;

/// A named tensor's place in the flat vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// PyTorch's name.
    pub name: String,
    /// Dimensions, outermost first.
    pub dims: Vec<usize>,
    /// Where its values lie.
    pub range: Range<usize>,
}

/// The tensors of a network, in the order of the flat vector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    tensors: Vec<Tensor>,
    directions: usize,
    has_embedding: bool,
    has_output: bool,
    has_projection: bool,
    wiring: Vec<Wiring>,
}

impl Layout {
    /// The layout of `spec`.
    pub fn new(spec: &NetSpec) -> Layout {
        let mut tensors: Vec<Tensor> = Vec::new();
        let mut add = |name: String, dims: &[usize]| {
            let start = tensors.last().map_or(0, |t| t.range.end);
            let range = start..start + dims.iter().product::<usize>();
            tensors.push(Tensor { name, dims: dims.to_vec(), range });
        };
        let has_embedding = match spec.input() {
            InputSpec::Tokens { symbols, embedding } => {
                add("embedding.weight".into(), &[symbols, embedding]);
                true
            }
            InputSpec::Dense(_) => false,
        };
        let suffixes: &[&str] = match spec.direction() {
            Direction::Forward => &[""],
            Direction::Bidirectional => &["", "_reverse"],
        };
        for (layer, &n) in spec.units().iter().enumerate() {
            let (rows, q) = (spec.cell().gates() * n, spec.layer_input(layer));
            for suffix in suffixes {
                add(format!("weight_ih_l{layer}{suffix}"), &[rows, q]);
                add(format!("weight_hh_l{layer}{suffix}"), &[rows, spec.hidden(layer)]);
                add(format!("bias_ih_l{layer}{suffix}"), &[rows]);
                add(format!("bias_hh_l{layer}{suffix}"), &[rows]);
                if let Some(p) = spec.projection() {
                    add(format!("weight_hr_l{layer}{suffix}"), &[p, n]);
                }
            }
            if spec.has_ungated() {
                add(format!("weight_hu_l{layer}"), &[n, n]);
            }
        }
        if let Some(m) = spec.outputs() {
            add("output.weight".into(), &[m, spec.hidden_width()]);
            add("output.bias".into(), &[m]);
        }
        let (has_output, has_projection) = (spec.outputs().is_some(), spec.projection().is_some());
        let directions = spec.direction().count();
        let wiring = (0..spec.layers()).map(|layer| Wiring::new(spec, layer)).collect();
        Layout { tensors, directions, has_embedding, has_output, has_projection, wiring }
    }

    /// How a layer's gates are fed.
    pub(crate) fn wiring(&self, layer: usize) -> &Wiring {
        &self.wiring[layer]
    }

    /// All tensors.
    pub fn tensors(&self) -> &[Tensor] {
        &self.tensors
    }

    /// The tensor of that name.
    pub fn find(&self, name: &str) -> Option<&Tensor> {
        self.tensors.iter().find(|t| t.name == name)
    }

    /// The tensor that holds position `at` of the flat vector.
    pub fn at(&self, at: usize) -> Option<&Tensor> {
        self.tensors.iter().find(|t| t.range.contains(&at))
    }

    /// Length of the flat vector.
    pub fn len(&self) -> usize {
        self.tensors.last().map_or(0, |t| t.range.end)
    }

    /// Whether there is no parameter at all (never, for a network that was checked).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Range of the embedding.
    pub fn embedding(&self) -> Option<Range<usize>> {
        self.has_embedding.then(|| self.tensors[0].range.clone())
    }

    /// Ranges of `weight_ih`, `weight_hh`, `bias_ih`, `bias_hh`.
    pub fn layer(&self, layer: usize, direction: usize) -> [Range<usize>; 4] {
        let first = self.first(layer, direction);
        core::array::from_fn(|i| self.tensors[first + i].range.clone())
    }

    /// Number of the first tensor of (layer, direction).
    fn first(&self, layer: usize, direction: usize) -> usize {
        let each = if self.has_projection { 5 } else { 4 };
        usize::from(self.has_embedding) + each * (layer * self.directions + direction)
    }

    /// Range of `weight_hr`, if there is one.
    pub fn projection(&self, layer: usize, direction: usize) -> Option<Range<usize>> {
        self.has_projection.then(|| self.tensors[self.first(layer, direction) + 4].range.clone())
    }

    /// Range of a recurrent matrix.
    pub(crate) fn recurrent(&self, matrix: Matrix, layer: usize, direction: usize) -> Range<usize> {
        match matrix {
            Matrix::Hh => {
                let [_, w_hh, ..] = self.layer(layer, direction);
                w_hh
            }
            // There is one layer then, and this tensor after its four.
            Matrix::Hu => self.tensors[usize::from(self.has_embedding) + 4].range.clone(),
        }
    }

    /// Ranges of `output.weight` and `output.bias`.
    pub fn output(&self) -> Option<[Range<usize>; 2]> {
        let last = self.tensors.len() - 1;
        self.has_output
            .then(|| [self.tensors[last - 1].range.clone(), self.tensors[last].range.clone()])
    }
}

/// Parameters as PyTorch draws them, in the order of [`Layout`]: recurrent tensors U(-1/sqrt(n), 1/sqrt(n)), the output layer
/// U(-1/sqrt(fan_in), 1/sqrt(fan_in)), the embedding N(0, 1). What blocks keep at zero is zero; n is that
/// of the widest block where they are a stack's.
pub fn initial(spec: &NetSpec, seed: u64) -> Vec<f32> {
    let layout = Layout::new(spec);
    let mut rng = Rng::new(seed);
    let mut params = vec![0.0; layout.len()];
    let bound = |width: usize| 1.0 / (width as f32).sqrt();
    if let Some(range) = layout.embedding() {
        params[range].fill_with(|| rng.normal());
    }
    let stacked = spec.blocks().filter(|b| *b.connected() == Connections::Stacked);
    let widest = |n: usize| stacked.and_then(|b| b.widths().iter().max().copied()).unwrap_or(n);
    for (layer, &n) in spec.units().iter().enumerate() {
        for direction in 0..spec.direction().count() {
            let projection = layout.projection(layer, direction);
            for range in layout.layer(layer, direction).into_iter().chain(projection) {
                params[range].fill_with(|| rng.symmetric(bound(widest(n))));
            }
        }
        if spec.has_ungated() {
            let range = layout.recurrent(Matrix::Hu, layer, 0);
            params[range].fill_with(|| rng.symmetric(bound(widest(n))));
        }
    }
    for range in layout.output().into_iter().flatten() {
        params[range].fill_with(|| rng.symmetric(bound(widest(spec.hidden_width()))));
    }
    clear_outside(spec, &layout, &mut params);
    params
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Cell;

    #[test]
    fn layout_is_as_long_as_the_spec_says() {
        for cell in Cell::ALL {
            let spec = NetSpec::builder(cell).tokens(7, 3).units([5, 4]).bidirectional().outputs(2);
            let spec = spec.build().unwrap();
            let layout = Layout::new(&spec);
            assert_eq!(layout.len(), spec.parameters());
            assert_eq!(layout.find("weight_ih_l1_reverse").unwrap().dims, [cell.gates() * 4, 10]);
            assert_eq!(layout.layer(1, 1)[0], layout.find("weight_ih_l1_reverse").unwrap().range);
            assert_eq!(layout.output().unwrap()[1], layout.find("output.bias").unwrap().range);
        }
    }

    #[test]
    fn initial_values_keep_to_their_bounds_and_fill_them() {
        let spec = NetSpec::builder(Cell::Lstm).dense(3).units([64]).outputs(5).build().unwrap();
        let params = initial(&spec, 1);
        let top = params.iter().fold(0.0f32, |a, x| a.max(x.abs()));
        assert!(top <= 0.125 && top > 0.124, "{top}");
        assert_ne!(params, initial(&spec, 2));
        assert_eq!(params, initial(&spec, 1));
    }
}
