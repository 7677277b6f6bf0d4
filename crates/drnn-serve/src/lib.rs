//! An HTTP and WebSocket server for delayed recurrent networks.
//!
//! It serves whole sequences (`POST /v1/run`) and live ones (`GET /v1/stream`, a WebSocket), batches
//! them across clients without changing any result, and bounds the memory that clients can make it
//! use. `docs/SERVING.md` describes the API; the server itself describes it at `/openapi.json`.
//!
//! ```
//! use drnn::{Cell, Cpu, Model, NetSpec, Padding};
//! use drnn_serve::{Models, Options, Server};
//! use drnn_tasks::live::LiveModel;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let spec = NetSpec::builder(Cell::Gru).dense(2).units([8]).delay(1, Padding::Null).build()?;
//! let model = LiveModel::new("sensor", Model::init(&spec, 1)?)?; // or LiveModel::load(path)?
//! let mut models = Models::new();
//! models.add(model.on(&Cpu::from_env()?.with_threads(1)))?;
//!
//! let mut options = Options::default();
//! options.listen = ([127, 0, 0, 1], 0).into(); // any free port
//!
//! let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
//! let finished = runtime.block_on(async {
//!     let server = Server::bind(options, models).await?;
//!     println!("http://{}/v1/models", server.address()?);
//!     let handle = server.stop_handle(); // for a signal handler, or another task
//!     handle.stop();
//!     Ok::<bool, std::io::Error>(server.serve().await) // returns once it is stopped
//! })?;
//! assert!(finished, "everything accepted was finished within Options::drain");
//! # Ok(())
//! # }
//! ```
//!
//! # Inside
//!
//! ```text
//! POST /v1/run     -> run::request    -> run::runner     sequences of waiting requests, one batch
//! GET  /v1/stream  -> stream::socket  -> stream::steps   an element of every live stream, one step
//! ```
//!
//! | folder | contents |
//! |---|---|
//! | `http` | `server` (start and stop), connections and their transport, routes, token and origin checks, errors as JSON, the OpenAPI document |
//! | `stream` | live sequences: the WebSocket (`socket`), its messages, and the thread that steps all streams of a model together (`steps`) |
//! | `run` | whole sequences: the request body, and the threads that run batches |
//! | `limits` | options, memory budgets, the number of streams, worst-case memory |
//! | `page` | the web page at `/` |
//! | `models`, `metrics` | the served models by name; metrics for Prometheus |
//!
//! One client cannot harm another: all resources that clients control are bounded, a refused request
//! changes nothing, and a panic ends only the request or the step that it happened in.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod error;
#[cfg(test)]
mod fault;
mod http;
mod limits;
mod metrics;
mod models;
mod page;
mod run;
mod stream;

pub use error::ConfigError;
pub use http::api_error::ApiError;
pub use http::guard::Token;
pub use http::server::{Server, StopHandle};
pub use limits::memory::StreamSize;
pub use limits::options::{Limits, Options};
pub use models::Models;
pub use page::page_files;
pub use run::request;
pub use stream::message;
