//! Arithmetic on plain memory. Knows nothing of networks: slices and shapes in, numbers out.
//!
//! | file | what |
//! |---|---|
//! | `simd` | a vector and its operations, per instruction set |
//! | `math` | sigmoid, tanh |
//! | `pack` | weights in reading order |
//! | `product` | the one matrix product |
//! | `int8` | the same with int8 weights |
//! | `dots` | the same for a handful of columns |
//! | `cells` | gate arithmetic, forward and backward |
//! | `transpose` | a matrix on its side |
//! | `dispatch` | the choice of instruction set |

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "each function states its contract, and its body is nothing but that contract's use"
)]

pub mod cells;
pub mod dispatch;
pub mod dots;
pub mod int8;
mod math;
pub mod pack;
pub mod product;
mod simd;
pub mod transpose;
