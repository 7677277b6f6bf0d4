//! `drnn fill`: a text with holes in, the completed text out.
//!
//! ```text
//! bytes -> characters (decode) -> characters and masks (holes) -> answers (guess) -> text or JSON (output)
//! ```
//!
//! | file | what |
//! |---|---|
//! | `decode` | UTF-8 in pieces, as a pipe gives them |
//! | `holes` | which characters stand for a mask |
//! | `guess` | what the model says: live, or when a line has ended |
//! | `output` | what is written of it |

pub mod decode;
mod guess;
pub mod holes;
mod output;

use crate::Failure;
use crate::args::reading::Reading;
use crate::files::builtin::characters;
use clap::Args;
use decode::Decoder;
use drnn::{Cpu, Direction};
use drnn_tasks::chars::CharTask;
use guess::{Guesser, Lines, Live};
use holes::Holes;
use output::{Form, Output};
use std::io::Read;
use std::path::PathBuf;

/// Fill in the masked characters of a text, live on a pipe
///
/// Masks are _ and [MASK]. A delayed model answers as many characters late as its delay; text is written as soon as
/// nothing before it is unanswered. A bidirectional model answers when a line has ended.
///
/// Capital letters that the model does not know are read as small ones, line ends and other white space as spaces,
/// all other unknown characters as masks; they are written as they came.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// A model of `drnn train chars` [default: a small English one that is built in]
    model: Option<PathBuf>,
    /// The text, UTF-8; plain, or packed by gzip, zstd or zip [default: stdin, plain]
    file: Option<PathBuf>,
    /// What stands for a masked character; may repeat [default: _ and [MASK]]
    #[arg(long, value_name = "TEXT")]
    mask_text: Vec<String>,
    /// Instead of the text a line for each mask: its line and column, and the K likeliest characters with their
    /// probabilities
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u16).range(1..=1000))]
    alternatives: Option<u16>,
    /// The same as JSON, an object for each mask
    #[arg(long)]
    json: bool,
    /// Each line is a text of its own: all of it is answered when it ends
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    reading: Reading,
}

/// Alternatives that JSON has where nobody says.
const ALTERNATIVES: usize = 3;

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let model =
        characters(arguments.model.as_deref()).map_err(|e| match (e, &arguments.model) {
            (Failure::Input(why), Some(path)) => {
                let path = path.display();
                Failure::Input(format!("{why}; a text for the built-in model: drnn fill < {path}"))
            }
            (other, _) => other,
        })?;
    // One step of one stream is microseconds of work: threads that wait for each other would cost more than they do,
    // on a busy machine a hundred times as much.
    let model = model.on(&Cpu::from_env()?.with_threads(1));
    let task = CharTask::of(&model).map_err(|e| match &arguments.model {
        Some(path) => Failure::Input(format!("{}: {e}", path.display())),
        None => e.into(),
    })?;
    let holes = Holes::new(&arguments.mask_text).map_err(Failure::Input)?;
    let form = match (arguments.alternatives.map(usize::from), arguments.json) {
        (None, false) => Form::Text,
        (Some(most), false) => Form::Table(most),
        (most, true) => Form::Json(most.unwrap_or(ALTERNATIVES)),
    };
    let output = Output::new(std::io::stdout().lock(), form, &task);
    let whole = arguments.lines || model.spec().direction() == Direction::Bidirectional;
    let mut guesser: Box<dyn Guesser> = match whole {
        true => Box::new(Lines::new(&model, &task, output)),
        false => Box::new(Live::new(&model, &task, output)?),
    };
    match &arguments.file {
        Some(path) => {
            fill(&path.display().to_string(), arguments.reading.open(path)?, holes, &mut *guesser)
        }
        None => fill("stdin", std::io::stdin().lock(), holes, &mut *guesser),
    }
}

/// From one end to the other, with whatever is there at a time.
fn fill(
    name: &str,
    mut from: impl Read,
    mut holes: Holes,
    guesser: &mut dyn Guesser,
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
        // What came before a bad byte is answered first.
        let (text, bad) = match text {
            Ok(text) => (text, None),
            Err((text, why)) => (text, Some(refuse(why))),
        };
        for character in text.chars() {
            holes.take(character, |mark| guesser.take(mark))?;
        }
        if count == 0 || bad.is_some() {
            holes.end(|mark| guesser.take(mark))?;
            guesser.end()?;
        }
        guesser.flush()?;
        match bad {
            Some(bad) => return Err(bad),
            None if count == 0 => return Ok(()),
            None => {}
        }
    }
}
