//! `drnn run`: whole sequences through a model file, so that anyone can check us against another
//! framework.

use crate::Failure;
use crate::npy::{self, Array, Values};
use clap::Args;
use drnn::{Batch, Error, Import, InputSpec, Model, NetSpec, States};
use std::path::{Path, PathBuf};

/// Run whole sequences through a model: X.npy in, Y.npy out
///
/// X is [T, B, q] floats, or [T, B] integers where the model reads tokens; Y is [T, B, m], aligned with X
/// and zero behind each sequence's end. The model is drnn's own, or the state dict of a PyTorch nn.RNN,
/// nn.LSTM or nn.GRU as safetensors or .pt, which answers with hidden states.
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
    arguments.check(spec)?;
    let input = Input::read(&arguments.x, spec)?;
    let lengths = arguments.lengths.as_deref().map(|path| lengths(path, input.rows)).transpose()?;
    let mut batch = match &input.values {
        Values::Floats(x) => Batch::dense(x, input.steps, input.rows),
        Values::Integers(_) => Batch::tokens(&input.tokens, input.steps, input.rows),
    };
    if let Some(lengths) = &lengths {
        batch = batch.lengths(lengths);
    }
    let start = arguments.start(spec, input.rows)?;
    let answers = model
        .run(&batch, start.as_ref())
        .map_err(|error| Failure::Input(arguments.explain(&input, error)))?;
    npy::write(&arguments.output, &answers.shape(), &answers.values)?;
    if let Some(folder) = &arguments.states {
        let shape = state_shape(spec, input.rows)?;
        npy::write(&folder.join("h.npy"), &shape, &answers.last.h)?;
        if spec.cell().has_cell_state() {
            npy::write(&folder.join("c.npy"), &shape, &answers.last.c)?;
        }
    }
    Ok(())
}

impl Arguments {
    /// What cannot be meant, before anything is computed.
    fn check(&self, spec: &NetSpec) -> Result<(), Failure> {
        if self.c0.is_some() && !spec.cell().has_cell_state() {
            return Err(Failure::Input(format!("--c0: {spec} has no cell state")));
        }
        if let Some(folder) = &self.states {
            state_shape(spec, 1)?;
            if ["h.npy", "c.npy"].iter().any(|name| folder.join(name) == self.output) {
                let path = self.output.display();
                return Err(Failure::Input(format!(
                    "{path}: both the answers and --states go there"
                )));
            }
        }
        Ok(())
    }

    /// States to start from, zeros where only the other half is given.
    fn start(&self, spec: &NetSpec, rows: usize) -> Result<Option<States>, Failure> {
        let read =
            |path: &Option<PathBuf>| path.as_deref().map(|p| state(p, spec, rows)).transpose();
        let (h, c) = (read(&self.h0)?, read(&self.c0)?);
        let Some(len) = h.as_ref().or(c.as_ref()).map(Vec::len) else {
            return Ok(None);
        };
        let zeros = || vec![0.0; len];
        let c = if spec.cell().has_cell_state() { c.unwrap_or_else(zeros) } else { Vec::new() };
        Ok(Some(States { h: h.unwrap_or_else(zeros), c }))
    }

    /// The error with the file that it is about, and with the number that stands there.
    fn explain(&self, input: &Input, error: Error) -> String {
        let path = match &error {
            Error::Length { .. } => self.lengths.as_ref(),
            Error::NotFinite { name, .. } if name == "start.h" => self.h0.as_ref(),
            Error::NotFinite { name, .. } if name == "start.c" => self.c0.as_ref(),
            _ => None,
        };
        let path = path.unwrap_or(&self.x).display();
        match (&error, &input.values) {
            (Error::Token { step, row, symbols, .. }, Values::Integers(tokens)) => {
                let token = tokens[step * input.rows + row];
                format!(
                    "{path}: token {token} at step {step} of sequence {row} is not from 0 to {}",
                    symbols - 1
                )
            }
            _ => format!("{path}: {error}"),
        }
    }
}

/// An array without elements may claim any number of rows; states would be made for each.
const MOST_OF_NOTHING: usize = 1 << 20;

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
        if shape.contains(&0) && shape.iter().any(|&n| n > MOST_OF_NOTHING) {
            return wrong("fewer sequences of nothing");
        }
        match (spec.input(), &values, shape.as_slice()) {
            (InputSpec::Dense(q), Values::Floats(_), &[steps, rows, width]) if width == q => {
                Ok(Input { steps, rows, values, tokens: Vec::new() })
            }
            (InputSpec::Dense(q), ..) => wrong(&format!("floats [T, B, {q}]")),
            (InputSpec::Tokens { .. }, Values::Integers(tokens), &[steps, rows]) => {
                // What no token can be becomes one that the library refuses, with its place.
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
