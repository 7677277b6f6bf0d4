//! Many small LSTMs in training at once, each on its own.
//!
//! ```text
//! lane   batch -> forward -> answers, loss -> backward -> gradients of weights -> norm, clip -> Adam
//! lane   batch -> forward -> ...                                                  every kernel for all lanes at once
//! ```
//!
//! | file | what |
//! |---|---|
//! | `plan` | which networks, how large everything is; nothing of the GPU |
//! | `room` | kernels and memory for batches of some shape; a step as a graph |
//! | `data` | data sets, made on the GPU or copied there |
//! | `round` | what lanes are to do, all of it in one go |
//! | `meeting` | lanes of many threads come together for a round |
//! | `lane` | [`CudaGroup`] and its [`CudaLane`]s, each a [`drnn_train::Engine`] |
//!
//! A lane's numbers are its own: no sum goes over lanes and none depends on how many there are, so a lane beside others is
//! the lane alone, to the bit. Factors of products are f16, all sums, cell states and parameters f32.
//!
//! Kernels are `kernels/group*`. They use Hopper's products (wgmma), so there are groups on compute capability 9 only. No block
//! waits for another, so they cannot hang whatever fits at once.

mod data;
mod executor;
mod lane;
mod plan;
mod rendezvous;
mod workspace;

pub use lane::{CudaGroup, CudaLane};
#[cfg(test)]
pub(crate) use plan::tests::plans;
