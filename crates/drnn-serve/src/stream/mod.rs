//! `GET /v1/stream`: live sequences over WebSocket, stepped together.

pub mod frames;
pub mod message;
mod pending;
pub mod socket;
pub mod stepper;
mod steps;
