//! `drnn fill`: fills in the masked characters of a text.
//!
//! ```text
//! bytes -> characters (text::decode) -> characters and masks (text::masks)
//!       -> predictions (filler, live) -> text, table or JSON (output)
//! ```

mod filler;
mod output;

use crate::Failure;
use crate::args::reading::Reading;
use crate::files::builtin::{self, DEFAULT_CHARACTERS};
use crate::files::model_file::{in_model, read_model};
use crate::text::decode::Decoder;
use crate::text::masks::Masks;
use clap::Args;
use drnn::{Cpu, Model};
use drnn_tasks::chars::CharTask;
use drnn_tasks::live::LiveModel;
use drnn_train::read::Source;
use filler::Filler;
pub use output::Form;
use output::Output;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Fill in the masked characters of a text, live on a pipe
///
/// Masks are _ and [MASK]. A model with delay d predicts a mask after reading d more characters; text
/// is written as soon as all masks before it are filled. A bidirectional model needs whole lines.
///
/// Capital letters that are not in the model's alphabet are read as small ones, line ends and other white
/// space as spaces, all other unknown characters as masks; in the output they are unchanged.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model of `drnn train chars`: a file, or a built-in model such as chars-en-lstm [default: chars-en]
    model: Option<PathBuf>,
    /// The text, UTF-8; plain, or compressed with gzip, zstd or zip [default: stdin, plain]
    file: Option<PathBuf>,
    /// Text that stands for a masked character; may repeat [default: _ and [MASK]]
    #[arg(long, value_name = "TEXT")]
    mask_text: Vec<String>,
    /// Instead of the text, print a line for each mask: line and column, and the K most likely
    /// characters with their probabilities
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=1000))]
    alternatives: Option<u16>,
    /// Print a JSON object for each mask
    #[arg(long)]
    json: bool,
    /// Treat each line as a separate text, which is filled in when it has ended
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    reading: Reading,
}

/// Alternatives of each mask in JSON without `--alternatives`.
const ALTERNATIVES: usize = 3;

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model = load(arguments.model.as_deref())?;
    // One step of one stream takes microseconds. Several threads would spend more on waiting for
    // each other than they save; on a busy machine a hundred times as much.
    let model = LiveModel::new("fill", model)?.on(&Cpu::from_env()?.with_threads(1));
    let masks = Masks::new(&arguments.mask_text).map_err(Failure::Input)?;
    let count = arguments.alternatives.map(usize::from);
    let (form, model) = match (count, arguments.json) {
        (None, false) => (Form::Text, model.with_alternatives(1)),
        (Some(count), false) => (Form::Table, model.with_alternatives(count)),
        (count, true) => (Form::Json, model.with_alternatives(count.unwrap_or(ALTERNATIVES))),
    };
    let output = Output::new(std::io::stdout().lock(), form);
    let lines = arguments.lines || !model.streams();
    let mut filler = Filler::new(&model, lines, output)?;
    match &arguments.file {
        Some(path) => {
            let name = path.display().to_string();
            fill(&name, arguments.reading.open(path)?, masks, &mut filler)
        }
        None => fill("stdin", std::io::stdin().lock(), masks, &mut filler),
    }
}

/// Fills in all masks of a text and writes them in `form`; how many there were.
pub fn fill_into(
    model: &LiveModel,
    text: Source,
    mask_text: &[String],
    lines: bool,
    form: Form,
    to: &mut impl Write,
) -> Result<usize, Failure> {
    let masks = Masks::new(mask_text).map_err(Failure::Input)?;
    let lines = lines || !model.streams();
    let mut filler = Filler::new(model, lines, Output::new(to, form))?;
    let name = text.name().to_string();
    fill(&name, text, masks, &mut filler)?;
    Ok(filler.masks())
}

/// The model in a file, or a built-in one.
fn load(path: Option<&Path>) -> Result<Model, Failure> {
    let name = path.unwrap_or(Path::new(DEFAULT_CHARACTERS));
    let bytes = match path {
        Some(path) => read_model(path),
        None => Ok(builtin::find(name).unwrap_or_default().to_vec()),
    };
    let model = bytes.and_then(|bytes| Model::from_bytes(&bytes).map_err(|e| in_model(name, e)));
    let model = model.map_err(|e| match e {
        Failure::Input(why) if path.is_some() => {
            let path = name.display();
            Failure::Input(format!(
                "{why}; to fill in a text with the built-in model: drnn fill < {path}"
            ))
        }
        other => other,
    })?;
    let task = CharTask::of(&model);
    task.map_err(|e| Failure::Input(format!("{}: {e}", name.display())))?;
    Ok(model)
}

/// Reads all of `from` and writes what is known after each piece.
fn fill<W: Write>(
    name: &str,
    mut from: impl Read,
    mut masks: Masks,
    filler: &mut Filler<W>,
) -> Result<(), Failure> {
    let mut decoder = Decoder::default();
    let mut buffer = vec![0; 1 << 16];
    loop {
        let count = match from.read(&mut buffer) {
            Ok(count) => count,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(Failure::Input(format!("{name}: cannot be read: {e}"))),
        };
        let refuse = |why: String| Failure::Input(format!("{name}: {why}"));
        let text = match count {
            0 => decoder.end().map(|()| ""),
            _ => decoder.take(&buffer[..count]),
        };
        // The text before a bad byte is answered before the error is reported.
        let (text, bad) = match text {
            Ok(text) => (text, None),
            Err((text, why)) => (text, Some(refuse(why))),
        };
        for character in text.chars() {
            masks.take(character, |mark| filler.take(mark))?;
        }
        if count == 0 || bad.is_some() {
            masks.end(|mark| filler.take(mark))?;
            filler.end()?;
        }
        filler.flush()?;
        match bad {
            Some(bad) => return Err(bad),
            None if count == 0 => return Ok(()),
            None => {}
        }
    }
}
