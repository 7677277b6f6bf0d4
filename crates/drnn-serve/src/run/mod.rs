//! `POST /v1/run`: whole sequences, run in batches.

pub mod handler;
mod numbers;
pub mod request;
pub mod runner;
