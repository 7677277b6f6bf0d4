//! Delayed recurrent networks: RNN, LSTM and GRU, single-layer or stacked, whose output for element t
//! is read d steps later (Turek et al., ICML 2020).
//!
//! ```text
//! h_t = cell(x_t, h_{t-1})        y_t = W h_{t+d} + b
//! ```
//!
//! The delay gives depth in time and a view of the d elements that follow, and the network still
//! streams: its memory is one state, its latency d steps. With d = 0 it is an ordinary recurrent
//! network, forward or bidirectional, with PyTorch's equations, tensor names and layouts.
//!
//! ```
//! use drnn::{Batch, Cell, Model, NetSpec, Padding, Rows, Steps, Stream};
//!
//! let spec = NetSpec::builder(Cell::Lstm).dense(1).units([32]).outputs(1);
//! let spec = spec.delay(3, Padding::Null).build()?;
//! println!("{spec}"); // dlstm(32 units, delay 3): outputs 3 steps late; ..
//! let model = Model::init(&spec, 1)?;
//!
//! // Whole sequences: outputs are aligned with the input.
//! let x = [0.5, 0.1, -0.3, 0.8, 0.2];
//! let whole = model.run(&Batch::dense(&x, Steps(5), Rows(1)), None)?;
//!
//! // The same, live: each output comes three elements late, with the same bits.
//! let mut stream = Stream::new(&model)?;
//! let mut live = Vec::new();
//! for x in &x {
//!     live.extend(stream.push(std::slice::from_ref(x))?.map(|y| y[0]));
//! }
//! live.extend(stream.finish().concat());
//! assert_eq!(live, whole.values);
//! # Ok::<(), drnn::Error>(())
//! ```
//!
//! # What you want, and where it is
//!
//! | to | use | |
//! |---|---|---|
//! | describe a network | [`NetSpec`] | checked when built; [`params::Layout`] names its tensors |
//! | run it | [`Model`], [`Batch`] | sequences of any lengths, states in and out; all outputs, or [some](Batch::select_outputs) |
//! | run it live | [`Stream`], [`StreamBatch`] | with snapshots; the same bits as a run |
//! | save and load it | [`Model::save`], [`Model::load`] | safetensors with PyTorch's names |
//! | load a PyTorch model | [`Model::import`], [`Imported`] | state dicts as `.safetensors` or `.pt`, or ONNX graphs; what was recognised in them |
//! | make it smaller | [`Model::quantize`], [`WeightFormat`] | weights of 16 bits or int8 |
//! | save several together | [`Bundle`] | networks and tables in one file |
//! | run it elsewhere | `Model::to_onnx` | the module `onnx` describes inputs and outputs |
//! | convert it | `Model::flatten`, `Model::unflatten` | a stack as one delayed layer, exactly, and back; [`Blocks`] |
//! | look inside | `Model::trace`, `compare`, `BlockMap` | all states; two networks; how strong connections are |
//! | train it | [`Tape`] | forward, then backward to one flat gradient; several models as [`Lane`]s |
//! | know its depth in time | module `depth` | non-linearities between an input and an output |
//! | choose threads and instructions | [`Cpu`], [`InstructionSet`] | the number of threads changes no bit |
//! | know what memory it takes | [`memory`] | a model, a stream, a run, a training pass, before anything is allocated |
//!
//! # Features
//!
//! | feature | adds | |
//! |---|---|---|
//! | `flatten` | modules `flatten`, `depth`, `solve`; `compare`, `BlockMap` | on by default |
//! | `onnx` | module `onnx`; ONNX graphs in [`Model::import`] | on by default |
//! | `torch-files` | `.pt` files in [`Model::import`] | on by default |
//! | `std` | threads, files, environment variables; the others need it | on by default |
//!
//! Without `std` the crate is `no_std` with `alloc`: models from bytes and to bytes, runs, streams,
//! snapshots and training passes, on the caller's thread, with the instruction set that is enabled
//! at compile time.
//!
//! # Unsafe code
//!
//! Kernels work on raw pointers, because threads share buffers row by row, and on vector intrinsics.
//! Shapes are checked before a pass begins; from there on sizes follow from the spec and the schedule.
//! Every `unsafe` block states why it is sound. While a pass runs, its threads flush denormal numbers
//! to zero through the processor's control register, which is restored afterwards; nothing but kernels
//! runs meanwhile.

#![cfg_attr(not(any(test, feature = "std")), no_std)]
#![deny(missing_docs)]
#![warn(clippy::undocumented_unsafe_blocks)]

#[cfg_attr(not(feature = "std"), macro_use)]
extern crate alloc;

/// Names of alloc that std's prelude has and core's has not: for files that compile without std.
mod prelude {
    pub use alloc::boxed::Box;
    pub use alloc::string::{String, ToString};
    pub use alloc::vec::Vec;
}

mod backward;
mod cpu;
#[cfg(feature = "flatten")]
pub mod depth;
mod error;
mod exec;
#[cfg(feature = "flatten")]
pub mod flatten;
pub mod io;
mod kernel;
mod model;
#[cfg(feature = "onnx")]
pub mod onnx;
pub mod random;
#[cfg(feature = "std")]
#[doc(hidden)]
pub mod reference;
mod spec;
mod stream;

pub use backward::gradient::Gradient;
pub use backward::tape::{Memory, Pass, Tape};
#[cfg(feature = "std")]
#[doc(hidden)]
pub use cpu::peak;
pub use cpu::{Cpu, InstructionSet};
pub use error::{Error, FileError, Result, Shape, text};
pub use exec::dropout::Dropout;
pub use exec::params::Params;
pub use exec::pass::Lane;
pub use exec::wavefront::Plan;
#[cfg(feature = "flatten")]
pub use flatten::block_map::BlockMap;
#[cfg(feature = "flatten")]
pub use flatten::solve::{self, solve_start};
#[cfg(feature = "flatten")]
pub use flatten::trace::{Difference, Trace, compare};
pub use io::{Bundle, BundleTable, Import, Imported, Part, Precision};
pub use model::batch::{Batch, BatchFirst, Elements, Rows, States, Steps};
pub use model::weight_format::WeightFormat;
pub use model::{Model, ModelRef, Outputs, memory};
pub use spec::blocks::{Blocks, Connections, StartState};
pub use spec::{Cell, Direction, InputSpec, NetSpec, NetSpecBuilder, Padding, params};
pub use stream::Stream;
pub use stream::batch::{StreamBatch, StreamId};
pub use stream::step::Element;

/// The README's example, compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
