//! What every training step has, whichever kernels run the recurrence: shapes, staged batches, memory, parameters.

pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod selected_outputs;
pub(crate) mod staging;
pub(crate) mod state;
pub(crate) mod workspace;
