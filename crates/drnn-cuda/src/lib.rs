//! Training of [delayed recurrent networks](drnn) on NVIDIA GPUs.
//!
//! [`CudaLearner`] trains one network and is a [`drnn_train::Engine`], so [`drnn_train::Trainer`]
//! runs it like the CPU engine. [`CudaGroup`] trains many small LSTMs at the same time, one
//! [`CudaLane`] each. [`CudaTagger`] trains a network over characters and one over words together.
//!
//! ```no_run
//! use drnn::{Cell, NetSpec, Padding};
//! use drnn_cuda::{CudaLearner, Device, Precision};
//! use drnn_train::AdamOptions;
//!
//! let device = Device::find()?; // the error says what is missing
//! let spec = NetSpec::builder(Cell::Lstm)
//!     .dense(1)
//!     .units([100])
//!     .delay(5, Padding::Null)
//!     .outputs(1)
//!     .build()?;
//! let learner = CudaLearner::new(&device, Precision::F32, &spec, AdamOptions::default(), 1)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # As a library
//!
//! [`Recurrence`] runs forward and backward passes of recurrent layers on memory and streams of a
//! caller, such as PyTorch: device addresses in, nothing allocated, nothing waited for.
//!
//! ```no_run
//! use drnn::Cell;
//! use drnn_cuda::{
//!     Device, Format, ForwardArguments, LayerArrays, Lengths, Precision, Recurrence,
//!     RecurrenceOptions, RecurrenceSpec,
//! };
//! # let allocate = |bytes: usize| -> u64 { 0 };
//! # let (x, y, lengths, stream) = (0, 0, 0, std::ptr::null_mut());
//! # let parameters = [LayerArrays::default(); 4];
//!
//! let device = Device::find()?;
//! let spec =
//!     RecurrenceSpec { cell: Cell::Lstm, inputs: 64, units: 512, layers: 2, bidirectional: true };
//! let options =
//!     RecurrenceOptions { format: Format::Bf16, precision: Precision::F16, training: true };
//! let (steps, rows) = (180, 128);
//! let planned = Recurrence::plan(&device, spec, [steps, rows], options)?;
//! planned.warm_up()?; // compiles and loads
//! let call = ForwardArguments {
//!     x,                       // (T, B, q) bf16
//!     parameters: &parameters, // f32, layer by layer and direction by direction
//!     lengths: Lengths::I64(lengths),
//!     y, // (T, B, 2 n) bf16
//!     saved: allocate(planned.saved_bytes()),
//!     workspace: allocate(planned.workspace_bytes()),
//!     ..ForwardArguments::default() // first states are zeros, last states are not wanted
//! };
//! // SAFETY: the arrays have the sizes that `ForwardArguments` says.
//! unsafe { planned.forward(stream, &call)? };
//! # Ok::<(), drnn_cuda::Error>(())
//! ```
//!
//! # Requirements
//!
//! CUDA is not needed to build this crate. At run time it needs NVIDIA's driver, NVRTC and cuBLAS
//! of CUDA 12 or 13, and a GPU of compute capability 8.0 (Ampere) or newer. Libraries outside the
//! loader's path are found in the folder that `DRNN_CUDA_LIB` names, or in those given to
//! [`add_library_folders`]. Kernels are compiled for the
//! GPU on first use and cached in `~/.cache/drnn/cuda`.
//!
//! # Numbers
//!
//! The same seed gives the same bits on the same GPU: every sum has a fixed order. Compared with
//! the CPU, the engine conformance tests hold at 2e-4 with [`Precision::F32`] and at 2e-2 with
//! factors rounded to TF32 or f16.
//!
//! # Source files
//!
//! | folder | what |
//! |---|---|
//! | `runtime/` | CUDA libraries, device, compilation, memory, streams and graphs, GEMM |
//! | `kernels/` | CUDA C++ by family (elementwise, persistent, ...), and parameter structs |
//! | `step/` | shapes, staged batches, workspace, selected outputs, parameters and optimiser |
//! | `plain/` | recurrences on every GPU, step by step; small LSTMs in one launch |
//! | `persistent/` | recurrences on Hopper in one launch on many multiprocessors |
//! | `learner/` | [`CudaLearner`] |
//! | `inference/` | [`CudaModel`]: trained networks on whole sequences |
//! | `recurrence/` | [`Recurrence`]: calls on a caller's memory and stream |
//! | `tagger/` | [`CudaTagger`]: two recurrences, and what lies between them |
//! | `group/` | [`CudaGroup`]: kernels, data sets on the device, the rendezvous of lanes |
//! | `estimate.rs` | device memory that training needs, without a GPU |
//! | `recorded/` | tests: everything that is launched, checked without a GPU |
//!
//! `docs/GPU.md` in the repository explains how the kernels work.

#![deny(missing_docs)]

mod error;
mod estimate;
mod group;
mod inference;
mod kernels;
mod learner;
mod persistent;
mod plain;
#[cfg(test)]
mod recorded;
mod recurrence;
mod runtime;
mod step;
mod tagger;

pub use error::{Error, Result, Status};
pub use estimate::estimate;
pub use group::{CudaGroup, CudaLane};
pub use inference::CudaModel;
pub use learner::CudaLearner;
pub use recurrence::{
    BackwardArguments, Format, ForwardArguments, LayerArrays, Lengths, Recurrence,
    RecurrenceOptions, RecurrenceSpec, Way,
};
pub use runtime::device::Device;
pub use runtime::gemm::Precision;
pub use runtime::library::add_library_folders;
pub use step::cpu_only::check_options;
pub use step::pass::Until;
pub use tagger::CudaTagger;
