//! `drnn tag`: words in, tags out, as soon as they are known.
//!
//! ```text
//! text, tokens, CoNLL-U -> words (input) -> tags (sentences, live) -> columns or CoNLL-U (output)
//! ```
//!
//! A thread reads; this one tags what has arrived. Complete sentences are tagged in batches. A
//! sentence that has not ended is tagged word by word, each tag d words late.

pub mod input;
mod output;
mod sentences;

use crate::Failure;
use crate::args::reading::Reading;
use crate::console::progress;
use crate::files::builtin::{self, DEFAULT_TAGGER};
use crate::files::model_file::{in_model, read_model};
use crate::training::place::PlaceArguments;
use crate::training::placed::PlacedLive;
use clap::Args;
use drnn::Bundle;
use drnn_tasks::live::LiveModel;
use drnn_tasks::tagger::Tagger;
use drnn_train::read::{MAX_LINE_BYTES, Source};
use input::{From, Piece};
use output::{Output, To};
use sentences::{Arriving, Complete};
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, TryRecvError};

/// Tag words: text or tokens in, a tag for each out
///
/// Running text has one or more sentences per line and is tagged line by line. Tokens come one per
/// line, and a blank line ends a sentence: the tag of word t is written as soon as word t + d has been
/// read, where d is the model's delay; a bidirectional model needs the whole sentence. In CoNLL-U the
/// column UPOS is filled in, and everything else stays. A GPU (--device) tags complete sentences.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model of `drnn train tagger`: a file, or a built-in model [default: tagger-en]
    model: Option<PathBuf>,
    /// What to tag, plain or compressed [default: standard input]
    file: Option<PathBuf>,
    /// Input format
    #[arg(long, value_enum, default_value = "text")]
    from: From,
    /// Output format [default: tsv; conllu for CoNLL-U input]
    #[arg(long, value_enum)]
    to: Option<To>,
    /// Add the probability of each tag, as a third column of tsv
    #[arg(long)]
    probabilities: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    place: PlaceArguments,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let place = arguments.place.find()?;
    let tagger = load(arguments.model.as_deref())?.on(&drnn::Cpu::from_env()?);
    let to = arguments.to.unwrap_or(match arguments.from {
        From::Conllu => To::Conllu,
        _ => To::Tsv,
    });
    let source = open(arguments.file.as_deref(), arguments.reading)?;
    let late = match tagger.net().latency() {
        None => "when the sentence has ended".into(),
        Some(0) => "without delay".into(),
        Some(1) => "1 word late".into(),
        Some(d) => format!("{d} words late"),
    };
    progress!("{} tags; tags come {late}", tagger.vocabulary().tags().len());
    let pieces = input::pieces(source, arguments.from, tagger.counting());
    // A word is part of a line, which has a limit of its own.
    let model = LiveModel::from_tagger("tag", tagger).with_max_word(MAX_LINE_BYTES);
    let output = Output::new(std::io::stdout().lock(), to, arguments.probabilities);
    let placed = PlacedLive::new(&place, &model)?;
    tag_all(&pieces, Arriving::new(&model)?, Complete::new(&placed), output)
}

/// The tagger in a file, or a built-in one.
fn load(path: Option<&Path>) -> Result<Tagger, Failure> {
    let name = path.unwrap_or(Path::new(DEFAULT_TAGGER));
    let bytes = match path {
        Some(path) => read_model(path)?,
        None => builtin::find(name).unwrap_or_default().to_vec(),
    };
    let bundle = Bundle::from_bytes(&bytes).map_err(|e| in_model(name, e))?;
    Tagger::from_bundle(bundle).map_err(|e| Failure::Input(format!("{}: {e}", name.display())))
}

fn open(file: Option<&Path>, reading: Reading) -> Result<Source, Failure> {
    Ok(match file {
        Some(path) => reading.open(path)?,
        None => Source::new("standard input", BufReader::new(std::io::stdin()))?,
    })
}

/// Tags pieces as they come until there are no more. Before it waits for the next one, everything
/// that is known is written.
fn tag_all<W: Write>(
    pieces: &Receiver<Piece>,
    mut arriving: Arriving,
    mut complete: Complete,
    mut output: Output<W>,
) -> Result<(), Failure> {
    let output = &mut output;
    loop {
        let piece = match pieces.try_recv() {
            Ok(piece) => piece,
            Err(TryRecvError::Empty) => {
                complete.tag(output)?;
                arriving.tag(output)?;
                output.flush()?;
                match pieces.recv() {
                    Ok(piece) => piece,
                    Err(_) => break,
                }
            }
            Err(TryRecvError::Disconnected) => break,
        };
        match piece {
            Piece::Token(word) => arriving.push(word),
            Piece::End => {
                if let Some(whole) = arriving.end(output)? {
                    complete.push(whole, output)?;
                }
            }
            Piece::Whole(whole) => complete.push(whole, output)?,
            Piece::Failed(error) => {
                complete.tag(output)?;
                output.flush()?;
                return Err(error.into());
            }
        }
    }
    if let Some(whole) = arriving.end(output)? {
        complete.push(whole, output)?;
    }
    complete.tag(output)?;
    Ok(output.flush()?)
}
