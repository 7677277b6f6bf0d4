//! Series: named columns of numbers, times and categories, and targets that are values or classes,
//! at the row itself or some steps ahead.

mod column;
mod missing;
mod scaling;
mod task;
mod time;

pub use column::{ColumnKind, Encoded, InputColumn, MAX_CATEGORIES, decimal_comma};
pub use missing::Missing;
pub use scaling::Scaling;
pub use task::{Forecast, Scalings, SeriesTask};
pub use time::{Cycle, Moment, TimeFormat};
