//! `drnn serve`: models behind HTTP and WebSocket.
//!
//! ```text
//! POST /v1/run     -> request -> runner   whole sequences of all who wait, one batch
//! GET  /v1/stream  -> message -> stepper  an element of every live stream, one step
//! ```
//!
//! | file | what |
//! |---|---|
//! | `options` | what can be chosen, and how much of everything there may be |
//! | `models` | the models that are served, by name |
//! | `routes` | which path is answered by what |
//! | `guard` | who may: token, origin, host |
//! | `client`, `connections` | whose a connection is; which are closed for the sake of others |
//! | `transport`, `body` | a connection's bytes; what is left of a body that nobody wants |
//! | `budget`, `cost`, `memory` | bytes that are held for clients; how many something takes; how many in all |
//! | `refusal` | every error, as JSON |
//! | `request`, `numbers`, `run` | whole sequences: the body of a request, its elements; its answer |
//! | `runner` | threads that run them side by side |
//! | `message`, `socket` | live ones: a message of a client; a connection |
//! | `stepper`, `frames` | a model's live sequences, for those who have one; frames on their way to them |
//! | `steps`, `said` | the thread that steps them together; what each has said |
//! | `seats` | how many streams there are, and whose |
//! | `metrics` | what is counted |
//! | `openapi`, `page` | the API for machines; the page for people |
//! | `listen` | connections in, an orderly end |
//!
//! One bad client never hurts another: everything that a client can make grow has a limit, what is refused changes
//! nothing, and a panic ends no more than what it happened in.

#![deny(missing_docs)]
#![forbid(unsafe_code)]

mod body;
mod budget;
mod client;
mod connections;
mod cost;
#[cfg(test)]
mod fault;
mod frames;
mod guard;
mod listen;
mod memory;
pub mod message;
mod metrics;
mod models;
mod numbers;
mod openapi;
mod options;
mod page;
mod refusal;
pub mod request;
mod routes;
mod run;
mod runner;
mod said;
mod seats;
mod socket;
mod stepper;
mod steps;
mod transport;

pub use guard::Token;
pub use listen::{Server, Stopping};
pub use memory::StreamSize;
pub use models::Models;
pub use options::{Limits, Options};
pub use refusal::Refusal;
