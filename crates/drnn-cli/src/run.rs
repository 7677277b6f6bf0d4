//! `drnn run`: whole sequences through a model file, so that anyone can check us against another
//! framework.

use crate::Failure;
use crate::npy::{self, Array, Values};
use clap::Args;
use drnn::{Batch, Import, InputSpec, Model, NetSpec, States};
use std::path::{Path, PathBuf};

/// Run whole sequences through a model: X.npy in, Y.npy out
///
/// X is [T, B, q] floats, or [T, B] integers where the model reads tokens; Y is [T, B, m], aligned with X
/// and zero behind each sequence's end. The model is drnn's own, or the state dict of a PyTorch nn.RNN,
/// nn.LSTM or nn.GRU as safetensors, which answers with hidden states.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model file
    model: PathBuf,
    /// Input sequences
    x: PathBuf,
    /// Where the answers go
    #[arg(short, long, value_name = "Y")]
    output: PathBuf,
    /// Elements of each sequence, [B] integers [default: all T]
    #[arg(long, value_name = "L")]
    lengths: Option<PathBuf>,
    /// States to start from, [layers * directions, B, n] [default: zeros]
    #[arg(long, value_name = "H")]
    h0: Option<PathBuf>,
    /// An LSTM's cell states to start from, in the same shape [default: zeros]
    #[arg(long, value_name = "C")]
    c0: Option<PathBuf>,
    /// Folder for the states after the last step, h.npy and c.npy
    #[arg(long, value_name = "DIR")]
    states: Option<PathBuf>,
    #[command(flatten)]
    import: ImportArguments,
}

/// What a PyTorch file does not say.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// PyTorch files: what stands before the tensors' names, such as encoder.lstm.
    #[arg(long)]
    prefix: Option<String>,
    /// PyTorch files: a plain RNN was trained with this activation [default: tanh]
    #[arg(long, value_enum)]
    nonlinearity: Option<crate::net::Nonlinearity>,
}

impl ImportArguments {
    fn options(&self) -> Import {
        let relu = self.nonlinearity == Some(crate::net::Nonlinearity::Relu);
        Import { prefix: self.prefix.clone(), relu }
    }
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = Model::import(&arguments.model, &arguments.import.options())?;
    let spec = model.spec();
    let input = Input::read(&arguments.x, spec)?;
    let lengths = arguments.lengths.as_deref().map(|path| lengths(path, input.rows)).transpose()?;
    let mut batch = match &input.values {
        Values::Floats(x) => Batch::dense(x, input.steps, input.rows),
        Values::Integers(_) => Batch::tokens(&input.tokens, input.steps, input.rows),
    };
    if let Some(lengths) = &lengths {
        batch = batch.lengths(lengths);
    }
    let mut start = States::zeros(spec, input.rows);
    let given = arguments.h0.is_some() || arguments.c0.is_some();
    if let Some(path) = &arguments.h0 {
        start.h = state(path, spec, input.rows)?;
    }
    if let Some(path) = &arguments.c0 {
        if !spec.cell().has_cell_state() {
            return Err(Failure::Input(format!("--c0: {spec} has no cell state")));
        }
        start.c = state(path, spec, input.rows)?;
    }
    let answers = model
        .run(&batch, given.then_some(&start))
        .map_err(|error| Failure::Input(format!("{}: {error}", arguments.x.display())))?;
    if let Some(folder) = &arguments.states {
        let shape = state_shape(spec, input.rows)?;
        npy::write(&folder.join("h.npy"), &shape, &answers.last.h)?;
        if spec.cell().has_cell_state() {
            npy::write(&folder.join("c.npy"), &shape, &answers.last.c)?;
        }
    }
    npy::write(&arguments.output, &answers.shape(), &answers.values)
}

/// X, of the kind that the network reads.
struct Input {
    steps: usize,
    rows: usize,
    values: Values,
    tokens: Vec<u32>,
}

impl Input {
    fn read(path: &Path, spec: &NetSpec) -> Result<Input, Failure> {
        let Array { shape, values } = npy::read(path)?;
        let wrong = |expected: &str| {
            let kind = if matches!(values, Values::Floats(_)) { "floats" } else { "integers" };
            let path = path.display();
            Err(Failure::Input(format!("{path}: {kind} of shape {shape:?}, expected {expected}")))
        };
        match (spec.input(), &values, shape.as_slice()) {
            (InputSpec::Dense(q), Values::Floats(_), &[steps, rows, width]) if width == q => {
                Ok(Input { steps, rows, values, tokens: Vec::new() })
            }
            (InputSpec::Dense(q), ..) => wrong(&format!("floats [T, B, {q}]")),
            (InputSpec::Tokens { .. }, Values::Integers(tokens), &[steps, rows]) => {
                // What no token can be becomes one that the library refuses, place and all.
                let tokens = tokens.iter().map(|&t| u32::try_from(t).unwrap_or(u32::MAX)).collect();
                Ok(Input { steps, rows, values, tokens })
            }
            (InputSpec::Tokens { symbols, .. }, ..) => {
                wrong(&format!("integers below {symbols}, [T, B]"))
            }
        }
    }
}

fn lengths(path: &Path, rows: usize) -> Result<Vec<usize>, Failure> {
    match npy::read(path)? {
        Array { shape, values: Values::Integers(lengths) } if shape == [rows] => lengths
            .iter()
            .map(|&length| {
                usize::try_from(length).map_err(|_| {
                    Failure::Input(format!("{}: a length of {length}", path.display()))
                })
            })
            .collect(),
        Array { shape, .. } => Err(Failure::Input(format!(
            "{}: shape {shape:?}, expected integers [{rows}]",
            path.display()
        ))),
    }
}

fn state(path: &Path, spec: &NetSpec, rows: usize) -> Result<Vec<f32>, Failure> {
    let expected = state_shape(spec, rows)?;
    match npy::read(path)? {
        Array { shape, values: Values::Floats(values) } if shape == expected => Ok(values),
        Array { shape, .. } => Err(Failure::Input(format!(
            "{}: shape {shape:?}, expected floats {expected:?}",
            path.display()
        ))),
    }
}

fn state_shape(spec: &NetSpec, rows: usize) -> Result<[usize; 3], Failure> {
    let n = spec.units()[0];
    if spec.units().iter().any(|&other| other != n) {
        let message = format!("{spec}: layers of different widths have no states of one shape");
        return Err(Failure::Input(message));
    }
    Ok([spec.layers() * spec.direction().count(), rows, n])
}
