//! The optimiser: Adam with clipping, the learning-rate schedule, early stopping.

mod adam;
mod schedule;
mod stop;

pub(crate) use adam::is_zero;
pub use adam::{Adam, AdamOptions, clip_scale, norm};
pub use schedule::Schedule;
pub use stop::{Reason, Stopping};
