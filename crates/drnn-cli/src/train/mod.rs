//! `drnn train`: a network on the user's own data.
//!
//! | file | what |
//! |---|---|
//! | `frame` | what all tasks have in common: from an engine and its data to a model file and a report |

pub mod frame;
