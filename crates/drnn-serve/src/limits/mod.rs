//! Limits on everything that clients can make grow.

pub mod budget;
pub mod cost;
pub mod memory;
pub mod options;
pub mod streams;
