//! Series of numbers: named input columns, and targets that are values or classes.

mod missing;
mod scaling;
mod task;

pub use missing::Missing;
pub use scaling::Scaling;
pub use task::{Scalings, SeriesTask};
