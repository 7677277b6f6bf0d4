//! `drnn flatten` and `drnn unflatten`: turn a stack into one delayed layer and back, with a check
//! before anything is written.

use crate::Failure;
use crate::args::import::ImportArguments;
use crate::args::reading::Reading;
use crate::console::{note, progress};
use crate::files::paths::{check_not_read, make_folder};
use crate::files::{npy, states};
use crate::memory::{Force, Needs};
use clap::{Args, ValueEnum};
use drnn::flatten::flat_spec;
use drnn::memory::{self, BatchSize};
use drnn::random::Rng;
use drnn::{
    Batch, Connections, Difference, InputSpec, Model, NetSpec, Padding, Rows, StartState, States,
    Steps, WeightFormat, compare,
};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Largest difference between the two forms of a network.
const TOLERANCE: f32 = 1e-5;

/// Turn a stack of k layers into one layer with delay k - 1, exactly
///
/// IN is drnn's own model, or the state dict of a PyTorch nn.RNN, nn.LSTM or nn.GRU, or an ONNX graph.
/// Both networks are run on random sequences from random states; OUT is written only if they agree.
/// Examples:
///   drnn flatten stack.safetensors -o flat.safetensors
///   drnn flatten stack.safetensors -o flat.safetensors --connections all     to train it further, freely
///   drnn flatten lstm.safetensors -o flat.safetensors --start solved --states start
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Flatten {
    /// Model to flatten
    input: PathBuf,
    /// File for the flattened model
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// How block i starts i steps late: held at its start state until then, or solved: running from a
    /// state that leads there, if one exists
    #[arg(long, value_enum, default_value = "held")]
    start: Start,
    /// Connections that later training may use: stacked, lower, upper, all, or a list of to-from pairs
    /// such as 0-0,1-0,1-1
    #[arg(long, default_value = "stacked")]
    connections: Connections,
    /// With --start solved: the stack's start states, [layers, B, n] [default: zeros]
    #[arg(long, value_name = "H")]
    h0: Option<PathBuf>,
    /// With --start solved: an LSTM's cell states
    #[arg(long, value_name = "C")]
    c0: Option<PathBuf>,
    /// With --start solved: folder for the solution, h0.npy and c0.npy, [1, B, all units], which is the
    /// initial state of one plain layer in any framework
    #[arg(long, value_name = "DIR")]
    states: Option<PathBuf>,
    #[command(flatten)]
    import: ImportArguments,
    #[command(flatten)]
    check: Check,
    #[command(flatten)]
    reading: Reading,
}

/// Turn one layer that is a flattened stack back into the stack
///
/// Layer widths come from IN, from --units, or from the zeros of its weights. Weights outside the blocks
/// of a stack are refused, with the block. IN may be a PyTorch file: --delay gives its delay. Examples:
///   drnn unflatten flat.safetensors -o stack.safetensors
///   drnn unflatten lstm.safetensors -o stack.safetensors --units 64,64,32 --delay 2
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Unflatten {
    /// Model to unflatten
    input: PathBuf,
    /// File for the stack
    #[arg(short, long, value_name = "OUT")]
    output: PathBuf,
    /// Units of each layer: 64,64,32
    #[arg(long, value_delimiter = ',')]
    units: Option<Vec<usize>>,
    /// Delay in steps, if the file does not have it
    #[arg(long)]
    delay: Option<usize>,
    #[command(flatten)]
    import: ImportArguments,
    #[command(flatten)]
    check: Check,
}

/// Arguments of the check.
#[derive(Debug, Args)]
struct Check {
    /// Random seed of the check's sequences
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    force: Force,
}

impl Check {
    /// Checks that `copies` of the flattened network, and a run of it, fit into memory.
    fn memory(&self, flat: &NetSpec, copies: usize) -> Result<(), Failure> {
        let size = BatchSize::new(STEPS + flat.look_ahead(), ROWS);
        let run = memory::training(flat, size, 1);
        Needs::new("one layer's weights", memory::model(flat))
            .times(copies)
            .and("the check", run.saved.saturating_add(run.extra))
            .check(self.force, "stacks of fewer units")
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Start {
    Held,
    Solved,
}

/// The network with f32 weights, which is what its other form gets: int8 weights have other scales there.
fn in_f32(path: &Path, model: Model) -> Result<Model, Failure> {
    match model.weight_format() {
        WeightFormat::F32 => Ok(model),
        format => {
            let path = path.display();
            note!("{path}: weights are {format}, those written are f32; `drnn quantize` after it");
            Ok(model.quantize(WeightFormat::F32)?)
        }
    }
}

pub fn flatten(arguments: &Flatten) -> Result<(), Failure> {
    let solved = arguments.start == Start::Solved;
    let only_solved =
        [(&arguments.h0, "--h0"), (&arguments.c0, "--c0"), (&arguments.states, "--states")];
    if let Some((_, name)) = only_solved.iter().find(|(path, _)| path.is_some() && !solved) {
        return Err(Failure::Input(format!(
            "{name} is for --start solved; with a held start, `drnn run --h0 --c0` sets the states"
        )));
    }
    check_not_read("-o", &arguments.output, [arguments.input.as_path()])?;
    let stack = in_f32(&arguments.input, arguments.import.load(&arguments.input)?)?;
    let start = if solved { StartState::Solved } else { StartState::Held };
    let refuse = |e: drnn::Error| Failure::Input(at(&arguments.input, &e));
    let copies = if arguments.connections == Connections::Stacked { 1 } else { 2 };
    arguments.check.memory(&flat_spec(stack.spec(), start).map_err(refuse)?, copies)?;
    let flat = stack.flatten(start).map_err(refuse)?;
    let flat = match &arguments.connections {
        Connections::Stacked => flat,
        connections => flat
            .relax(connections.clone())
            .map_err(|e| Failure::Input(format!("--connections: {e}")))?,
    };
    let start = match solved {
        true => arguments.given(&stack)?,
        false => random_start(stack.spec(), arguments.check.seed),
    };
    let from = arguments.h0.as_ref().or(arguments.c0.as_ref()).unwrap_or(&arguments.input);
    let difference = check(from, [&stack, &flat], &start, arguments.check.seed)?;
    if let Some(folder) = &arguments.states {
        let found = drnn::solve_start(&flat, &start.states, start.rows)?;
        write_start(folder, &flat, &found, start.rows)?;
    }
    flat.save(&arguments.output)?;
    progress!("wrote {}", arguments.output.display());
    print(&arguments.check, [&stack, &flat], &difference)
}

/// States of some sequences.
struct Beginning {
    states: States,
    rows: usize,
}

/// Random start states for the check of a held start.
fn random_start(spec: &NetSpec, seed: u64) -> Beginning {
    let (mut states, mut rng) = (States::zeros(spec, ROWS), Rng::new(seed ^ 0x5EED));
    states.h.iter_mut().chain(&mut states.c).for_each(|x| *x = rng.symmetric(1.0));
    Beginning { states, rows: ROWS }
}

impl Flatten {
    /// The start states of the stack that a solved start must lead to: those given, or zeros.
    fn given(&self, stack: &Model) -> Result<Beginning, Failure> {
        let Some(path) = self.h0.as_ref().or(self.c0.as_ref()) else {
            return Ok(Beginning { states: States::zeros(stack.spec(), 1), rows: 1 });
        };
        let rows = match npy::read(path, self.reading)?.shape.as_slice() {
            &[_, rows, _] if rows > 0 => rows,
            shape => {
                let (path, expected) = (path.display(), "floats [layers, B, n]");
                return Err(Failure::Input(format!(
                    "{path}: shape {shape:?}, expected {expected}"
                )));
            }
        };
        let (h0, c0) = (self.h0.as_ref(), self.c0.as_ref());
        let states = states::read(h0, c0, stack.spec(), rows, self.reading)?;
        let states = states.unwrap_or_else(|| States::zeros(stack.spec(), rows));
        Ok(Beginning { states, rows })
    }
}

/// Writes the start states of a plain layer: all blocks concatenated.
fn write_start(folder: &Path, flat: &Model, start: &States, rows: usize) -> Result<(), Failure> {
    let spec = flat.spec();
    make_folder(folder)?;
    let (widths, shape) = (spec.state_widths(), [1, rows, spec.units()[0]]);
    npy::write(&folder.join("h0.npy"), &shape, &states::joined(widths, rows, &start.h))?;
    if spec.cell().has_cell_state() {
        npy::write(&folder.join("c0.npy"), &shape, &states::joined(widths, rows, &start.c))?;
    }
    Ok(())
}

pub fn unflatten(arguments: &Unflatten) -> Result<(), Failure> {
    check_not_read("-o", &arguments.output, [arguments.input.as_path()])?;
    let mut flat = in_f32(&arguments.input, arguments.import.load(&arguments.input)?)?;
    let refuse = |e: drnn::Error| Failure::Input(at(&arguments.input, &e));
    if let Some(delay) = arguments.delay {
        if flat.spec().delay() > 0 && flat.spec().delay() != delay {
            let said = flat.spec().delay();
            return Err(Failure::Input(format!("--delay {delay}, but the file says {said}")));
        }
        if flat.spec().delay() == 0 {
            flat = flat.delayed(delay, Padding::Null).map_err(refuse)?;
        }
    }
    arguments.check.memory(flat.spec(), 2)?; // the stack, and that flattened again
    let stack = flat.unflatten(arguments.units.as_deref()).map_err(refuse)?;
    let again = stack.flatten(StartState::Held)?;
    if again.params() != flat.params() {
        return Err(Failure::Check("the stack, flattened again, has other weights".into()));
    }
    // A layer that starts all its units at once differs from the stack in its first steps, so the
    // stack flattened again is run instead.
    let at_once = flat.spec().blocks().is_none_or(|b| b.start_state() == StartState::Free);
    let solved = flat.spec().blocks().is_some_and(|b| b.start_state() == StartState::Solved);
    let start = match solved {
        true => Beginning { states: States::zeros(stack.spec(), ROWS), rows: ROWS },
        false => random_start(stack.spec(), arguments.check.seed),
    };
    let other = if at_once { &again } else { &flat };
    let difference = check(&arguments.input, [&stack, other], &start, arguments.check.seed)?;
    stack.save(&arguments.output)?;
    progress!("wrote {}", arguments.output.display());
    if at_once {
        note!(
            "this layer started all its units at once, so its first outputs may differ from the \
             stack's, which starts layer after layer"
        );
    }
    print(&arguments.check, [&flat, &stack], &difference)
}

fn at(path: &Path, error: &drnn::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Sequences of the check, unless start states are given, and the length of the longest.
const ROWS: usize = 8;
const STEPS: usize = 60;

/// Runs both forms on the same random sequences of random lengths.
fn check(
    file: &Path,
    [stack, flat]: [&Model; 2],
    start: &Beginning,
    seed: u64,
) -> Result<Difference, Failure> {
    let (spec, rows, mut rng) = (stack.spec(), start.rows, Rng::new(seed));
    let steps = STEPS + spec.look_ahead();
    let length = |row| if row == 0 { steps } else { rng.below(steps + 1) };
    let lengths: Vec<usize> = (0..rows).map(length).collect();
    let (x, tokens): (Vec<f32>, Vec<u32>);
    let batch = match spec.input() {
        InputSpec::Dense(q) => {
            x = (0..steps * rows * q).map(|_| rng.symmetric(1.0)).collect();
            Batch::dense(&x, Steps(steps), Rows(rows))
        }
        InputSpec::Tokens { symbols, .. } => {
            tokens = (0..steps * rows).map(|_| rng.below(symbols) as u32).collect();
            Batch::tokens(&tokens, Steps(steps), Rows(rows))
        }
    };
    let difference = compare(stack, flat, &batch.lengths(&lengths), Some(&start.states))
        .map_err(|e| Failure::Input(at(file, &e)))?;
    match difference.largest() {
        largest if largest <= TOLERANCE => Ok(difference),
        largest => Err(Failure::Check(format!(
            "the two networks differ by {largest:.1e}, more than {TOLERANCE:.0e}; nothing was written"
        ))),
    }
}

/// Prints what was converted, and the largest differences.
fn print(check: &Check, [from, to]: [&Model; 2], difference: &Difference) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let describe = |spec: &NetSpec| json!({"description": spec.to_string(), "spec": spec});
    if check.json {
        let value = json!({
            "from": describe(from.spec()),
            "to": describe(to.spec()),
            "largest_difference": {
                "answers": difference.outputs,
                "h": difference.h,
                "c": difference.c,
                "last": difference.last,
            },
            "seed": check.seed,
        });
        writeln!(out, "{value}")?;
        return Ok(());
    }
    writeln!(out, "   {from}\n-> {to}\n")?;
    writeln!(out, "largest differences on random sequences of up to {STEPS} elements:")?;
    writeln!(out, "  outputs       {:.1e}", difference.outputs)?;
    for (layer, h) in difference.h.iter().enumerate() {
        write!(out, "  layer {layer:<5} h {h:.1e}")?;
        match difference.c.get(layer) {
            Some(c) => writeln!(out, "  c {c:.1e}")?,
            None => writeln!(out)?,
        }
    }
    writeln!(out, "  last states   {:.1e}", difference.last)?;
    Ok(())
}
