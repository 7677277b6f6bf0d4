//! Live sequences of any model that streams: an element in, the answer to the one d before it out. And whole ones.
//!
//! ```text
//! text -> Element -> [scale, look up, encode] -> network, one step -> [name, unscale] -> Answer
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
//! let answer = stream.push(&model.line("0.25 0")?)?.unwrap();
//! assert_eq!(answer.position, 0); // one late
//! assert_eq!(stream.flush()?.len(), 1); // the last; then it begins anew
//! # Ok::<(), drnn_tasks::Error>(())
//! ```
//!
//! | file | what |
//! |---|---|
//! | `model` | a model file, whatever its task |
//! | `facts` | what it is, for machines |
//! | `element` | what goes in; from a line or from JSON |
//! | `answer`, `length` | what comes out; as JSON, and how long that can be |
//! | `reader` | elements as the network reads them |
//! | `sequence` | which answer belongs to which element |
//! | `stream` | one live sequence |
//! | `batch` | many, stepped together |
//! | `whole` | whole sequences, side by side |
//!
//! Answers are those of the whole sequence at once, to the bit, alone or in a batch. What is refused changes
//! nothing.

mod answer;
mod batch;
mod element;
mod facts;
mod length;
mod model;
mod reader;
mod sequence;
mod stream;
mod whole;

pub use answer::{Alternative, Answer, Value, ranked};
pub use batch::{LiveBatch, LiveId};
pub use element::Element;
pub use facts::{AnswerFacts, Facts, ReadsFacts};
pub use model::{LiveModel, Reads};
pub use stream::LiveStream;
pub use whole::{LiveRun, Whole};
