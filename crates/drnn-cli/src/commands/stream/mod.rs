//! `drnn stream`: elements in, predictions out, each as soon as it is known.
//!
//! ```text
//! stdin -> bytes (arrival) -> text (text::decode) -> elements (elements) -> LiveStream -> stdout (output)
//! ```
//!
//! A thread reads; this one processes what has arrived, and flushes its output whenever it has to
//! wait. Memory is bounded: a writer that is faster than the model has to wait.
//!
//! | file | what |
//! |---|---|
//! | `arrival` | bytes as they arrive |
//! | `elements` | splits text into elements, by `--from` |
//! | `output` | predictions as text or JSON |

mod arrival;
mod elements;
mod output;

use crate::Failure;
use crate::args::import::ImportArguments;
use crate::args::series::unknown_categories;
use crate::console::{note, progress, warning};
use crate::text::decode::Decoder;
use crate::training::stop::Stop;
use arrival::{Arrival, Arrived};
use clap::{Args, ValueEnum};
use drnn::text::grouped;
use drnn_tasks::live::{ElementKind, LiveModel, LiveStream};
use elements::{BadLines, Elements, From, Item};
use output::{Output, To};
use std::path::PathBuf;

/// Stream a live sequence: elements in on stdin, predictions out on stdout, each as soon as it is known
///
/// For any model that is not bidirectional. A model of `drnn train` uses the units and names of its
/// training data, any other model numbers or tokens. The prediction for element t is written as soon
/// as element t + d has been read, where d is the model's delay.
///   series   numbers in their units; values of the targets, or the class and its probability
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
    /// Input format [default: chars, csv or lines, by the model's task]
    #[arg(long, value_enum)]
    from: Option<From>,
    /// Output format
    #[arg(long, value_enum, default_value = "text")]
    to: To,
    /// When a sequence ends: outstanding predictions are made, with padding, and a new sequence begins
    #[arg(long, value_enum, default_value = "end")]
    flush: Flush,
    /// What to do with a line that is no element of the model. A line that is left out does not change
    /// the state; with skip and mark, bytes that are not UTF-8 are read as U+FFFD
    #[arg(long, value_enum, default_value = "stop")]
    bad_lines: BadLines,
    /// Threads: more than one is faster only for large models on idle cores
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: u16,
    #[command(flatten)]
    import: ImportArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Flush {
    /// At the end of the input, and where the sequence column of a series changes; blank lines are skipped
    End,
    /// Also at every blank line, which is repeated in the output
    Blank,
    /// Never: the last predictions are not made
    Never,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { model: path, from, to, flush, bad_lines, threads, import } = arguments;
    let cpu = drnn::Cpu::from_env()?.with_threads((*threads).into());
    let model = import.load_live(path)?.on(&cpu);
    let stream =
        LiveStream::new(&model).map_err(|e| Failure::Input(format!("{}: {e}", path.display())))?;
    let elements = Elements::new(&model, *from, *flush == Flush::Blank, *bad_lines)?;
    let late = match model.latency() {
        0 => "without delay".into(),
        1 => "1 element late".into(),
        d => format!("{d} elements late"),
    };
    progress!("{}; predictions come {late}", model.description());
    let keeps_lines = model.element_kind() == ElementKind::Characters;
    let output = Output::new(std::io::stdout().lock(), *to, keeps_lines);
    let (flush, bad_lines) = (*flush, *bad_lines);
    let (model, unknown, bad) = (&model, 0, BadCount::default());
    let mut live = Live { model, unknown, stream, output, flush, bad_lines, bad };
    let outcome = live.all(elements, Arrival::of_stdin(Stop::on_ctrl_c()?));
    // However it ends, all known predictions are written.
    live.output.end()?;
    live.output.flush()?;
    live.report_bad_lines();
    unknown_categories(live.unknown).iter().for_each(|text| note!("{text}"));
    outcome
}

/// A sequence, and the output of its predictions.
struct Live<'m> {
    model: &'m LiveModel,
    /// Fields with categories that the model does not know.
    unknown: usize,
    stream: LiveStream<'m>,
    output: Output<std::io::StdoutLock<'static>>,
    flush: Flush,
    bad_lines: BadLines,
    bad: BadCount,
}

/// Lines that were left out.
#[derive(Default)]
struct BadCount {
    elements: u64,
    bad: u64,
    /// The first of them.
    first: Option<(u64, String)>,
}

impl Live<'_> {
    fn all(&mut self, mut elements: Elements, mut arrival: Arrival) -> Result<(), Failure> {
        let mut decoder = match self.bad_lines {
            BadLines::Stop => Decoder::default(),
            BadLines::Skip | BadLines::Mark => Decoder::lossy(),
        };
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
                let answer = self.stream.push(&element)?;
                self.unknown += self.model.unknown_categories(&element);
                self.bad.elements += 1;
                answer.map_or(Ok(()), |answer| Ok(self.output.answer(&answer)?))
            }
            Item::Bad { line, why } => {
                self.bad.bad += 1;
                self.bad.first.get_or_insert_with(|| (line, why.clone()));
                match self.bad_lines {
                    BadLines::Mark => Ok(self.output.mark(self.stream.position(), line, why)?),
                    BadLines::Skip | BadLines::Stop => Ok(()),
                }
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
    /// A warning, if lines were left out.
    fn report_bad_lines(&self) {
        let BadCount { elements, bad, first } = &self.bad;
        if let Some((line, why)) = first {
            let count = |n: &u64| grouped(usize::try_from(*n).unwrap_or(usize::MAX));
            warning!(
                "{} bad lines were left out, {} elements were read; the first is line {line}: {why}",
                count(bad),
                count(elements)
            );
        }
    }
}
