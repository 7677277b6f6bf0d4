//! HTTP: connections, routes, and the checks before a request is handled.

pub mod api_error;
mod body;
pub mod client;
pub mod connections;
pub mod guard;
mod openapi;
pub mod routes;
pub mod server;
mod transport;
