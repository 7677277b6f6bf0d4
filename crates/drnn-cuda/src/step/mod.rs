//! The parts of a training step that do not depend on which kernels run the recurrence: shapes,
//! staged batches, workspace, selected outputs, parameters and optimiser.

pub(crate) mod cpu_only;
pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod selected_outputs;
pub(crate) mod staging;
pub(crate) mod state;
pub(crate) mod stored;
pub(crate) mod workspace;
