//! Delayed recurrent networks: single-layer or stacked RNN, LSTM and GRU whose answer to input t is
//! read d steps later (Turek et al., ICML 2020).
//!
//! ```text
//! h_t = cell(x_t, h_{t-1})        y_t = W h_{t+d} + b
//! ```
//!
//! The delay buys depth in time and a look at the d elements that follow, and the network still
//! streams: memory is one state, latency is d steps. With d = 0 all of this is an ordinary recurrent
//! network, forward or bidirectional, with PyTorch's equations, tensor names and layouts.
//!
//! ```
//! use drnn::{Batch, Cell, Model, NetSpec, Padding, Rows, Steps, Stream};
//!
//! let spec = NetSpec::builder(Cell::Lstm).dense(1).units([32]).outputs(1);
//! let spec = spec.delay(3, Padding::Null).build()?;
//! println!("{spec}"); // dlstm(32 units, delay 3): answers 3 steps late; ..
//! let model = Model::init(&spec, 1)?;
//!
//! // Whole sequences: answers are aligned with the input.
//! let x = [0.5, 0.1, -0.3, 0.8, 0.2];
//! let whole = model.run(&Batch::dense(&x, Steps(5), Rows(1)), None)?;
//!
//! // The same, live: answers come three elements late.
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
//! # The map
//!
//! | what you want | where | |
//! |---|---|---|
//! | describe a network | [`NetSpec`] | checked when built; [`params::Layout`] names its tensors |
//! | run it | [`Model`] | batches of sequences of any lengths, states in and out; all answers, or [those asked for](Batch::asking) |
//! | run it live | [`Stream`], [`StreamBatch`] | snapshots; the same bits as a run |
//! | keep it | [`Model::save`], [`Model::load`], [`Model::import`] | safetensors with PyTorch's names; `.pt` state dicts |
//! | keep several together | [`Bundle`] | networks and tables in one file |
//! | run it elsewhere | [`Model::to_onnx`] | [`onnx`] says what goes in and comes out |
//! | convert it | [`Model::flatten`], [`Model::unflatten`] | a stack as one delayed layer, exactly, and back; [`Blocks`] |
//! | look inside | [`Model::trace`], [`compare`], [`BlockMap`] | all states; two networks; how strong connections are |
//! | train it | [`Tape`] | forward, then backward to one flat gradient; several models as [`Lane`]s |
//! | know its depth in time | [`depth`] | non-linearities between an input and an answer |
//! | choose threads | [`Cpu`] | results never depend on them |
//! | know what memory it takes | [`memory`] | a model, a stream, a run, a training pass: before anything is allocated |
//!
//! Inside, from the outside in:
//!
//! | folder | what |
//! |---|---|
//! | `spec` | what a network is, its tensors, units in blocks and what is zero between them |
//! | `model` | a network with its parameters, batches of sequences, the memory a pass takes |
//! | `exec` | a whole network forward: `schedule` (lengths, delay), `recur` (one layer through time), `wavefront` |
//! | `backward` | `Tape`, and gradients: `recur` (one layer back through time), `layer_gradient` |
//! | `stream` | live: one stream or many, step by step, and their snapshots |
//! | `kernel` | arithmetic on plain memory, per instruction set: products and cells |
//! | `cpu` | threads, memory, denormals |
//! | `flatten` | a stack as one layer and back; its start by Lemma 1; how far two networks lie apart |
//! | `depth` | the unrolled network as a graph, and the equations that confirm it |
//! | `io` | model files, ours and PyTorch's (`io/torch`), within limits |
//! | `onnx` | a network as a graph of standard operators |
//! | `reference` | the oracle in f64 that tests compare with |
//!
//! # Unsafe code
//!
//! Kernels work on raw pointers, because threads share buffers row by row, and on vector intrinsics.
//! Shapes are checked before a pass begins (`check` in `batch`, `pass`, `gradient`, `step`); from
//! there on sizes follow from the spec and the schedule. Each block says why it holds. While a pass
//! runs, its threads flush denormal numbers to zero by the processor's control register, which is put
//! back afterwards; nothing but kernels runs meanwhile.

#![deny(missing_docs)]
#![warn(clippy::undocumented_unsafe_blocks)]

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
#[doc(hidden)]
pub mod reference;
mod spec;
mod stream;

pub use backward::gradient::Gradient;
pub use backward::tape::{Memory, Pass, Tape};
#[doc(hidden)]
pub use cpu::peak;
pub use cpu::{Cpu, InstructionSet};
pub use error::{Error, FileError, Result, Shape, text};
pub use exec::pass::Lane;
pub use exec::wavefront::Plan;
#[cfg(feature = "flatten")]
pub use flatten::block_map::BlockMap;
#[cfg(feature = "flatten")]
pub use flatten::solve::{self, solve_start};
#[cfg(feature = "flatten")]
pub use flatten::trace::{Difference, Trace, compare};
pub use io::{Bundle, BundleTable, Import, Precision};
pub use model::batch::{Batch, BatchFirst, Elements, Rows, States, Steps};
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
