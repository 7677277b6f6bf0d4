//! Inference with any model file: live sequences, where each element may yield the prediction for the
//! element d before it, and whole sequences.
//!
//! ```text
//! text -> Element -> [scale, look up, encode] -> network, one step -> [name, unscale] -> Prediction
//! ```
//!
//! ```
//! use drnn::{Cell, Model, NetSpec, Padding};
//! use drnn_tasks::live::{LiveModel, LiveStream};
//!
//! let spec = NetSpec::builder(Cell::Gru).dense(2).units([8]).delay(1, Padding::Null).build()?;
//! let model = LiveModel::new("small", Model::init(&spec, 1)?)?; // or LiveModel::load(path)
//! let mut stream = LiveStream::new(&model)?;
//! assert!(stream.push(&model.line("0.5 1")?)?.is_none());
//! let prediction = stream.push(&model.line("0.25 0")?)?.unwrap();
//! assert_eq!(prediction.position, 0); // one element late
//! println!("{}", prediction.json());
//! assert_eq!(stream.flush()?.len(), 1); // the last one; then a new sequence begins
//! # Ok::<(), drnn_tasks::Error>(())
//! ```
//!
//! | you want | type |
//! |---|---|
//! | to load a model of any task | [`LiveModel`] |
//! | one live sequence | [`LiveStream`] |
//! | many live sequences, stepped together | [`LiveBatch`] |
//! | whole sequences, in batches | [`LiveModel::run`], [`LiveRun`] |
//! | elements from text or JSON | [`LiveModel::line`], [`LiveModel::json`], [`LiveModel::element`] |
//! | a model's description for programs | [`LiveModel::info`] |
//!
//! Predictions are the same to the bit for a stream, a batch and a whole sequence. A refused element
//! changes nothing.

mod batch;
mod bounds;
mod element;
mod info;
mod model;
mod prediction;
mod reader;
mod sequence;
mod snapshot;
mod stream;
mod whole;

pub use batch::{LiveBatch, LiveId};
pub use element::Element;
pub use info::{InputInfo, ModelInfo, OutputInfo};
pub use model::{ElementKind, LiveModel};
pub use prediction::{Alternative, Predicted, Prediction, ranked};
pub use stream::LiveStream;
pub use whole::{LiveRun, PreparedSequence};
