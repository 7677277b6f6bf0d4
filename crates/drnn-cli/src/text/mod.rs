//! Text as it arrives: UTF-8 in pieces, and the masks in it. Fields of CSV that is written.

mod csv;
pub mod decode;
pub mod masks;

pub use csv::csv_field;
