//! A model file on the command line: drnn's own, or PyTorch's with the options it needs.

use crate::Failure;
use crate::args::network::Nonlinearity;
use crate::console::note;
use clap::Args;
use drnn::{Bundle, Cell, Import, Model, NetSpec};
use drnn_tasks::live::LiveModel;
use std::path::Path;

/// What a PyTorch file does not contain.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// PyTorch files: prefix of the tensors' names, such as encoder.lstm.
    #[arg(long)]
    prefix: Option<String>,
    /// PyTorch files: activation that a plain RNN was trained with [default: tanh]
    #[arg(long, value_enum)]
    nonlinearity: Option<Nonlinearity>,
}

impl ImportArguments {
    /// Reads the model.
    pub fn load(&self, path: &Path) -> Result<Model, Failure> {
        let model = Model::import(path, &self.options())?;
        note_activation(path, model.spec(), self.nonlinearity);
        Ok(model)
    }

    /// Reads the model for streaming or serving, with its task.
    pub fn load_live(&self, path: &Path) -> Result<LiveModel, Failure> {
        let model = LiveModel::import(path, &self.options())?;
        note_activation(path, model.spec(), self.nonlinearity);
        Ok(model)
    }

    /// Whether any of these options was given.
    pub fn are_given(&self) -> bool {
        self.prefix.is_some() || self.nonlinearity.is_some()
    }

    fn options(&self) -> Import {
        let relu = self.nonlinearity == Some(Nonlinearity::Relu);
        Import { prefix: self.prefix.clone(), relu }
    }
}

/// Whether a file was written by PyTorch and not by drnn.
pub fn is_foreign(path: &Path) -> bool {
    std::fs::read(path).is_ok_and(|bytes| Bundle::is_bundle(&bytes).is_none())
}

/// A plain RNN of PyTorch may have been trained with either activation, and its file does not say
/// which: a note names the one that is assumed, unless `--nonlinearity` was given.
pub fn note_activation(path: &Path, spec: &NetSpec, given: Option<Nonlinearity>) {
    if spec.cell() == Cell::RnnTanh && given.is_none() && is_foreign(path) {
        note!(
            "{}: a plain RNN, read as one with tanh; --nonlinearity relu if it has relu",
            path.display()
        );
    }
}
