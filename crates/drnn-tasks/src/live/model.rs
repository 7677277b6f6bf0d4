//! A model with its task, from a file of any kind.

use super::prediction::{Alternative, Predicted, ranked};
use super::sequence::Awaited;
use crate::chars::CharTask;
use crate::error::{Error, Result};
use crate::series::SeriesTask;
use crate::tagger::Tagger;
use drnn::{Bundle, Cpu, Direction, Import, InputSpec, Model, NetSpec};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A model with its task. All models run on whole sequences ([`LiveModel::run`]), and all but
/// bidirectional ones on live sequences ([`super::LiveStream`]).
#[derive(Debug)]
pub struct LiveModel {
    name: String,
    pub(super) task: LiveTask,
    /// Alternatives in the prediction for a masked character, at most.
    pub(super) alternatives: usize,
    /// The longest word that a tagger accepts, in bytes.
    pub(super) max_word: usize,
}

/// What a model was trained for.
#[derive(Debug)]
pub(super) enum LiveTask {
    /// Unknown: numbers or tokens in, the network's outputs out.
    Plain(Arc<Model>),
    Chars(Arc<Model>, Box<CharTask>),
    Series(Arc<Model>, Box<SeriesTask>),
    Tagger(Box<Tagger>),
}

/// The kind of a model's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ElementKind {
    /// This many numbers per element.
    Numbers(usize),
    /// This many fields per element: numbers, times and categories of a series.
    Fields(usize),
    /// Ids below this number of symbols.
    Tokens(usize),
    /// Characters, some of which may be masked.
    Characters,
    /// Words.
    Words,
}

impl fmt::Display for ElementKind {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            ElementKind::Numbers(1) => write!(f, "a number"),
            ElementKind::Numbers(q) => write!(f, "{q} numbers"),
            ElementKind::Fields(1) => write!(f, "a field"),
            ElementKind::Fields(count) => write!(f, "{count} fields"),
            ElementKind::Tokens(symbols) => write!(f, "tokens below {symbols}"),
            ElementKind::Characters => write!(f, "characters"),
            ElementKind::Words => write!(f, "words"),
        }
    }
}

/// Alternatives in the prediction for a masked character, unless [`LiveModel::with_alternatives`] sets
/// another number.
const ALTERNATIVES: usize = 3;
/// The longest word in bytes, unless [`LiveModel::with_max_word`] sets another limit.
const MAX_WORD: usize = 10_000;

impl LiveModel {
    /// Loads a model file: drnn's own, or a PyTorch state dict. Its name is the file's name without
    /// the extension.
    pub fn load(path: &Path) -> Result<LiveModel> {
        LiveModel::import(path, &Import::default())
    }

    /// Loads a model file with `options` for PyTorch files, which do not say everything about a
    /// network; drnn's own files do.
    pub fn import(path: &Path, options: &Import) -> Result<LiveModel> {
        let bytes = drnn::io::read_model_file(path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        LiveModel::import_bytes(&name, &bytes, options).map_err(|source| {
            let reason = match &source {
                // Without the library's own placeholder for the file's name.
                Error::Drnn(drnn::Error::File(error)) => error.reason().to_string(),
                other => other.to_string(),
            };
            Error::File { file: path.display().to_string(), reason, source: Box::new(source) }
        })
    }

    /// Reads a model from the bytes of its file.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<LiveModel> {
        LiveModel::import_bytes(name, bytes, &Import::default())
    }

    /// The same for drnn's own files alone. A program that reads no others need not contain their
    /// readers: a WebAssembly module is a tenth smaller for it.
    pub fn from_own_bytes(name: &str, bytes: &[u8]) -> Result<LiveModel> {
        match Bundle::is_bundle(bytes) {
            Some(true) => Ok(LiveModel::from_tagger(name, Tagger::from_bytes(bytes)?)),
            _ => LiveModel::new(name, Model::from_bytes(bytes)?),
        }
    }

    fn import_bytes(name: &str, bytes: &[u8], options: &Import) -> Result<LiveModel> {
        match Bundle::is_bundle(bytes) {
            Some(true) if options.prefix.is_some() || options.relu => Err(Error::Data(
                "is drnn's own file, which needs no prefix and no nonlinearity".into(),
            )),
            Some(true) => Ok(LiveModel::from_tagger(name, Tagger::from_bytes(bytes)?)),
            _ => LiveModel::new(name, Model::import_bytes(bytes, options)?),
        }
    }

    /// A model of one network, which may be shared, with the task that it names. An unknown task is
    /// ignored.
    pub fn new(name: &str, model: impl Into<Arc<Model>>) -> Result<LiveModel> {
        let model = model.into();
        let task = model.task().and_then(|task| task["task"].as_str());
        let task = match (task, model.task()) {
            (Some(SeriesTask::NAME), Some(value)) => {
                let task = SeriesTask::from_value(value, model.spec())?;
                LiveTask::Series(model, Box::new(task))
            }
            (Some(CharTask::NAME), _) => {
                let task = CharTask::of(&model)?;
                LiveTask::Chars(model, Box::new(task))
            }
            _ => LiveTask::Plain(model),
        };
        Ok(LiveModel::of(name, task))
    }

    /// A tagger that was read or trained.
    pub fn from_tagger(name: &str, tagger: Tagger) -> LiveModel {
        LiveModel::of(name, LiveTask::Tagger(Box::new(tagger)))
    }

    fn of(name: &str, task: LiveTask) -> LiveModel {
        LiveModel { name: name.into(), task, alternatives: ALTERNATIVES, max_word: MAX_WORD }
    }

    /// Sets the number of alternatives in the prediction for a masked character; the default is 3.
    pub fn with_alternatives(self, count: usize) -> LiveModel {
        LiveModel { alternatives: count, ..self }
    }

    /// Sets the maximum length of a word in bytes; the default is 10,000. A word's spelling is a sequence of
    /// its own, so the limit bounds the memory that one word can take.
    pub fn with_max_word(self, bytes: usize) -> LiveModel {
        LiveModel { max_word: bytes, ..self }
    }

    /// The spec of the network whose outputs are the predictions.
    pub fn spec(&self) -> &NetSpec {
        self.network().spec()
    }

    /// Whether it can run on live sequences. A bidirectional model cannot: it needs the end.
    pub fn streams(&self) -> bool {
        self.network().spec().direction() != Direction::Bidirectional
    }

    /// An error if it cannot run on live sequences.
    pub(super) fn check_streams(&self) -> Result<()> {
        match self.streams() {
            true => Ok(()),
            false => Err(drnn::Error::Stream(
                "the network is bidirectional: it also reads a sequence from its end, so it has no \
                 outputs before the end; train a delayed one (dlstm, dgru, drnn), or use it on \
                 whole sequences"
                    .into(),
            )
            .into()),
        }
    }

    /// Runs it on these threads.
    pub fn on(self, cpu: &Cpu) -> LiveModel {
        let moved = |model: Arc<Model>| Arc::new(Arc::unwrap_or_clone(model).on(cpu));
        let task = match self.task {
            LiveTask::Plain(model) => LiveTask::Plain(moved(model)),
            LiveTask::Chars(model, task) => LiveTask::Chars(moved(model), task),
            LiveTask::Series(model, task) => LiveTask::Series(moved(model), task),
            LiveTask::Tagger(tagger) => LiveTask::Tagger(Box::new(tagger.on(cpu))),
        };
        LiveModel { task, ..self }
    }

    /// Gives it another name.
    pub fn named(self, name: &str) -> LiveModel {
        LiveModel { name: name.into(), ..self }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `chars`, `series`, `tagger`, or `plain`.
    pub fn task(&self) -> &'static str {
        match &self.task {
            LiveTask::Plain(_) => "plain",
            LiveTask::Chars(..) => CharTask::NAME,
            LiveTask::Series(..) => SeriesTask::NAME,
            LiveTask::Tagger(_) => "tagger",
        }
    }

    /// Columns, classes and scaling of a series model; None for other tasks.
    pub fn series(&self) -> Option<&SeriesTask> {
        match &self.task {
            LiveTask::Series(_, task) => Some(task),
            _ => None,
        }
    }

    /// Vocabulary and networks of a tagger; None for other tasks.
    pub fn tagger(&self) -> Option<&Tagger> {
        match &self.task {
            LiveTask::Tagger(tagger) => Some(tagger),
            _ => None,
        }
    }

    /// The kind of its elements.
    pub fn element_kind(&self) -> ElementKind {
        match (&self.task, self.network().spec().input()) {
            (LiveTask::Tagger(_), _) => ElementKind::Words,
            (LiveTask::Chars(..), _) => ElementKind::Characters,
            (LiveTask::Series(_, task), _) if task.columns.is_some() => {
                ElementKind::Fields(task.input_columns().len())
            }
            (_, InputSpec::Dense(q)) => ElementKind::Numbers(q),
            (_, InputSpec::Tokens { symbols, .. }) => ElementKind::Tokens(symbols),
        }
    }

    /// The delay d: the prediction for an element is due once d more have been read.
    pub fn latency(&self) -> usize {
        self.network().spec().delay()
    }

    /// The number of parameters, of all its networks.
    pub fn parameters(&self) -> usize {
        match &self.task {
            LiveTask::Tagger(tagger) => tagger.parameters(),
            _ => self.network().params().len(),
        }
    }

    /// One line for people: its elements and its predictions.
    pub fn description(&self) -> String {
        let what = match &self.task {
            LiveTask::Plain(_) => "numbers".into(),
            LiveTask::Chars(_, task) => format!("{} characters", task.alphabet().len()),
            LiveTask::Series(_, task) => match &task.classes {
                Some(classes) => {
                    format!("{} classes of {}", classes.len(), task.targets.join(", "))
                }
                None => format!("values of {}", task.targets.join(", ")),
            },
            LiveTask::Tagger(tagger) => format!("{} tags", tagger.vocabulary().tags().len()),
        };
        let (task, reads, spec) = (self.task(), self.element_kind(), self.network().spec());
        format!("{task}: reads {reads}, predicts {what}; {spec}")
    }

    /// The network that is stepped: its inputs are scaled numbers, symbols, or encoded words.
    pub fn network(&self) -> &Model {
        match &self.task {
            LiveTask::Plain(model) | LiveTask::Chars(model, _) | LiveTask::Series(model, _) => {
                model
            }
            LiveTask::Tagger(tagger) => &tagger.words,
        }
    }

    /// The prediction that the network's outputs `y` stand for.
    pub(super) fn value(&self, y: &[f32], awaited: Awaited) -> Predicted<'_> {
        match (&self.task, awaited) {
            (LiveTask::Chars(_, task), Awaited::Char(None)) => {
                let best = ranked(y).into_iter().take(self.alternatives.max(1));
                let named = |(class, probability): (usize, f64)| Alternative {
                    character: task.alphabet().symbols()[class],
                    probability,
                };
                let alternatives: Vec<Alternative> = best.map(named).collect();
                let character = alternatives.first().map_or(' ', |best| best.character);
                Predicted::Character { character, masked: true, alternatives }
            }
            (_, Awaited::Char(Some(character))) => {
                Predicted::Character { character, masked: false, alternatives: Vec::new() }
            }
            (LiveTask::Series(_, task), _) => series_value(task, y),
            (LiveTask::Tagger(tagger), Awaited::Word(word)) => {
                let (tag, probability) = tagger.best(y);
                Predicted::Tag { word, tag, probability }
            }
            _ => Predicted::Numbers { values: y.to_vec() },
        }
    }
}

fn series_value<'m>(task: &'m SeriesTask, y: &[f32]) -> Predicted<'m> {
    if let Some(scaling) = &task.scaling.targets {
        let named = task.targets.iter().zip(y).enumerate();
        let values = named.map(|(at, (name, y))| (name.as_str(), scaling.undo(at, *y))).collect();
        return Predicted::Named { values };
    }
    let classes = task.classes.as_deref().unwrap_or_default();
    let named = |(class, p): (usize, f64)| (classes[class].as_str(), p);
    let probabilities: Vec<(&str, f64)> = ranked(y).into_iter().map(named).collect();
    let (class, probability) = probabilities.first().copied().unwrap_or_default();
    Predicted::Class { class, probability, probabilities }
}
