//! `drnn run`: runs whole sequences through a model file, for comparison with other frameworks.

use crate::Failure;
use crate::args::import::ImportArguments;
use crate::args::reading::Reading;
use crate::files::npy::{self, Array, Values};
use crate::files::paths::{check_not_read, make_folder, same_file};
use crate::files::states;
use crate::memory::{Force, Needs, Smaller};
use crate::training::place::PlaceArguments;
use crate::training::placed::Placed;
use clap::Args;
use drnn::memory::{self, BatchSize};
use drnn::text::counted;
use drnn::{Batch, Error, InputSpec, NetSpec, Rows, Steps};
use std::path::{Path, PathBuf};

/// Run whole sequences through a model: X.npy in, Y.npy out
///
/// X is [T, B, q] floats, or [T, B] integers where the model reads tokens; Y is [T, B, m], aligned with X
/// and zero after each sequence's end. The model is drnn's own, or the state dict of a PyTorch nn.RNN,
/// nn.LSTM or nn.GRU as safetensors or .pt, whose outputs are hidden states, or an ONNX graph.
/// A model of `drnn train series` reads and returns scaled numbers, (x - mean) / sd; `drnn inspect` shows mean and sd.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model file
    model: PathBuf,
    /// Input sequences
    x: PathBuf,
    /// File for the outputs
    #[arg(short, long, value_name = "Y")]
    output: PathBuf,
    /// Elements of each sequence, [B] integers [default: all T]
    #[arg(long, value_name = "L")]
    lengths: Option<PathBuf>,
    /// Start states, [layers * directions, B, n], for a flattened model in its stack's shape; [1, B, sum
    /// of n] if layers differ in width [default: zeros]
    #[arg(long, value_name = "H")]
    h0: Option<PathBuf>,
    /// An LSTM's start cell states, in the same shape [default: zeros]
    #[arg(long, value_name = "C")]
    c0: Option<PathBuf>,
    /// Folder for the states after the last step, h.npy and c.npy
    #[arg(long, value_name = "DIR")]
    states: Option<PathBuf>,
    #[command(flatten)]
    import: ImportArguments,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    place: PlaceArguments,
    #[command(flatten)]
    force: Force,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = arguments.import.load(&arguments.model)?;
    let spec = model.spec();
    arguments.check()?;
    let place = arguments.place.find()?;
    let placed = Placed::new(&place, &model)?;
    let input = Input::read(&arguments.x, spec, arguments.reading)?;
    let lengths = arguments
        .lengths
        .as_deref()
        .map(|path| lengths(path, input.rows, arguments.reading))
        .transpose()?;
    let mut batch = match &input.values {
        Values::Floats(x) => Batch::dense(x, Steps(input.steps), Rows(input.rows)),
        Values::Integers(_) => Batch::tokens(&input.tokens, Steps(input.steps), Rows(input.rows)),
    };
    if let Some(lengths) = &lengths {
        batch = batch.lengths(lengths);
    }
    let (h0, c0) = (arguments.h0.as_ref(), arguments.c0.as_ref());
    let start = states::read(h0, c0, spec, input.rows, arguments.reading)?;
    // The outputs are copied once more when they are written.
    let needs = |rows: usize| {
        let size = BatchSize::new(input.steps, rows);
        let outputs = [spec.output_steps(input.steps), rows, spec.output_width(), size_of::<f32>()];
        Needs::new("states", memory::run(spec, size))
            .and("the file", outputs.into_iter().fold(1, usize::saturating_mul))
    };
    let smaller = Smaller {
        size: input.rows,
        needs: &|rows| Some(needs(rows)),
        shown: &|rows| format!("{} at once", counted(rows, "sequence")),
    };
    let less = "fewer or shorter sequences at once";
    needs(input.rows).check_sized(arguments.force, &place, less, Some(smaller))?;
    let answers = placed.runner().run(&batch, start.as_ref()).map_err(|error| match error {
        drnn_tasks::Error::Drnn(error) => Failure::Input(arguments.explain(&input, error)),
        other => Failure::Input(format!("{}: {other}", arguments.place.device)),
    })?;
    npy::write(&arguments.output, &answers.shape(), &answers.values)?;
    if let Some(folder) = &arguments.states {
        states::write(folder, ["h.npy", "c.npy"], spec, input.rows, &answers.last)?;
    }
    Ok(())
}

impl Arguments {
    /// Refuses output paths that overwrite each other or an input.
    fn check(&self) -> Result<(), Failure> {
        let read = || {
            let more = [&self.lengths, &self.h0, &self.c0].into_iter().flatten();
            [&self.model, &self.x].into_iter().chain(more).map(PathBuf::as_path)
        };
        check_not_read("-o", &self.output, read())?;
        let Some(folder) = &self.states else { return Ok(()) };
        make_folder(folder)?;
        for path in ["h.npy", "c.npy"].map(|name| folder.join(name)) {
            check_not_read("--states", &path, read())?;
            if same_file(&path, &self.output) {
                let path = self.output.display();
                let why = "both -o and --states write to it";
                return Err(Failure::Input(format!("{path}: {why}")));
            }
        }
        Ok(())
    }

    /// The error with the file that caused it, and the value found there.
    fn explain(&self, input: &Input, error: Error) -> String {
        let path = match &error {
            Error::Length { .. } => self.lengths.as_ref(),
            Error::NotFinite { name, .. } if name == "start.h" => self.h0.as_ref(),
            Error::NotFinite { name, .. } if name == "start.c" => self.c0.as_ref(),
            Error::Unsolvable { .. } => self.h0.as_ref().or(self.c0.as_ref()).or(Some(&self.model)),
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

/// Maximum rows of an array without elements: a state is allocated for each row.
const MAX_EMPTY_ROWS: usize = 1 << 20;

/// X as the network reads it.
struct Input {
    steps: usize,
    rows: usize,
    values: Values,
    tokens: Vec<u32>,
}

impl Input {
    fn read(path: &Path, spec: &NetSpec, reading: Reading) -> Result<Input, Failure> {
        let Array { shape, values } = npy::read(path, reading)?;
        let wrong = |expected: &str| {
            let (kind, path) = (values.kind(), path.display());
            Err(Failure::Input(format!("{path}: {kind} of shape {shape:?}, expected {expected}")))
        };
        if shape.contains(&0) && shape.iter().any(|&n| n > MAX_EMPTY_ROWS) {
            return wrong("fewer empty sequences");
        }
        match (spec.input(), &values, shape.as_slice()) {
            (InputSpec::Dense(q), Values::Floats(_), &[steps, rows, width]) if width == q => {
                Ok(Input { steps, rows, values, tokens: Vec::new() })
            }
            (InputSpec::Dense(q), ..) => wrong(&format!("floats [T, B, {q}]")),
            (InputSpec::Tokens { .. }, Values::Integers(tokens), &[steps, rows]) => {
                // A value that cannot be a token becomes one that the library refuses with its position.
                let tokens = tokens.iter().map(|&t| u32::try_from(t).unwrap_or(u32::MAX)).collect();
                Ok(Input { steps, rows, values, tokens })
            }
            (InputSpec::Tokens { symbols, .. }, ..) => {
                wrong(&format!("integers below {symbols}, [T, B]"))
            }
        }
    }
}

fn lengths(path: &Path, rows: usize, reading: Reading) -> Result<Vec<usize>, Failure> {
    match npy::read(path, reading)? {
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
