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
//! | file | what |
//! |---|---|
//! | `library`, `device` | CUDA's libraries, looked for; a card |
//! | `compile`, `kernels`, `kernels/*.cu` | kernels, compiled for the card at hand and kept on disk |
//! | `memory`, `stream`, `product` | buffers; queues, graphs, launches; products by cuBLAS |
//! | `driver` | CUDA's functions, or a recorder's where there is no GPU: for tests |
//! | `plan`, `stage` | shapes and offsets; batches as the GPU reads them |
//! | `work`, `pass`, `asked`, `state` | memory for a pass; what every pass has; some answers only; parameters and optimiser |
//! | `estimate` | what a training takes of a card's memory, before it does |
//! | `plain/` | recurrences on any card, step by step; small LSTMs: all steps in one launch |
//! | `persistent/` | recurrences on Hopper: all steps in one launch on many multiprocessors, layers of a stack at once |
//! | `learner` | [`CudaLearner`]: a [`drnn_train::Engine`] |
//! | `group` | [`CudaGroup`]: many small LSTMs at once, each a [`drnn_train::Engine`]; the paper's data made on the card |
//! | `recorded` | tests: what all of them ask of a card, without one |
//!
//! The same seed gives the same bits on the same card: every sum has a fixed order, nothing is added by whoever comes
//! first. Against the CPU's numbers it is f32 rounding; [`drnn_train::contract`] is kept at 2e-4.

#![deny(missing_docs)]

mod asked;
mod compile;
mod device;
mod driver;
mod error;
mod estimate;
mod group;
mod kernels;
mod learner;
mod library;
mod memory;
mod pass;
mod persistent;
mod plain;
mod plan;
mod product;
#[cfg(test)]
mod recorded;
mod stage;
mod state;
mod stream;
mod work;

pub use device::Device;
pub use error::{Error, Result};
pub use estimate::estimate;
pub use group::{CudaGroup, CudaLane};
pub use learner::CudaLearner;
pub use pass::Until;
pub use product::Precision;
