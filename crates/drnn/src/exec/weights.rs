//! A network's parameters, packed for the kernels: forward for the groups of gate columns that
//! [`crate::spec::wiring`] names, in any [`WeightFormat`]; backward for their ways home, in f32.

use crate::cpu::buffer::{Buffer, Slots};
use crate::cpu::team::Team;
use crate::exec::params::Params;
use crate::io::half_precision::{f32_to_bf16, f32_to_f16};
use crate::kernel::dispatch::Kernels;
use crate::kernel::int8;
use crate::kernel::int8::quantize::row_scales;
use crate::kernel::pack::{items, pack, pack_f32, packed_len, pieces};
use crate::model::memory::floats;
use crate::model::weight_format::WeightFormat;
use crate::prelude::*;
use crate::spec::NetSpec;
use crate::spec::params::Layout;
use crate::spec::wiring::{Rows, columns};
use core::ops::Range;

/// A packed matrix.
#[derive(Default)]
pub(crate) struct Packed {
    data: Buffer,
}

impl Packed {
    /// Packs `W[k, j]`, given as for [`pack`]. Where the format is int8, `scales` has the scale of every
    /// column; the values are multiples of it.
    fn set(
        &mut self,
        w: &[f32],
        k: (usize, usize),
        cols: (usize, usize),
        scales: &[f32],
        packing: Packing,
    ) {
        let Packing { kernels, format, team } = packing;
        let width = kernels.width;
        let floats = packed_floats(k.0, cols.0, width, format);
        self.data.reserve(floats);
        match format {
            WeightFormat::F32 => {
                let to = self.data.slice_mut(floats);
                if floats < SHARED {
                    return pack_f32(kernels, to, w, k, cols);
                }
                let slots = Slots::new(to);
                team.each(items(k.0, cols, width), |item| {
                    for piece in pieces(k.0, cols, width, item) {
                        let place = piece.place();
                        // SAFETY: pieces are apart, and within the packed matrix.
                        let to = unsafe { slots.some(place.start, place.len()) };
                        piece.pack_f32(kernels, to, w, k, cols);
                    }
                });
            }
            WeightFormat::F16 => {
                let to = &mut self.data.halves_mut()[..packed_len(k.0, cols.0, width)];
                pack(to, w, k, cols, width, |x| u16::from_le_bytes(f32_to_f16(x)));
            }
            WeightFormat::Bf16 => {
                let to = &mut self.data.halves_mut()[..packed_len(k.0, cols.0, width)];
                pack(to, w, k, cols, width, |x| u16::from_le_bytes(f32_to_bf16(x)));
            }
            WeightFormat::Int8 => {
                int8::pack::pack(self.data.bytes_mut(), w, k, cols, scales, width);
            }
        }
    }

    /// The packed matrix; in other formats than f32 the kernels know what it points to.
    pub fn ptr(&self) -> *const f32 {
        self.data.ptr()
    }
}

/// Floats from which a matrix is packed by all threads.
const SHARED: usize = 1 << 16;

/// What kernels a matrix is packed for, and by whom.
#[derive(Clone, Copy)]
struct Packing<'a> {
    kernels: &'static Kernels,
    format: WeightFormat,
    team: &'a Team,
}

impl Packing<'_> {
    /// The scales of the rows of a matrix, where the format has such.
    fn scales(&self, matrix: &[f32], width: usize) -> Vec<f32> {
        match self.format {
            WeightFormat::Int8 => row_scales(matrix, width),
            _ => Vec::new(),
        }
    }
}

/// Some of the scales; none where there are none.
fn some(scales: &[f32], rows: Range<usize>) -> &[f32] {
    scales.get(rows).unwrap_or(&[])
}

/// Floats' worth of memory that a packed `k` by `cols` matrix takes.
fn packed_floats(k: usize, cols: usize, width: usize, format: WeightFormat) -> usize {
    let bytes = match format {
        WeightFormat::Int8 => int8::pack::packed_bytes(k, cols, width),
        _ => packed_len(k, cols, width).saturating_mul(format.bytes()),
    };
    bytes.div_ceil(4)
}

/// One direction of one layer.
#[derive(Default)]
pub(crate) struct LayerWeights {
    /// Of all matrices.
    pub format: WeightFormat,
    /// `b_ih + b_hh`, a row of all columns.
    pub bias: Buffer,
    /// Matrices of x, those of one number side by side, one per part of x.
    x: Vec<Packed>,
    /// Parts of x; 0 where its matrices were left out this time, though their memory stays.
    parts: usize,
    /// Matrices of h.
    h: Vec<Packed>,
    /// `weight_hr`; empty without a projection.
    projection: Packed,
}

impl LayerWeights {
    /// The matrices of x of number `at`, one per part of x; none where they were left out.
    pub fn x(&self, at: usize) -> &[Packed] {
        &self.x[at * self.parts..][..self.parts]
    }

    /// The matrix of the projection.
    pub fn projection(&self) -> &Packed {
        &self.projection
    }

    /// The matrix of h of number `at`.
    pub fn h(&self, at: usize) -> &Packed {
        &self.h[at]
    }
}

/// Which way the matrices are packed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// x and h to gates; hidden states to outputs.
    Forward,
    /// Gradients of gates to x and h; of outputs to hidden states.
    Backward,
}

/// A whole network, packed one way or the other, in the same memory.
pub(crate) struct Weights {
    kernels: &'static Kernels,
    /// Of matrices packed forward.
    pub format: WeightFormat,
    /// By layer, then direction.
    pub layers: Vec<LayerWeights>,
    /// One matrix per direction, or backward per home where units come in blocks; empty without an
    /// output layer.
    pub output: Vec<Packed>,
}

impl Weights {
    /// Nothing yet.
    pub fn new(kernels: &'static Kernels, format: WeightFormat) -> Weights {
        Weights { kernels, format, layers: Vec::new(), output: Vec::new() }
    }

    /// Packs `params`, into the same memory as before. Backward, the first layer's `weight_ih` is left
    /// out unless the gradient of `input` is wanted.
    pub fn set(
        &mut self,
        team: &Team,
        way: Way,
        input: bool,
        spec: &NetSpec,
        layout: &Layout,
        params: Params,
    ) {
        let directions = spec.direction().count();
        let format = if way == Way::Forward { self.format } else { WeightFormat::F32 };
        let packing = Packing { kernels: self.kernels, format, team };
        self.layers.resize_with(spec.layers() * directions, Default::default);
        for layer in 0..spec.layers() {
            for direction in 0..directions {
                let weights = &mut self.layers[layer * directions + direction];
                let source = Source { spec, layout, params, layer, direction, packing };
                match way {
                    Way::Forward => weights.set_forward(&source),
                    Way::Backward => weights.set_backward(&source, input || layer > 0),
                }
            }
        }
        if let (Some([weight, _]), Some(m)) = (layout.output(), spec.outputs()) {
            let (hidden, weight) = (spec.hidden_width(), params.get(weight));
            let n = hidden / directions;
            let backward_groups = &layout.wiring(spec.layers() - 1).backward_groups;
            self.output.resize_with(directions.max(backward_groups.len()), Default::default);
            let scales = packing.scales(weight, hidden);
            for direction in 0..directions {
                let w = &weight[direction * n..];
                match way {
                    Way::Forward => {
                        let units = spec.output_units();
                        let (w, k) = (&w[units.start..], (units.len(), 1));
                        self.output[direction].set(w, k, (m, hidden), &scales, packing);
                    }
                    Way::Backward => {
                        for (at, group) in backward_groups.iter().enumerate() {
                            let (w, cols) = (&w[group.units.start..], (group.units.len(), 1));
                            self.output[direction + at].set(w, (m, hidden), cols, &[], packing);
                        }
                    }
                }
            }
        }
    }

    /// Bytes held.
    pub fn bytes(&self) -> usize {
        let layers = self.layers.iter();
        let matrices = layers.flat_map(|l| l.x.iter().chain(&l.h).chain([&l.projection]));
        let matrices = matrices.chain(&self.output);
        matrices.map(|m| m.data.bytes()).sum::<usize>()
            + self.layers.iter().map(|l| l.bias.bytes()).sum::<usize>()
    }
}

/// Bytes that [`Weights`] of `spec` hold once they were packed forward, or where `trained` both
/// ways, which is in f32; `width` is the kernels'.
pub(crate) fn packed_bytes(
    spec: &NetSpec,
    layout: &Layout,
    width: usize,
    format: WeightFormat,
    trained: bool,
) -> usize {
    let directions = spec.direction().count();
    let len = |k: usize, cols: usize| packed_floats(k, cols, width, format);
    // Matrices of the same number share their memory, whichever way they are packed.
    let larger = |forward: Vec<usize>, back: Vec<usize>| -> usize {
        let back = if trained { back } else { Vec::new() };
        let all = 0..forward.len().max(back.len());
        let at = |of: &[usize], i: usize| of.get(i).copied().unwrap_or(0);
        all.map(|i| floats([at(&forward, i).max(at(&back, i))])).fold(0, usize::saturating_add)
    };
    let mut bytes = 0_usize;
    for layer in 0..spec.layers() {
        let wiring = layout.wiring(layer);
        let parts = if layer == 0 { 1 } else { directions };
        let q = spec.layer_input(layer) / parts;
        let fed = wiring.groups.iter().filter(|g| g.x.is_some());
        let fed = fed.flat_map(|g| core::iter::repeat_n(len(q, g.columns.len()), parts));
        let backward_groups = wiring.input_backward_groups.iter();
        let backward_groups =
            backward_groups.flat_map(|h| core::iter::repeat_n(len(h.rows.len(), q), parts));
        let x = larger(fed.collect(), backward_groups.collect());
        let recurrent = wiring.recurrent().map(|h| len(h.units.len(), h.rows.len()));
        let back = wiring.recurrent_backward();
        let back = back.map(|rows| len(rows.rows.len(), rows.units.len()));
        let h = larger(recurrent.collect(), back.collect());
        let n = spec.units()[layer];
        let bias = floats([columns(spec.cell(), n)]);
        let projection = spec.projection().map_or(0, |p| larger(vec![len(n, p)], vec![len(p, n)]));
        let all = x.saturating_add(h).saturating_add(bias).saturating_add(projection);
        bytes = bytes.saturating_add(all.saturating_mul(directions));
    }
    if let Some(m) = spec.outputs() {
        let backward_groups = &layout.wiring(spec.layers() - 1).backward_groups;
        let forward = vec![len(spec.output_units().len(), m); directions];
        let back = match directions {
            1 => backward_groups.iter().map(|group| len(m, group.units.len())).collect(),
            _ => vec![len(m, spec.hidden_width() / directions); directions],
        };
        bytes = bytes.saturating_add(larger(forward, back));
    }
    bytes
}

/// Where one direction of one layer is packed from.
struct Source<'a> {
    spec: &'a NetSpec,
    layout: &'a Layout,
    params: Params<'a>,
    layer: usize,
    direction: usize,
    packing: Packing<'a>,
}

impl<'a> Source<'a> {
    /// n, q, and how many parts x has.
    fn sizes(&self) -> (usize, usize, usize) {
        let parts = if self.layer == 0 { 1 } else { self.spec.direction().count() };
        (self.spec.units()[self.layer], self.spec.layer_input(self.layer), parts)
    }

    /// The rows of a recurrent matrix from its first on, and how far they are apart.
    fn recurrent(&self, rows: &Rows) -> (&'a [f32], usize) {
        let stride = self.spec.hidden(self.layer);
        (&self.matrix(rows)[rows.rows.start * stride + rows.units.start..], stride)
    }

    /// The whole matrix that these are rows of.
    fn matrix(&self, rows: &Rows) -> &'a [f32] {
        self.params.get(self.layout.recurrent(rows.matrix, self.layer, self.direction))
    }

    /// `weight_hr`, if there is one, and its shape (p, n).
    fn projection(&self) -> Option<(&'a [f32], usize, usize)> {
        let range = self.layout.projection(self.layer, self.direction)?;
        Some((self.params.get(range), self.spec.hidden(self.layer), self.spec.units()[self.layer]))
    }
}

impl LayerWeights {
    fn set_forward(&mut self, from: &Source) {
        let (n, q, parts) = from.sizes();
        let [w_ih, _, b_ih, b_hh] =
            from.layout.layer(from.layer, from.direction).map(|r| from.params.get(r));
        let (wiring, packing) = (from.layout.wiring(from.layer), from.packing);
        self.format = packing.format;
        let groups = &wiring.groups;
        self.reserve(
            groups.iter().filter(|g| g.x.is_some()).count() * parts,
            wiring.recurrent().count(),
        );
        self.parts = parts;
        let all = columns(from.spec.cell(), n);
        self.bias.reserve(all);
        let bias = self.bias.slice_mut(all);
        bias.fill(0.0);
        let scales = packing.scales(w_ih, q);
        for group in groups {
            let bias = &mut bias[group.columns.clone()];
            if let Some(rows) = &group.ih {
                add(bias, &b_ih[rows.clone()]);
            }
            if let Some(rows) = &group.hh {
                add(bias, &b_hh[rows.clone()]);
            }
            if let (Some(at), Some(rows)) = (group.x, &group.ih) {
                for part in 0..parts {
                    let w = &w_ih[rows.start * q + part * q / parts..];
                    let k = (q / parts, 1);
                    let scales = some(&scales, rows.clone());
                    self.x[at * parts + part].set(w, k, (rows.len(), q), scales, packing);
                }
            }
        }
        for rows in wiring.recurrent() {
            let ((w, stride), k) = (from.recurrent(rows), (rows.units.len(), 1));
            // Of whole rows, where the units of a group are some of them.
            let scales = packing.scales(from.matrix(rows), stride);
            let scales = some(&scales, rows.rows.clone());
            self.h[rows.at].set(w, k, (rows.rows.len(), stride), scales, packing);
        }
        if let Some((w, p, n)) = from.projection() {
            self.projection.set(w, (n, 1), (p, n), &packing.scales(w, n), packing);
        }
    }

    fn set_backward(&mut self, from: &Source, x: bool) {
        let (_, q, parts) = from.sizes();
        let [w_ih, ..] = from.layout.layer(from.layer, from.direction);
        let w_ih = from.params.get(w_ih);
        let wiring = from.layout.wiring(from.layer);
        self.format = from.packing.format;
        self.parts = if x { parts } else { 0 };
        self.reserve(
            wiring.input_backward_groups.len() * self.parts,
            wiring.recurrent_backward().count(),
        );
        for (at, group) in wiring.input_backward_groups.iter().enumerate() {
            for part in 0..self.parts {
                let w = &w_ih[group.rows.start * q + part * q / parts..];
                let k = (group.rows.len(), q);
                self.x[at * parts + part].set(w, k, (q / parts, 1), &[], from.packing);
            }
        }
        for rows in wiring.recurrent_backward() {
            let (w, stride) = from.recurrent(rows);
            let k = (rows.rows.len(), stride);
            self.h[rows.at].set(w, k, (rows.units.len(), 1), &[], from.packing);
        }
        if let Some((w, p, n)) = from.projection() {
            self.projection.set(w, (p, n), (n, 1), &[], from.packing);
        }
    }

    /// Reserves memory for that many matrices; there may be more from packing the other way.
    fn reserve(&mut self, x: usize, h: usize) {
        self.x.resize_with(self.x.len().max(x), Default::default);
        self.h.resize_with(self.h.len().max(h), Default::default);
    }
}

fn add(to: &mut [f32], from: &[f32]) {
    for (a, b) in to.iter_mut().zip(from) {
        *a += b;
    }
}
