//! Files that commands read and write: models, NumPy arrays, states, output folders.

pub mod builtin;
pub mod model_file;
pub mod npy;
pub mod paths;
pub mod states;
pub mod training_folder;
