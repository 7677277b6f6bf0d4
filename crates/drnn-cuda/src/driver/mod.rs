//! Calls into CUDA: all that keep something on a card, or put work into a stream.
//!
//! `card` is CUDA itself, by cudarc.

mod card;

pub(crate) use card::*;
