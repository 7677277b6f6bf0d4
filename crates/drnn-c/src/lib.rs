//! The C interface of drnn. Its users read `include/drnn.h`, which cbindgen makes from these sources,
//! and [README.md](https://docs.rs/crate/drnn-c/latest/source/README.md). From Rust, use crate `drnn`.
//!
//! | file | what C calls |
//! |---|---|
//! | [`status`] | codes and messages of errors, the version |
//! | [`model`] | models: load, describe, free |
//! | [`run`] | whole sequences |
//! | [`stream`] | one live sequence |
//! | [`batch`] | many live sequences, stepped together |
//! | [`task`] | live sequences of models with a task: words, characters, series |
//!
//! Every function goes through `status::guard`, which catches panics and stores the message of an
//! error, and reaches caller's memory only through the checks in `memory`. Handles that are not to be
//! used by two threads at once are an `exclusive::Exclusive`, which notices if they are.

#![warn(clippy::undocumented_unsafe_blocks)]
#![allow(non_camel_case_types, reason = "names are those that C sees")]
#![deny(missing_docs)]

pub mod batch;
mod exclusive;
mod memory;
pub mod model;
pub mod run;
pub mod status;
pub mod stream;
pub mod task;

/// C hands all of them from thread to thread.
const _: () = {
    const fn thread_safe<T: Send + Sync>() {}
    thread_safe::<model::drnn_model>();
    thread_safe::<stream::drnn_stream>();
    thread_safe::<batch::drnn_stream_batch>();
    thread_safe::<task::drnn_task_stream>();
};
