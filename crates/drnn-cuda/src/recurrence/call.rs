//! What both ways of a call have: conversions, lengths, states, and the pass that they prepare.

use super::memory::Memory;
use super::{ForwardArguments, LayerArrays, Lengths, Recurrence};
use crate::error::Result;
use crate::kernels::params::{BeginForward, Params, Pointer, ReadValues, WriteValues, ptr, size};
use crate::kernels::{Kernels, RecurrenceKernels};
use crate::runtime::gemm::Gemm;
use crate::runtime::kernel::Kernel;
use crate::runtime::memory::{Buffer, Pod};
use crate::runtime::stream::Stream;
use crate::step::pass::{Pass, Tensors, launch_each};
use crate::step::plan::Plan;

/// 16-byte words of the h exchange that a thread resets: a single long sequence has more of them than
/// 32 bits count.
const WORDS_PER_THREAD: usize = 8;

/// Of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    Forward,
    Backward,
}

/// Where a forward call puts x (S, B, stride).
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    /// In f32, without padding.
    Single(&'a Buffer<f32>),
    /// In f16, and the h exchange and which of its buffers is in use, if blocks exchange h.
    Half { x: &'a Buffer<u16>, stride: usize, exchange: Option<(&'a Buffer<u16>, &'a Buffer<u32>)> },
}

/// A call while its work is submitted.
pub(super) struct Call<'a> {
    pub recurrence: &'a Recurrence,
    pub kernels: &'a Kernels,
    pub own: &'a RecurrenceKernels,
    pub stream: &'a Stream,
    pub gemm: &'a Gemm,
    pub memory: &'a Memory,
    /// As [`Tensors::Arrays`].
    pub params: Vec<(usize, u64)>,
    pub gradient: Vec<(usize, u64)>,
}

/// The caller's arrays by their place in the parameter vector. Biases that are not there are found
/// at `no_bias`.
pub(super) fn tensors(plan: &Plan, arrays: &[LayerArrays], no_bias: u64) -> Vec<(usize, u64)> {
    let bias = |at: u64| if at == 0 { no_bias } else { at };
    let of_one = |(r, a): (&crate::step::plan::Recurrence, &LayerArrays)| {
        [(r.w_ih, a.w_ih), (r.w_hh, a.w_hh), (r.b_ih, bias(a.b_ih)), (r.b_hh, bias(a.b_hh))]
    };
    let mut all: Vec<_> = plan.layers.iter().flatten().zip(arrays).flat_map(of_one).collect();
    all.sort_unstable_by_key(|(place, _)| *place);
    all
}

impl Call<'_> {
    /// The pass whose recurrences run.
    pub fn pass(&self) -> Pass<'_> {
        Pass {
            plan: &self.recurrence.plan,
            shape: self.recurrence.shape,
            first_word: 0,
            kernels: self.kernels,
            gemm: self.gemm,
            stream: self.stream,
            side_stream: self.stream,
            params: Tensors::Arrays(&self.params),
            gradient: Tensors::Arrays(&self.gradient),
            partial_losses: 0,
            work: &self.memory.workspace,
        }
    }

    /// Launches an elementwise kernel with a thread per value.
    pub fn each<P: Params>(&self, kernel: &Kernel<P>, values: usize, params: &P) -> Result<()> {
        // SAFETY: the caller's arrays have the sizes that its arguments say, and `memory` those of
        // the plan.
        unsafe { launch_each(kernel, self.stream, values, params) }
    }

    /// Address of the steps of each row.
    pub fn run<P: Pointer>(&self) -> P {
        ptr(self.pass().run())
    }

    /// Sets a whole part of the memory to zero.
    pub fn clear<T: Pod>(&self, part: &Buffer<T>) -> Result<()> {
        self.stream.clear(part, 0, part.len())
    }

    /// Everything before the products: cuBLAS's stream and workspace, steps of each row, biases that
    /// are not there, x (S, B, stride) in f32 or f16, and the h exchange of this call: words of an
    /// earlier one are never read.
    pub fn begin_forward(&self, call: &ForwardArguments, input: Input) -> Result<()> {
        self.gemm.bind(self.stream, &self.memory.gemm)?;
        let (lengths32, lengths64) = match call.lengths {
            Lengths::Full => (0, 0),
            Lengths::I32(at) => (at, 0),
            Lengths::I64(at) => (0, at),
        };
        let (shape, width) = (self.recurrence.shape, self.recurrence.spec.inputs);
        let (to, to_half, stride) = match input {
            Input::Single(x) => (x.at(0), 0, width),
            Input::Half { x, stride, .. } => (0, x.at(0), stride),
        };
        let (exchange, parity, words) = match input {
            Input::Half { exchange: Some((h, parity)), .. } => (h.at(0), parity.at(0), h.len() / 8),
            Input::Half { .. } | Input::Single(_) => (0, 0, 0),
        };
        let biases = self.memory.zeros.len();
        let params = BeginForward {
            lengths32: ptr(lengths32),
            lengths64: ptr(lengths64),
            run: self.run(),
            x: ptr(call.x),
            to: ptr(to),
            to_half: ptr(to_half),
            no_bias: ptr(self.memory.zeros.at(0)),
            exchange: ptr(exchange),
            parity: ptr(parity),
            words: words as u64,
            format: self.recurrence.options.format.word(),
            steps: size(shape.steps),
            rows: size(shape.rows),
            width: size(width),
            stride: size(stride),
            biases: size(biases),
        };
        let threads = biases.max(shape.rows).max(shape.step_rows() * stride);
        let threads = threads.max(words.div_ceil(WORDS_PER_THREAD));
        self.each(&self.own.begin_forward, threads, &params)
    }

    /// f32 (S, B, width) from the caller's format; zeros after each sequence's end.
    pub fn read_values(&self, from: u64, to: &Buffer<f32>, width: usize) -> Result<()> {
        let shape = self.recurrence.shape;
        let params = ReadValues {
            from: ptr(from),
            to: ptr(to.at(0)),
            run: self.run(),
            format: self.recurrence.options.format.word(),
            rows: size(shape.rows),
            positions: size(shape.step_rows()),
            width: size(width),
        };
        self.each(&self.own.read_values, shape.step_rows() * width, &params)
    }

    /// The caller's format (S, B, width) from f32 with rows `stride` apart; multiplied by the scale
    /// of gradients that a `header` has.
    pub fn write_values(
        &self,
        header: u64,
        from: u64,
        to: u64,
        [width, stride]: [usize; 2],
    ) -> Result<()> {
        let shape = self.recurrence.shape;
        let params = WriteValues {
            header: ptr(header),
            from: ptr(from),
            to: ptr(to),
            run: self.run(),
            format: self.recurrence.options.format.word(),
            rows: size(shape.rows),
            positions: size(shape.step_rows()),
            width: size(width),
            stride: size(stride),
        };
        self.each(&self.own.write_values, shape.step_rows() * width, &params)
    }

    /// Address of the states of one direction of a layer in an array of all; 0 if there is none.
    pub fn states_of(&self, all: u64, layer: usize, direction: usize) -> u64 {
        let Recurrence { plan, shape, spec, .. } = self.recurrence;
        let each = shape.rows * spec.units * size_of::<f32>();
        if all == 0 { 0 } else { all + ((layer * plan.layers[0].len() + direction) * each) as u64 }
    }
}
