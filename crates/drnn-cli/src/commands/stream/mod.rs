//! `drnn stream`: elements in, answers out, each as soon as it is known.
//!
//! ```text
//! stdin -> bytes (arrival) -> text (text::decode) -> elements (elements) -> LiveStream -> stdout (output)
//! ```
//!
//! A thread reads; this one takes what has arrived, and writes out what it knows when nothing more is there. Nothing
//! grows: whoever writes faster than the model reads has to wait.
//!
//! | file | what |
//! |---|---|
//! | `arrival` | bytes as they arrive |
//! | `elements` | text as elements, by `--from` |
//! | `output` | answers as text or JSON |

mod arrival;
mod elements;
mod output;

use crate::Failure;
use crate::args::import::ImportArguments;
use crate::console::progress;
use crate::text::decode::Decoder;
use crate::training::stop::Stop;
use arrival::{Arrival, Arrived};
use clap::{Args, ValueEnum};
use drnn_tasks::live::{ElementKind, LiveStream};
use elements::{Elements, From, Item};
use output::{Output, To};
use std::path::PathBuf;

/// Answer a live sequence: elements in on stdin, answers out on stdout, each as soon as it is known
///
/// Any model that streams: one of `drnn train` reads and answers in the terms it was trained with, any other numbers
/// or tokens. An answer comes as many elements late as the model's delay.
///   series   numbers in their own units; values of the targets, or the class and its probability
///   tagger   words; the word and its tag
///   chars    text, _ and [MASK] are masked: as text the completed text, as JSON the masked characters only
/// Examples:
///   drnn stream out/series/model.safetensors < sensor.csv
///   tail -f words.txt | drnn stream out/tagger/model.safetensors --flush blank
///   drnn stream out/chars/model.safetensors --to json < text.txt
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model file
    model: PathBuf,
    /// What comes in [default: chars, csv or lines: what the model's task suggests]
    #[arg(long, value_enum)]
    from: Option<From>,
    /// What goes out
    #[arg(long, value_enum, default_value = "text")]
    to: To,
    /// When a sequence ends: what is due is answered, with padding for what would follow, and a new one begins
    #[arg(long, value_enum, default_value = "end")]
    flush: Flush,
    /// Threads: more than one pay only for large models, and only where cores are idle
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    #[command(flatten)]
    import: ImportArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Flush {
    /// At the end of the input, and where a series' own column says so; blank lines are passed over
    End,
    /// At every blank line too; one goes out as well
    Blank,
    /// Not at all: the last answers stay due
    Never,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { model: path, from, to, flush, threads, import } = arguments;
    let cpu = drnn::Cpu::from_env()?.with_threads((*threads).into());
    let model = import.load_live(path)?.on(&cpu);
    let stream =
        LiveStream::new(&model).map_err(|e| Failure::Input(format!("{}: {e}", path.display())))?;
    let elements = Elements::new(&model, *from, *flush == Flush::Blank)?;
    let late = match model.latency() {
        0 => "at once".into(),
        1 => "1 element late".into(),
        d => format!("{d} elements late"),
    };
    progress!("{}; answers come {late}", model.description());
    let keeps_lines = model.element_kind() == ElementKind::Characters;
    let output = Output::new(std::io::stdout().lock(), *to, keeps_lines);
    let mut live = Live { stream, output, flush: *flush };
    let outcome = live.all(elements, Arrival::of_stdin(Stop::on_ctrl_c()?));
    // Whatever ends it, what is known is written.
    live.output.flush()?;
    outcome
}

/// A sequence, and where its answers go.
struct Live<'m> {
    stream: LiveStream<'m>,
    output: Output<std::io::StdoutLock<'static>>,
    flush: Flush,
}

impl Live<'_> {
    fn all(&mut self, mut elements: Elements, mut arrival: Arrival) -> Result<(), Failure> {
        let mut decoder = Decoder::default();
        loop {
            let text = match arrival.next() {
                Arrived::Bytes(bytes) => decoder.take(bytes),
                Arrived::Nothing => {
                    self.output.flush()?;
                    arrival.wait()?;
                    continue;
                }
                Arrived::End => decoder.end().map(|()| ""),
                Arrived::Failed(why) => return Err(elements.refuse(why)),
            };
            let (text, bad) = match text {
                Ok(text) => (text, None),
                Err((text, why)) => (text, Some(why)),
            };
            elements.take(text, |item| self.item(item))?;
            if let Some(why) = bad {
                return Err(elements.refuse(why));
            }
            if arrival.ended() {
                elements.end(|item| self.item(item))?;
                return self.end();
            }
        }
    }

    fn item(&mut self, item: Item) -> Result<(), Failure> {
        match item {
            Item::Element(element) => {
                if let Some(answer) = self.stream.push(&element)? {
                    self.output.answer(&answer)?;
                }
                Ok(())
            }
            Item::Begins if self.flush == Flush::Never => Ok(()),
            Item::Begins => {
                self.end()?;
                Ok(self.output.gap()?)
            }
        }
    }

    fn end(&mut self) -> Result<(), Failure> {
        if self.flush == Flush::Never {
            return Ok(());
        }
        self.stream.flush()?.iter().try_for_each(|answer| Ok(self.output.answer(answer)?))
    }
}
