//! `drnn predict`: a file in, its predictions out as a table, for every task and every network.
//!
//! ```text
//! table, array  -> rows (series)           -> Predictor -> kept columns and predictions (sheet)
//! text          -> characters, masks       -> fill      -> one row for each mask (fill::output)
//! text, CoNLL-U -> sentences (words)       -> LiveRun   -> one row for each word (sheet)
//! ```
//!
//! | file | what |
//! |---|---|
//! | `predictor` | a sequence through the model: live, or whole where it is bidirectional |
//! | `series` | rows of a table or an array |
//! | `words` | words of sentences |
//! | `sheet` | rows as CSV or JSON lines |

mod predictor;
mod series;
mod sheet;
mod words;

use crate::Failure;
use crate::args::reading::Reading;
use crate::commands::fill::{self, Form};
use crate::commands::tag::input::From;
use crate::console::progress;
use crate::files::model_file::ModelFile;
use crate::files::paths::check_not_read;
use crate::training::place::{Place, PlaceArguments};
use crate::training::placed::PlacedLive;
use clap::{Args, ValueEnum};
use drnn::{Cpu, Import};
use drnn_tasks::live::LiveModel;
use drnn_tasks::tagger::Tagger;
use drnn_train::read::Source;
use sheet::Sheet;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

/// Predict all of a file: a table with the predictions next to its own columns
///
/// For models of `drnn train`, bidirectional ones too. Numbers are those of `drnn stream` and `drnn eval`.
///   series   a CSV table (the target may be missing) or X.npy: predicted values in their own units, or the
///            class and its probability; a forecast stands in the row from which it was made
///   chars    a text with masks (_ and [MASK]): line, column, character and probability of each mask
///   tagger   text, tokens or CoNLL-U: sentence, number, word, tag and probability of each word
/// A model that is not bidirectional reads a file of any length in constant memory, unless a GPU runs it
/// (--device). Examples:
///   drnn predict out/series/model.safetensors new.csv -o predicted.csv --columns id,time
///   drnn predict out/tagger/model.safetensors text.conllu -o - --to json
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model of `drnn train`
    model: PathBuf,
    /// What to predict, plain or compressed; - for stdin
    data: PathBuf,
    /// File for the predictions; - for stdout. It is written whole or not at all
    #[arg(long, short, value_name = "OUT")]
    output: PathBuf,
    /// Output format: a table, or a JSON object per line
    #[arg(long, value_enum, default_value = "csv")]
    to: To,
    /// series: columns of the table to repeat in the output, or none [default: all]
    #[arg(long, value_name = "COL,..", value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// series: a column with the probability of each class
    #[arg(long)]
    probabilities: bool,
    /// tagger: input format [default: conllu and tokens for names with .conllu and .tsv, otherwise text]
    #[arg(long, value_enum)]
    from: Option<From>,
    /// chars: text that stands for a masked character; may repeat [default: _ and [MASK]]
    #[arg(long, value_name = "TEXT")]
    mask_text: Vec<String>,
    /// chars: treat each line as a separate text
    #[arg(long)]
    lines: bool,
    #[command(flatten)]
    reading: Reading,
    #[command(flatten)]
    place: PlaceArguments,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum To {
    Csv,
    Json,
}

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Arguments { model: path, data, output, .. } = arguments;
    let is_stdout = output == Path::new("-");
    if !is_stdout {
        check_not_read("--output", output, [path.as_path(), data.as_path()])?;
    }
    let model = load(path)?;
    arguments.check(&model)?;
    let place = match model.task() {
        "chars" => arguments.place.only_cpu_for("masks are filled in")?,
        _ => arguments.place.find()?,
    };
    let source = arguments.open()?;
    if is_stdout {
        return arguments.write(&model, &place, source, &mut std::io::stdout().lock()).map(|_| ());
    }
    // A failure that is not the file's is carried past the writer.
    let mut outcome = Ok(0);
    let written = drnn::io::write_atomically(output, |file| {
        outcome = arguments.write(&model, &place, source, file);
        match &outcome {
            Ok(_) => Ok(()),
            Err(_) => Err(std::io::Error::other("stopped")),
        }
    });
    let rows = match (outcome, written) {
        (Err(Failure::Output(e)), _) | (Ok(_), Err(e)) => {
            let why = format!("{}: cannot be written: {e}", output.display());
            return Err(Failure::Input(why));
        }
        (outcome, _) => outcome?,
    };
    progress!("wrote {} predictions to {}", drnn::text::grouped(rows), output.display());
    Ok(())
}

/// The model with its task.
fn load(path: &Path) -> Result<LiveModel, Failure> {
    let in_model = |why: String| Failure::Input(format!("{}: {why}", path.display()));
    let name = path.file_stem().unwrap_or_default().to_string_lossy();
    let model = match ModelFile::open(path, &Import::default())? {
        ModelFile::One(model) => LiveModel::new(&name, *model),
        ModelFile::Several(bundle) => {
            Tagger::from_bundle(bundle).map(|tagger| LiveModel::from_tagger(&name, tagger))
        }
    };
    let model = model.map_err(|e| in_model(e.to_string()))?;
    if model.task() == "plain" {
        let why = "does not say what it was trained for; `drnn run` and `drnn stream` compute its outputs";
        return Err(in_model(why.into()));
    }
    // One step takes microseconds: threads would wait for each other longer than they compute.
    let steps_alone = model.streams() && model.task() != "tagger";
    let cpu = Cpu::from_env()?;
    Ok(model.on(&if steps_alone { cpu.with_threads(1) } else { cpu }))
}

impl Arguments {
    /// Refuses options of another task.
    fn check(&self, model: &LiveModel) -> Result<(), Failure> {
        let options = [
            ("--columns", "series", self.columns.is_some()),
            ("--probabilities", "series", self.probabilities),
            ("--from", "tagger", self.from.is_some()),
            ("--mask-text", "chars", !self.mask_text.is_empty()),
            ("--lines", "chars", self.lines),
        ];
        match options.iter().find(|(_, task, given)| *given && *task != model.task()) {
            Some((option, task, _)) => {
                let (model, of) = (self.model.display(), model.task());
                let why = format!("{option} is for {task}; {model} is a model of {of}");
                Err(Failure::Input(why))
            }
            None => Ok(()),
        }
    }

    fn open(&self) -> Result<Source, Failure> {
        Ok(match self.data == Path::new("-") {
            true => Source::new("standard input", BufReader::new(std::io::stdin()))?,
            false => self.reading.open(&self.data)?,
        })
    }

    /// Writes all predictions; how many.
    fn write(
        &self,
        model: &LiveModel,
        place: &Place,
        source: Source,
        to: &mut impl Write,
    ) -> Result<usize, Failure> {
        let placed = || PlacedLive::new(place, model);
        match model.task() {
            "series" => {
                let placed = placed()?;
                let options = series::Options {
                    columns: self.columns.as_deref(),
                    probabilities: self.probabilities,
                };
                series::predict(model, &placed, source, &options, Sheet::new(to, self.to))
            }
            "chars" => {
                let form = if self.to == To::Json { Form::Json } else { Form::Csv };
                fill::fill_into(model, source, &self.mask_text, self.lines, form, to)
            }
            _ => {
                let placed = placed()?;
                let guess = match source.name() {
                    name if name.contains(".conllu") => From::Conllu,
                    name if name.contains(".tsv") => From::Tokens,
                    _ => From::Text,
                };
                let from = self.from.unwrap_or(guess);
                words::predict(model, &placed, source, from, Sheet::new(to, self.to))
            }
        }
    }
}
