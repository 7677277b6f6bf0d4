//! Trains many small LSTMs of one shape at the same time, independently of each other.
//!
//! ```text
//! lane 0   batch -> forward -> outputs, loss -> backward -> weight gradients -> norm, clip -> Adam
//! lane 1   batch -> forward -> ...                         each kernel is launched for all lanes
//! ```
//!
//! | file | what |
//! |---|---|
//! | `plan` | which networks are supported, and sizes; no GPU calls |
//! | `workspace` | kernels and device memory for batches of one shape; a step as a graph |
//! | `data` | data sets, generated on the GPU or copied there |
//! | `executor` | runs the jobs of many lanes together |
//! | `rendezvous` | collects the jobs of lanes on many threads |
//! | `lane` | [`CudaGroup`] and its [`CudaLane`]s, each a [`drnn_train::Engine`] |
//!
//! Lanes are independent: no sum crosses lanes and none depends on their number, so a lane computes
//! the same bits alone and with others. Factors of products are f16; sums, cell states and
//! parameters are f32.
//!
//! The kernels, in `kernels/group/`, use `wgmma`, which only compute capability 9 has. Their blocks
//! never wait for each other, so more blocks than fit the GPU are no problem.

mod data;
mod executor;
mod lane;
mod plan;
mod rendezvous;
mod workspace;

pub use lane::{CudaGroup, CudaLane};
#[cfg(test)]
pub(crate) use plan::tests::plans;
