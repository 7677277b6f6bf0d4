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
//! use drnn::{Batch, Cell, Model, NetSpec, Padding, Stream};
//!
//! let spec = NetSpec::builder(Cell::Lstm).dense(1).units([32]).outputs(1);
//! let spec = spec.delay(3, Padding::Null).build()?;
//! println!("{spec}"); // dlstm(32 units, delay 3): answers 3 steps late; ..
//! let model = Model::init(&spec, 1);
//!
//! // Whole sequences: answers are aligned with the input.
//! let x = [0.5, 0.1, -0.3, 0.8, 0.2];
//! let whole = model.run(&Batch::dense(&x, 5, 1), None)?;
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
//! | file | what |
//! |---|---|
//! | `model`, `tape`, `stream`, `stream_batch` | what users call: checks, then one of the passes below |
//! | `pass`, `backward` (`back_work`), `step` | a whole network forward, backward, or by one step |
//! | `recur`, `recur_back` | one direction of one layer through time, and back |
//! | `layer_gradient`, `outer` | gradients of weights, one product over all steps |
//! | `schedule` | sequences of different lengths as dense blocks of rows |
//! | `wavefront` | the layers of a stack side by side; blocks that begin one after another |
//! | `wiring`, `weights`, `table` | what feeds which gates; parameters packed for the kernels; token input made into rows |
//! | `net` | what every phase needs to know |
//! | `kernel` | arithmetic on plain memory, per instruction set |
//! | `team`, `buffer`, `denormals` | threads and memory |
//! | `blocks`, `mask`, `block_map` | units in blocks, what is zero between them, how strong the rest is |
//! | `flatten`, `unflatten`, `solve`, `trace` | a stack as one layer and back; its start by Lemma 1; how far two networks lie apart |
//! | `depth`, `depth_graph`, `depth_check` | the unrolled network as a graph, and the equations that confirm it |
//! | `file`, `bundle`, `file_import` | model files, our own, those of several networks, and PyTorch's |
//! | `file_read`, `file_limits` | files read within limits, and those limits |
//! | `onnx` | a network as a graph of standard operators |
//! | `file_tensors` | tensors by name, from safetensors or from `torch.save` |
//! | `pt`, `pickle` (`pickle_machine`, `pickle_class`), `zip` | what `torch.save` writes, read without executing it |
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

mod back_work;
mod backward;
mod batch;
mod block_map;
mod blocks;
mod buffer;
mod bundle;
mod cpu;
mod denormals;
pub mod depth;
mod depth_check;
mod depth_graph;
mod error;
mod file;
mod file_import;
mod file_limits;
mod file_read;
mod file_tensors;
pub mod flatten;
mod gradient;
mod kernel;
mod layer_gradient;
mod mask;
pub mod memory;
mod model;
mod net;
pub mod onnx;
mod outer;
pub mod params;
mod pass;
mod peak;
mod pickle;
mod pickle_class;
mod pickle_machine;
mod pt;
mod recur;
mod recur_back;
#[doc(hidden)]
pub mod reference;
pub mod rng;
mod schedule;
mod snapshot;
pub mod solve;
mod spec;
mod step;
mod stream;
mod stream_batch;
mod table;
mod tape;
mod team;
mod trace;
mod unflatten;
mod wavefront;
mod weights;
mod wiring;
mod zip;

pub use batch::{Batch, Elements, States};
pub use block_map::BlockMap;
pub use blocks::{Blocks, Connections, StartState};
pub use bundle::{Bundle, Table as BundleTable};
pub use cpu::Cpu;
pub use error::{Error, Result, Shape};
pub use file::{Precision, sync_folder, write_atomically};
pub use file_import::Import;
pub use file_limits::{MAX_STREAM, shortened};
pub use file_read::{open_file, read_file, read_model_file};
pub use gradient::Gradient;
pub use model::{Answers, Model, ModelRef};
pub use pass::Lane;
pub use peak::Peak;
pub use solve::solve_start;
pub use spec::{Builder, Cell, Direction, InputSpec, NetSpec, Padding, grouped};
pub use step::Element;
pub use stream::Stream;
pub use stream_batch::{StreamBatch, StreamId};
pub use tape::{Memory, Pass, Tape};
pub use trace::{Difference, Trace, compare};
pub use wavefront::Plan;

/// The README's example, compiled and run with the other examples.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
