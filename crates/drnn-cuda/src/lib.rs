//! Training of delayed recurrent networks on NVIDIA GPUs.
//!
//! ```no_run
//! use drnn::{Cell, NetSpec, Padding};
//! use drnn_cuda::{CudaLearner, Device, Precision};
//! use drnn_train::AdamOptions;
//!
//! let device = Device::find()?; // the error says what is missing
//! let spec = NetSpec::builder(Cell::Lstm).dense(1).units([100]).delay(5, Padding::Null).outputs(1).build()?;
//! let learner = CudaLearner::new(&device, Precision::F32, &spec, AdamOptions::default(), 1)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Nothing of CUDA is needed to build this crate. At run time it needs NVIDIA's driver, NVRTC and cuBLAS of CUDA 12 or 13,
//! and a card of compute capability 8.0 or newer.
//!
//! | folder | what |
//! |---|---|
//! | `runtime/` | CUDA's libraries and a device; compilation of kernels; memory, streams, graphs, matrix products; `driver` |
//! | `kernels/` | CUDA C++, by family, and the loaded kernels by name |
//! | `step/` | what every training step has: shapes, staged batches, memory, selected outputs, parameters and optimiser |
//! | `plain/` | recurrences on any card, step by step; small LSTMs: all steps in one launch |
//! | `persistent/` | recurrences on Hopper: all steps in one launch on many multiprocessors, layers of a stack at once |
//! | `learner` | [`CudaLearner`]: a [`drnn_train::Engine`] |
//! | `group/` | [`CudaGroup`]: many small LSTMs at once, each a [`drnn_train::Engine`]; the paper's data made on the card |
//! | `estimate` | what a training takes of a card's memory, before it does |
//! | `recorded/` | tests: everything that is launched, checked without a GPU |
//!
//! The same seed gives the same bits on the same card: every sum has a fixed order, nothing is added by whoever comes
//! first. Against the CPU's numbers it is f32 rounding; [`drnn_train::conformance`] is kept at 2e-4.

#![deny(missing_docs)]

mod error;
mod estimate;
mod group;
mod kernels;
mod learner;
mod persistent;
mod plain;
#[cfg(test)]
mod recorded;
mod runtime;
mod step;

pub use error::{Error, Result};
pub use estimate::estimate;
pub use group::{CudaGroup, CudaLane};
pub use learner::CudaLearner;
pub use runtime::device::Device;
pub use runtime::gemm::Precision;
pub use step::pass::Until;
