//! A model file on the command line: drnn's own, or PyTorch's with what it does not say.

use crate::Failure;
use crate::net::Nonlinearity;
use clap::Args;
use drnn::{Import, Model};
use std::path::Path;

/// What a PyTorch file does not say.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// PyTorch files: what stands before the tensors' names, such as encoder.lstm.
    #[arg(long)]
    prefix: Option<String>,
    /// PyTorch files: a plain RNN was trained with this activation [default: tanh]
    #[arg(long, value_enum)]
    nonlinearity: Option<Nonlinearity>,
}

impl ImportArguments {
    /// Reads the model.
    pub fn load(&self, path: &Path) -> Result<Model, Failure> {
        let relu = self.nonlinearity == Some(Nonlinearity::Relu);
        Ok(Model::import(path, &Import { prefix: self.prefix.clone(), relu })?)
    }
}
