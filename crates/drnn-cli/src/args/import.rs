//! A model on the command line: drnn's own, a built-in one, or PyTorch's with the options it needs.

use crate::Failure;
use crate::args::network::Nonlinearity;
use crate::console::note;
use crate::files::model_file::{ModelFile, OpenedModel};
use clap::Args;
use drnn::{Cell, Import, Model, Part};
use drnn_tasks::live::LiveModel;
use drnn_tasks::tagger::Tagger;
use std::path::Path;

/// Which of the tensors in a PyTorch file are the model.
#[derive(Debug, Clone, Args)]
pub struct PartArguments {
    /// Other programs' files: prefix of the recurrence's tensors, such as encoder.lstm; in an ONNX
    /// graph the name of its node
    #[arg(long)]
    prefix: Option<String>,
    /// Other programs' files: name of the embedding, or none [default: as recognised]
    #[arg(long, value_name = "NAME", value_parser = part)]
    embedding_layer: Option<Part>,
    /// Other programs' files: name of the linear layer after the recurrence, or none [default: as
    /// recognised]
    #[arg(long, value_name = "NAME", value_parser = part)]
    output_layer: Option<Part>,
}

fn part(text: &str) -> Result<Part, String> {
    match text {
        "" => Err("expected a name, or none".into()),
        "none" => Ok(Part::None),
        name => Ok(Part::Named(name.into())),
    }
}

impl PartArguments {
    /// The options of the library.
    pub fn options(&self, relu: bool) -> Import {
        Import {
            prefix: self.prefix.clone(),
            relu,
            embedding: self.embedding_layer.clone().unwrap_or_default(),
            output: self.output_layer.clone().unwrap_or_default(),
        }
    }

    /// Whether any of these options was given.
    pub fn are_given(&self) -> bool {
        self.options(false) != Import::default()
    }
}

/// What a PyTorch file does not contain.
#[derive(Debug, Args)]
pub struct ImportArguments {
    #[command(flatten)]
    parts: PartArguments,
    /// Other programs' files: activation that a plain RNN was trained with [default: tanh]
    #[arg(long, value_enum)]
    nonlinearity: Option<Nonlinearity>,
}

impl ImportArguments {
    /// Reads the model.
    pub fn load(&self, path: &Path) -> Result<Model, Failure> {
        match self.load_file(path)? {
            ModelFile::One(model) => Ok(*model),
            ModelFile::Several(_) => {
                let why = "holds several networks that belong together, not one model";
                Err(Failure::Input(format!("{}: {why}", path.display())))
            }
        }
    }

    /// Reads the model, of one network or several.
    pub fn load_file(&self, path: &Path) -> Result<ModelFile, Failure> {
        let opened = OpenedModel::read(path, &self.options())?;
        announce(path, &opened, self.nonlinearity);
        Ok(opened.file)
    }

    /// Reads the model for streaming or serving, with its task.
    pub fn load_live(&self, path: &Path) -> Result<LiveModel, Failure> {
        self.live(path, OpenedModel::read(path, &self.options())?)
    }

    /// Reads a model for serving; the options are applied only where it is not drnn's own. Also
    /// whether they were.
    pub fn load_live_if_foreign(&self, path: &Path) -> Result<(LiveModel, bool), Failure> {
        let opened = OpenedModel::read_if_foreign(path, &self.options())?;
        let foreign = opened.foreign;
        Ok((self.live(path, opened)?, foreign))
    }

    fn live(&self, path: &Path, opened: OpenedModel) -> Result<LiveModel, Failure> {
        announce(path, &opened, self.nonlinearity);
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let live = match opened.file {
            ModelFile::One(model) => LiveModel::new(&name, *model),
            ModelFile::Several(bundle) => {
                Tagger::from_bundle(bundle).map(|tagger| LiveModel::from_tagger(&name, tagger))
            }
        };
        live.map_err(|e| Failure::Input(format!("{}: {e}", path.display())))
    }

    /// Whether any of these options was given.
    pub fn are_given(&self) -> bool {
        self.parts.are_given() || self.nonlinearity.is_some()
    }

    fn options(&self) -> Import {
        self.parts.options(self.nonlinearity == Some(Nonlinearity::Relu))
    }
}

/// Tensors that a note names.
const MAX_LISTED: usize = 6;

/// Notes on what was recognised in a file of another program, what was left out, and the activation
/// that is assumed for a plain RNN, which may have been trained with either, unless it was given.
fn announce(path: &Path, opened: &OpenedModel, given: Option<Nonlinearity>) {
    let file = path.display();
    note_recognised(path, opened, given);
    if let Some(listed) = opened.ignored(MAX_LISTED) {
        note!("{file}: not part of the model: {listed}; `drnn inspect {file}` lists all");
    }
}

/// The same without what was left out.
pub fn note_recognised(path: &Path, opened: &OpenedModel, given: Option<Nonlinearity>) {
    let file = path.display();
    for text in &opened.notes {
        note!("{file}: {text}");
    }
    let is_tanh =
        matches!(&opened.file, ModelFile::One(model) if model.spec().cell() == Cell::RnnTanh);
    if is_tanh && given.is_none() && !opened.says_activation {
        note!("{file}: a plain RNN, read as one with tanh; --nonlinearity relu if it has relu");
    }
}
