//! `drnn serve`: models behind HTTP and WebSocket.
//!
//! ```text
//! POST /v1/run     -> request -> runner   whole sequences of all who wait, one batch
//! GET  /v1/stream  -> message -> stepper  an element of every live stream, one step
//! ```
//!
//! | folder | what |
//! |---|---|
//! | `http` | connections, transport, routes, token and origin checks, errors as JSON, the OpenAPI document, start and stop |
//! | `stream` | live sequences: the WebSocket (`socket`), its messages, the thread that steps all streams of a model together (`steps`) |
//! | `run` | whole sequences: the request body and the threads that run batches of them |
//! | `limits` | options, bytes held for clients, stream counts, worst-case memory |
//! | `page` | the page for people |
//! | `models`, `metrics` | the models that are served, by name; what is counted |
//!
//! One bad client never hurts another: everything that a client can make grow has a limit, what is refused changes
//! nothing, and a panic ends no more than what it happened in.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

#[cfg(test)]
mod fault;
mod http;
mod limits;
mod metrics;
mod models;
mod page;
mod run;
mod stream;

pub use http::api_error::Refusal;
pub use http::guard::Token;
pub use http::server::{Server, Stopping};
pub use limits::memory::StreamSize;
pub use limits::options::{Limits, Options};
pub use models::Models;
pub use run::request;
pub use stream::message;
