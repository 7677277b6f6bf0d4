//! Groups of command-line arguments that several commands share, and what they describe.

pub mod characters;
pub mod class_weights;
pub mod import;
pub mod network;
pub mod reading;
pub mod regularisation;
pub mod series;
pub mod shape;
pub mod training;
