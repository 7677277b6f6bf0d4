//! Recurrent layers as a library: [`Recurrence`] runs forward and backward passes on device memory
//! and streams that a caller owns.
//!
//! ```text
//! caller's ── formats, lengths, first states ──► passes of `plain` or `persistent` ──► caller's
//! arrays      (kernels/recurrence)               in the caller's memory                arrays
//! ```
//!
//! | file | what |
//! |---|---|
//! | `arguments` | arguments of calls, checked as far as the host can |
//! | `format` | number formats of a caller's arrays |
//! | `memory` | the arrays in the caller's memory, and how much of it a pass needs |
//! | `call` | what both ways of a call have: conversions, lengths, states |
//! | `plain`, `persistent` | the passes |
//! | `executed` | tests: whole calls executed on the CPU, compared with `drnn` |

mod arguments;
mod call;
#[cfg(test)]
mod executed;
mod format;
mod memory;
mod persistent;
mod plain;

pub use arguments::{BackwardArguments, ForwardArguments, LayerArrays, Lengths};
pub use format::Format;

use crate::error::{Error, Result};
use crate::kernels::{Kernels, RecurrenceKernels};
use crate::persistent::{self as kernels_of_hopper, LaunchTilings, PersistentNet};
use crate::runtime::arena;
use crate::runtime::device::Device;
use crate::runtime::gemm::{Gemm, Precision};
use crate::runtime::load_once::LoadOnce;
use crate::runtime::stream::Stream;
use crate::step::plan::{Plan, Shape, check_indices};
use call::{Call, Direction};
use drnn::{Cell, NetSpec};
use std::ffi::c_void;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a recurrence computes: layers of one cell and one width, as PyTorch's modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecurrenceSpec {
    /// LSTM, GRU, tanh RNN or ReLU RNN.
    pub cell: Cell,
    /// Width of the input, q.
    pub inputs: usize,
    /// Units of each direction of a layer, n.
    pub units: usize,
    /// Number of layers.
    pub layers: usize,
    /// Whether every layer has a reverse direction too.
    pub bidirectional: bool,
}

impl fmt::Display for RecurrenceSpec {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let RecurrenceSpec { cell, inputs, units, layers, bidirectional } = self;
        let directions = if *bidirectional { ", bidirectional" } else { "" };
        write!(f, "{cell:?} of {layers} x {units} units over {inputs} inputs{directions}")
    }
}

/// How a recurrence is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RecurrenceOptions {
    /// Format of inputs, outputs and their gradients.
    pub format: Format,
    /// Format of factors of matrix products. [`Precision::F16`] selects [`Way::Persistent`] where
    /// there is a kernel.
    pub precision: Precision,
    /// Whether a backward pass follows; without, nothing is saved for it.
    pub training: bool,
}

/// Which kernels run the time steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Way {
    /// A cuBLAS product and an elementwise kernel for each step, f32 or TF32: every cell, every
    /// GPU.
    Plain,
    /// All steps in one launch, f16 factors and f32 sums: LSTMs, GRUs and tanh RNNs of up to 2048
    /// units on Hopper. States are f32 between calls; h is rounded to f16 from step to step.
    Persistent,
}

/// Recurrent layers for sequences of up to T steps in batches of B, planned for one device.
///
/// A plan owns no device memory; all plans of a device share one cuBLAS handle for each precision.
/// Callers own all arrays, name them by their
/// device addresses and pass a stream; a call submits kernels and returns. It neither allocates nor
/// synchronises and keeps nothing, so it may be captured into a CUDA graph: run
/// [`warm_up`](Recurrence::warm_up) first, and one forward and one backward pass, since cuBLAS
/// loads its own kernels at their first use.
///
/// Calls from several threads are submitted one after another. Calls whose work may run at the same
/// time on the device need their own `workspace` and `saved`.
pub struct Recurrence {
    device: Device,
    spec: RecurrenceSpec,
    options: RecurrenceOptions,
    plan: Plan,
    shape: Shape,
    way: Way,
    /// The launches of the persistent way: chosen once, which takes longer than to submit a call.
    tilings: LaunchTilings,
    saved_bytes: usize,
    workspace_bytes: usize,
    /// Another cuBLAS handle than the device's.
    products: Option<Arc<Mutex<Gemm>>>,
    loaded: LoadOnce<Loaded>,
}

/// What [`Recurrence::warm_up`] prepares.
struct Loaded {
    gemm: Arc<Mutex<Gemm>>,
    /// With [`Way::Persistent`].
    net: Option<PersistentNet>,
}

impl fmt::Debug for Recurrence {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Recurrence { spec, options, shape, way, .. } = self;
        let [steps, rows] = [shape.steps, shape.rows];
        write!(f, "Recurrence({spec}, {options:?}, {steps} steps of {rows}, {way:?})")
    }
}

impl Recurrence {
    /// Bytes of which the addresses of `saved` and `workspace` have to be multiples.
    pub const ALIGNMENT: usize = arena::ALIGNMENT;

    /// Plans passes over `rows` sequences of up to `steps` steps, B and T: chooses the kernels and
    /// says how much memory they need, without compiling or allocating anything. The error says
    /// what there are no kernels for.
    pub fn plan(
        device: &Device,
        spec: RecurrenceSpec,
        [steps, rows]: [usize; 2],
        options: RecurrenceOptions,
    ) -> Result<Recurrence> {
        let RecurrenceSpec { cell, inputs, units, layers, bidirectional } = spec;
        let unsupported = |why: String| Error::Unsupported(format!("{why}: {spec}"));
        let sizes = [("steps", steps), ("sequences", rows), ("inputs", inputs), ("units", units)];
        for (name, size) in sizes.into_iter().chain([("layers", layers)]) {
            if size == 0 {
                return Err(unsupported(format!("0 {name}; at least 1 expected")));
            }
        }
        let builder = NetSpec::builder(cell).dense(inputs).units(vec![units; layers]);
        let builder = if bidirectional { builder.bidirectional() } else { builder };
        let net = builder.build().map_err(|error| unsupported(error.to_string()))?;
        let plan = Plan::new(&net).map_err(Error::Unsupported)?;
        let shape = Shape { steps, outputs: steps, rows, selected: None };
        let is_half = options.precision == Precision::F16;
        let tilings = match is_half {
            true => kernels_of_hopper::tilings_on(device, &plan, rows)?,
            false => None,
        };
        let way = if tilings.is_some() { Way::Persistent } else { Way::Plain };
        let tilings = tilings.unwrap_or_default();
        check_batch(&plan, shape, way)?;
        let device = device.clone();
        let (saved_bytes, workspace_bytes, products, loaded) = (0, 0, None, LoadOnce::new());
        let mut planned = Recurrence {
            device,
            spec,
            options,
            plan,
            shape,
            way,
            tilings,
            saved_bytes,
            workspace_bytes,
            products,
            loaded,
        };
        let [saved, forward] = planned.measure(Direction::Forward)?;
        (planned.saved_bytes, planned.workspace_bytes) = (saved, forward);
        if options.training {
            let [saved, backward] = planned.measure(Direction::Backward)?;
            assert_eq!(saved, planned.saved_bytes, "both passes see the same saved arrays");
            planned.workspace_bytes = forward.max(backward);
        }
        Ok(planned)
    }

    /// With a cuBLAS handle of the caller's, so that calls of several threads need not wait for one
    /// another while they are submitted.
    pub(crate) fn with_products(self, products: Arc<Mutex<Gemm>>) -> Recurrence {
        Recurrence { products: Some(products), loaded: LoadOnce::new(), ..self }
    }

    /// What it computes.
    pub fn spec(&self) -> RecurrenceSpec {
        self.spec
    }

    /// How it is computed.
    pub fn options(&self) -> RecurrenceOptions {
        self.options
    }

    /// Which kernels run the time steps.
    pub fn way(&self) -> Way {
        self.way
    }

    /// Bytes that a forward pass writes and its backward pass reads; 0 without training.
    pub fn saved_bytes(&self) -> usize {
        self.saved_bytes
    }

    /// Bytes of scratch memory of a call. 32 MiB of it are cuBLAS's workspace.
    pub fn workspace_bytes(&self) -> usize {
        self.workspace_bytes
    }

    /// Compiles all kernels, or takes them from the cache on disk, and loads them. Otherwise the
    /// first call does so, which must then not be captured.
    pub fn warm_up(&self) -> Result<()> {
        self.device.enter()?;
        self.device.kernels()?;
        self.device.recurrence_kernels()?;
        self.loaded().map(drop)
    }

    fn loaded(&self) -> Result<&Loaded> {
        let load = || {
            let Recurrence { device, plan, shape, options, .. } = self;
            let net = match self.way {
                Way::Plain => None,
                Way::Persistent => {
                    Some(PersistentNet::from_states(device, plan, shape.rows, options.training)?)
                }
            };
            let gemm = match &self.products {
                Some(own) => own.clone(),
                None => device.products(options.precision)?,
            };
            Ok(Loaded { gemm, net })
        };
        self.loaded.get_or_load(load)
    }

    /// Submits a forward pass to `stream`, a `cudaStream_t` or `CUstream` of this device's primary
    /// context; null is the default stream.
    ///
    /// # Safety
    /// The addresses among the arguments are device memory of the sizes that [`ForwardArguments`]
    /// says, valid until the stream has done the work.
    pub unsafe fn forward(&self, stream: *mut c_void, call: &ForwardArguments) -> Result<()> {
        self.check_forward(call)?;
        let kernels = self.enter()?;
        let own = Own::new(self, kernels, stream)?;
        let memory = self.memory(Direction::Forward, call.saved, call.workspace)?;
        let submitted = own.call(&memory, call.parameters, &[]);
        match (&own.loaded.net, self.way) {
            (Some(net), Way::Persistent) => submitted.persistent_forward(net, call),
            _ => submitted.plain_forward(call),
        }
    }

    /// Submits a backward pass, as [`forward`](Recurrence::forward).
    ///
    /// With [`Way::Persistent`], gradients in f16 are scaled by a power of two that the device
    /// derives from the largest gradient that is given, so gradients of any scale are as precise as
    /// f16 allows. Those that still grow beyond the range of f16, by more than 2^15 within the
    /// pass, are infinite and make what depends on them infinite or NaN, never wrong in silence.
    /// Gradients 2^24 times smaller than the largest may be zero.
    ///
    /// # Safety
    /// As [`forward`](Recurrence::forward), with [`BackwardArguments`]; `saved` is what the forward
    /// pass left.
    pub unsafe fn backward(&self, stream: *mut c_void, call: &BackwardArguments) -> Result<()> {
        self.check_backward(call)?;
        let kernels = self.enter()?;
        let own = Own::new(self, kernels, stream)?;
        let memory = self.memory(Direction::Backward, call.saved, call.workspace)?;
        let submitted = own.call(&memory, call.parameters, call.gradients);
        match (&own.loaded.net, self.way) {
            (Some(net), Way::Persistent) => submitted.persistent_backward(net, call),
            _ => submitted.plain_backward(call),
        }
    }

    /// Makes the device's context current and returns its kernels.
    fn enter(&self) -> Result<(&Kernels, &RecurrenceKernels)> {
        self.device.enter()?;
        Ok((self.device.kernels()?, self.device.recurrence_kernels()?))
    }
}

/// What belongs to a call while it is submitted.
struct Own<'a> {
    recurrence: &'a Recurrence,
    kernels: (&'a Kernels, &'a RecurrenceKernels),
    loaded: &'a Loaded,
    stream: Stream,
    /// Locked, so that one call at a time binds the handle to its stream and workspace.
    gemm: MutexGuard<'a, Gemm>,
}

impl<'a> Own<'a> {
    fn new(
        recurrence: &'a Recurrence,
        kernels: (&'a Kernels, &'a RecurrenceKernels),
        stream: *mut c_void,
    ) -> Result<Own<'a>> {
        let loaded = recurrence.loaded()?;
        let stream = Stream::borrowed(&recurrence.device, stream.cast());
        let gemm = loaded.gemm.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        Ok(Own { recurrence, kernels, loaded, stream, gemm })
    }

    fn call<'c>(
        &'c self,
        memory: &'c memory::Memory,
        parameters: &[LayerArrays],
        gradients: &[LayerArrays],
    ) -> Call<'c> {
        let plan = &self.recurrence.plan;
        Call {
            recurrence: self.recurrence,
            kernels: self.kernels.0,
            own: self.kernels.1,
            stream: &self.stream,
            gemm: &self.gemm,
            memory,
            params: call::tensors(plan, parameters, memory.zeros.at(0)),
            gradient: call::tensors(plan, gradients, memory.dropped.at(0)),
        }
    }
}

/// Fails if an index into a caller's array does not fit the kernels' 32 bits, or the number of
/// (step, row) pairs not cuBLAS's 31. Persistent kernels have 64-bit indices, but not the conversions
/// from and to their padded rows.
fn check_batch(plan: &Plan, shape: Shape, way: Way) -> Result<()> {
    let Shape { steps, rows, .. } = shape;
    let (indexed_steps, width) = match way {
        // First states stand before and after the steps.
        Way::Plain => (steps.saturating_add(2), plan.widest()),
        Way::Persistent => {
            let padded = kernels_of_hopper::Padded::layers(plan).into_iter();
            (steps, padded.map(|layer| layer.width.max(layer.inputs)).max().unwrap_or(0))
        }
    };
    let width = width.max(2); // 31 bits of pairs are 32 bits of two values each
    let values = indexed_steps.saturating_mul(rows).saturating_mul(width);
    check_indices([steps, rows], values)
}
