//! A network's parameters, packed for the kernels.
//!
//! A cell's gate columns come in groups that are fed alike:
//!
//! ```text
//! RNN    a        <- x, h
//! LSTM   i f g o  <- x, h
//! GRU    r z      <- x, h
//!        n        <- x          the reset gate multiplies the recurrent half of the candidate
//!        h_n      <- h          alone, so the two halves are columns of their own
//! ```
//!
//! Forward, a group is `bias + x W_ih^T + h W_hh^T`; backward, its gradient goes the same ways home.

use crate::buffer::Buffer;
use crate::kernel::pack::{pack, packed_len};
use crate::params::Layout;
use crate::spec::{Cell, NetSpec};
use std::ops::Range;

/// Neighbouring gate columns that are fed alike, in units of n.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Group {
    /// First column and number of columns, in units of n.
    first: usize,
    count: usize,
    /// First row in `weight_ih` and `bias_ih`, in units of n, if x feeds it.
    from_x: Option<usize>,
    /// First row in `weight_hh` and `bias_hh`, in units of n, if h feeds it.
    from_h: Option<usize>,
}

const fn group(first: usize, count: usize, from_x: Option<usize>, from_h: Option<usize>) -> Group {
    Group { first, count, from_x, from_h }
}

impl Group {
    /// The groups of a cell, which together are all its columns.
    pub fn of(cell: Cell) -> &'static [Group] {
        match cell {
            Cell::RnnTanh | Cell::RnnRelu => &const { [group(0, 1, Some(0), Some(0))] },
            Cell::Lstm => &const { [group(0, 4, Some(0), Some(0))] },
            Cell::Gru => {
                &const {
                    [
                        group(0, 2, Some(0), Some(0)),
                        group(2, 1, Some(2), None),
                        group(3, 1, None, Some(2)),
                    ]
                }
            }
        }
    }

    /// Its columns for n units.
    pub fn columns(&self, n: usize) -> Range<usize> {
        self.first * n..(self.first + self.count) * n
    }

    /// Its rows of `weight_ih`.
    pub fn x_rows(&self, n: usize) -> Option<Range<usize>> {
        self.from_x.map(|first| first * n..(first + self.count) * n)
    }

    /// Its rows of `weight_hh`.
    pub fn h_rows(&self, n: usize) -> Option<Range<usize>> {
        self.from_h.map(|first| first * n..(first + self.count) * n)
    }
}

/// Gate columns of a cell with n units.
pub(crate) fn columns(cell: Cell, n: usize) -> usize {
    Group::of(cell).iter().map(|g| g.count).sum::<usize>() * n
}

/// A packed matrix.
#[derive(Default)]
pub(crate) struct Packed {
    data: Buffer,
}

impl Packed {
    fn set(&mut self, w: &[f32], k: (usize, usize), cols: (usize, usize), width: usize) {
        let len = packed_len(k.0, cols.0, width);
        self.data.reserve(len);
        pack(self.data.slice_mut(len), w, k, cols, width);
    }

    pub fn ptr(&self) -> *const f32 {
        self.data.ptr()
    }
}

/// The matrices that meet in one group: of h, and of each part of x.
#[derive(Default)]
pub(crate) struct GroupWeights {
    x: Vec<Packed>,
    /// Whether `x` was packed this time; its memory stays either way.
    has_x: bool,
    pub h: Option<Packed>,
}

impl GroupWeights {
    /// One matrix per part of x; none where x does not feed the group, or was left out.
    pub fn x(&self) -> &[Packed] {
        if self.has_x { &self.x } else { &[] }
    }
}

/// One direction of one layer.
#[derive(Default)]
pub(crate) struct LayerWeights {
    /// `b_ih + b_hh`, a row of all columns.
    pub bias: Buffer,
    pub groups: Vec<GroupWeights>,
}

/// Which way the matrices are packed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// x and h to gates; hidden states to answers.
    Forward,
    /// Gradients of gates to x and h; of answers to hidden states.
    Backward,
}

/// A whole network, packed one way or the other, in the same memory.
pub(crate) struct Weights {
    width: usize,
    /// By layer, then direction.
    pub layers: Vec<LayerWeights>,
    /// One matrix per direction; empty without an output layer.
    pub output: Vec<Packed>,
}

impl Weights {
    /// Nothing yet; `width` is the kernels'.
    pub fn new(width: usize) -> Weights {
        Weights { width, layers: Vec::new(), output: Vec::new() }
    }

    /// Packs `params`, into the same memory as before. Backward, the first layer's `weight_ih` is left
    /// out unless the gradient of `input` is wanted.
    pub fn set(&mut self, way: Way, input: bool, spec: &NetSpec, layout: &Layout, params: &[f32]) {
        let directions = spec.direction().count();
        self.layers.resize_with(spec.layers() * directions, Default::default);
        for layer in 0..spec.layers() {
            for direction in 0..directions {
                let weights = &mut self.layers[layer * directions + direction];
                let tensors = layout.layer(layer, direction).map(|r| &params[r]);
                let x = way == Way::Forward || input || layer > 0;
                weights.set(spec, layer, tensors, way, x, self.width);
            }
        }
        if let (Some([weight, _]), Some(m)) = (layout.output(), spec.outputs()) {
            let n = spec.hidden_width() / directions;
            self.output.resize_with(directions, Default::default);
            for (direction, packed) in self.output.iter_mut().enumerate() {
                let w = &params[weight.clone()][direction * n..];
                match way {
                    Way::Forward => packed.set(w, (n, 1), (m, n * directions), self.width),
                    Way::Backward => packed.set(w, (m, n * directions), (n, 1), self.width),
                }
            }
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let groups = self.layers.iter().flat_map(|l| &l.groups);
        let matrices = groups.flat_map(|g| g.x.iter().chain(&g.h)).chain(&self.output);
        matrices.map(|m| m.data.bytes()).sum::<usize>()
            + self.layers.iter().map(|l| l.bias.bytes()).sum::<usize>()
    }
}

impl LayerWeights {
    fn set(
        &mut self,
        spec: &NetSpec,
        layer: usize,
        [w_ih, w_hh, b_ih, b_hh]: [&[f32]; 4],
        way: Way,
        x: bool,
        width: usize,
    ) {
        let (cell, n, q) = (spec.cell(), spec.units()[layer], spec.layer_input(layer));
        let parts = if layer == 0 { 1 } else { spec.direction().count() };
        let part = q / parts;
        let groups = Group::of(cell);
        self.groups.resize_with(groups.len(), Default::default);
        self.bias.reserve(columns(cell, n));
        let bias = self.bias.slice_mut(columns(cell, n));
        bias.fill(0.0);
        for (group, packed) in groups.iter().zip(&mut self.groups) {
            let bias = &mut bias[group.columns(n)];
            if let Some(rows) = group.x_rows(n) {
                add(bias, &b_ih[rows.clone()]);
                packed.x.resize_with(parts, Default::default);
                packed.has_x = x;
                for (i, to) in packed.x.iter_mut().enumerate().take(if x { parts } else { 0 }) {
                    let w = &w_ih[rows.start * q + i * part..];
                    match way {
                        Way::Forward => to.set(w, (part, 1), (rows.len(), q), width),
                        Way::Backward => to.set(w, (rows.len(), q), (part, 1), width),
                    }
                }
            }
            if let Some(rows) = group.h_rows(n) {
                add(bias, &b_hh[rows.clone()]);
                let w = &w_hh[rows.start * n..];
                let to = packed.h.get_or_insert_default();
                match way {
                    Way::Forward => to.set(w, (n, 1), (rows.len(), n), width),
                    Way::Backward => to.set(w, (rows.len(), n), (n, 1), width),
                }
            }
        }
    }
}

fn add(to: &mut [f32], from: &[f32]) {
    for (a, b) in to.iter_mut().zip(from) {
        *a += b;
    }
}
