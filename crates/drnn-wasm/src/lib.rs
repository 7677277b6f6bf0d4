//! drnn for WebAssembly: models from bytes, whole sequences, live streams, tags, masked letters. This
//! is the module inside the npm package `drnn`; `npm/drnn.js` is its interface for JavaScript.
//!
//! | module | contents |
//! |---|---|
//! | `exports` | functions of the WebAssembly module: numbers and two byte buffers (wasm32 only) |
//! | [`session`] | what JavaScript holds by handles: models and streams |
//! | [`sequences`] | whole sequences, texts, tags, masks |
//! | `owned` | streams that keep their model alive |
//!
//! All but `exports` compiles and is tested on every target.

#![deny(missing_docs)]
#![warn(clippy::undocumented_unsafe_blocks)]

#[cfg(target_family = "wasm")]
mod exports;
mod owned;
pub mod sequences;
pub mod session;
