//! A model file, whatever its task.

use super::answer::{Alternative, Value, ranked};
use super::sequence::Asked;
use crate::chars::CharTask;
use crate::error::{Error, Result};
use crate::series::SeriesTask;
use crate::tagger::Tagger;
use drnn::{Bundle, Cpu, Direction, Import, InputSpec, Model, NetSpec};
use std::fmt;
use std::path::Path;

/// A model with its task. Most answer while their input is arriving ([`LiveModel::streams`]), all answer whole
/// sequences.
#[derive(Debug)]
pub struct LiveModel {
    name: String,
    pub(super) task: Task,
    /// Alternatives in the answer to a masked character, at most.
    pub(super) alternatives: usize,
    /// The longest word that a tagger accepts, in bytes.
    pub(super) max_word: usize,
}

/// What it was trained for.
#[derive(Debug)]
pub(super) enum Task {
    /// Nothing that its file tells: numbers or tokens in, numbers out.
    Plain(Box<Model>),
    Chars(Box<Model>, Box<CharTask>),
    Series(Box<Model>, Box<SeriesTask>),
    Tagger(Box<Tagger>),
}

/// What a model's elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reads {
    /// So many numbers each.
    Numbers(usize),
    /// Numbers below this.
    Tokens(usize),
    /// Characters, some of them masked.
    Characters,
    /// Words.
    Words,
}

impl fmt::Display for Reads {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Reads::Numbers(1) => write!(f, "a number"),
            Reads::Numbers(q) => write!(f, "{q} numbers"),
            Reads::Tokens(symbols) => write!(f, "tokens below {symbols}"),
            Reads::Characters => write!(f, "characters"),
            Reads::Words => write!(f, "words"),
        }
    }
}

/// Alternatives in the answer to a masked character, unless [`LiveModel::with_alternatives`] sets
/// another number.
const ALTERNATIVES: usize = 3;
/// The longest word in bytes, unless [`LiveModel::with_max_word`] sets another limit.
const MAX_WORD: usize = 10_000;

impl LiveModel {
    /// Reads a model file of any kind: drnn's own, or a PyTorch state dict. Its name is the file's.
    pub fn load(path: &Path) -> Result<LiveModel> {
        LiveModel::import(path, &Import::default())
    }

    /// The same, where `options` say what a PyTorch file does not; drnn's own files say it
    /// themselves.
    pub fn import(path: &Path, options: &Import) -> Result<LiveModel> {
        let in_file = |e: &dyn ToString| Error::File {
            file: path.display().to_string(),
            reason: e.to_string(),
        };
        let bytes = drnn::io::read_model_file(path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        LiveModel::import_bytes(&name, &bytes, options).map_err(|e| match e {
            // Already says which file: none.
            Error::Drnn(drnn::Error::File(error)) => in_file(&error.reason()),
            other => in_file(&other),
        })
    }

    /// From the bytes of such a file.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<LiveModel> {
        LiveModel::import_bytes(name, bytes, &Import::default())
    }

    fn import_bytes(name: &str, bytes: &[u8], options: &Import) -> Result<LiveModel> {
        match Bundle::is_bundle(bytes) {
            Some(true) if options.prefix.is_some() || options.relu => Err(Error::Data(
                "is drnn's own, and says itself what its names and activation are".into(),
            )),
            Some(true) => Ok(LiveModel::from_tagger(name, Tagger::from_bytes(bytes)?)),
            _ => LiveModel::new(name, Model::import_bytes(bytes, options)?),
        }
    }

    /// A model of one network, used by what it says of its task. An unknown task is none.
    pub fn new(name: &str, model: Model) -> Result<LiveModel> {
        let task = model.task().and_then(|task| task["task"].as_str());
        let task = match (task, model.task()) {
            (Some(SeriesTask::NAME), Some(value)) => {
                let task = SeriesTask::from_value(value, model.spec())?;
                Task::Series(Box::new(model), Box::new(task))
            }
            (Some(CharTask::NAME), _) => {
                let task = CharTask::of(&model)?;
                Task::Chars(Box::new(model), Box::new(task))
            }
            _ => Task::Plain(Box::new(model)),
        };
        Ok(LiveModel::of(name, task))
    }

    /// A tagger that was read or trained.
    pub fn from_tagger(name: &str, tagger: Tagger) -> LiveModel {
        LiveModel::of(name, Task::Tagger(Box::new(tagger)))
    }

    fn of(name: &str, task: Task) -> LiveModel {
        LiveModel { name: name.into(), task, alternatives: ALTERNATIVES, max_word: MAX_WORD }
    }

    /// With at most `count` alternatives in the answer to a masked character; 3 otherwise.
    pub fn with_alternatives(self, count: usize) -> LiveModel {
        LiveModel { alternatives: count, ..self }
    }

    /// Accepts words of up to `bytes` bytes; 10,000 otherwise. A word's spelling is a sequence of
    /// its own, so the limit bounds the memory that one word can take.
    pub fn with_max_word(self, bytes: usize) -> LiveModel {
        LiveModel { max_word: bytes, ..self }
    }

    /// What kind of network gives its answers.
    pub fn spec(&self) -> &NetSpec {
        self.network().spec()
    }

    /// Whether it answers while its input is arriving. A bidirectional one reads a sequence from its end too.
    pub fn streams(&self) -> bool {
        self.network().spec().direction() != Direction::Bidirectional
    }

    /// The error of one that does not stream, where it should.
    pub(super) fn check_streams(&self) -> Result<()> {
        match self.streams() {
            true => Ok(()),
            false => Err(drnn::Error::Stream(
                "the network is bidirectional: it reads a sequence from its end too, so it answers nothing before \
                 the end has come; train a delayed one (dlstm, dgru, drnn), or use it on whole sequences"
                    .into(),
            )
            .into()),
        }
    }

    /// The same on other threads.
    pub fn on(self, cpu: &Cpu) -> LiveModel {
        let task = match self.task {
            Task::Plain(model) => Task::Plain(Box::new(model.on(cpu))),
            Task::Chars(model, task) => Task::Chars(Box::new(model.on(cpu)), task),
            Task::Series(model, task) => Task::Series(Box::new(model.on(cpu)), task),
            Task::Tagger(tagger) => Task::Tagger(Box::new(tagger.on(cpu))),
        };
        LiveModel { task, ..self }
    }

    /// The same under another name.
    pub fn named(self, name: &str) -> LiveModel {
        LiveModel { name: name.into(), ..self }
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `chars`, `series`, `tagger`, or `plain`.
    pub fn task(&self) -> &'static str {
        match &self.task {
            Task::Plain(_) => "plain",
            Task::Chars(..) => CharTask::NAME,
            Task::Series(..) => SeriesTask::NAME,
            Task::Tagger(_) => "tagger",
        }
    }

    /// Columns, classes and scaling of a series model; None for other tasks.
    pub fn series(&self) -> Option<&SeriesTask> {
        match &self.task {
            Task::Series(_, task) => Some(task),
            _ => None,
        }
    }

    /// Vocabulary and networks of a tagger; None for other tasks.
    pub fn tagger(&self) -> Option<&Tagger> {
        match &self.task {
            Task::Tagger(tagger) => Some(tagger),
            _ => None,
        }
    }

    /// What its elements are.
    pub fn reads(&self) -> Reads {
        match (&self.task, self.network().spec().input()) {
            (Task::Tagger(_), _) => Reads::Words,
            (Task::Chars(..), _) => Reads::Characters,
            (_, InputSpec::Dense(q)) => Reads::Numbers(q),
            (_, InputSpec::Tokens { symbols, .. }) => Reads::Tokens(symbols),
        }
    }

    /// Elements that an answer comes late, d.
    pub fn latency(&self) -> usize {
        self.network().spec().delay()
    }

    /// All of them.
    pub fn parameters(&self) -> usize {
        match &self.task {
            Task::Tagger(tagger) => tagger.parameters(),
            _ => self.network().params().len(),
        }
    }

    /// In a line, for people: what goes in, what comes out.
    pub fn description(&self) -> String {
        let what = match &self.task {
            Task::Plain(_) => "numbers".into(),
            Task::Chars(_, task) => format!("{} characters", task.alphabet().len()),
            Task::Series(_, task) => match &task.classes {
                Some(classes) => {
                    format!("{} classes of {}", classes.len(), task.targets.join(", "))
                }
                None => format!("values of {}", task.targets.join(", ")),
            },
            Task::Tagger(tagger) => format!("{} tags", tagger.vocabulary().tags().len()),
        };
        let (task, reads, spec) = (self.task(), self.reads(), self.network().spec());
        format!("{task}: reads {reads}, answers with {what}; {spec}")
    }

    /// The network that is stepped.
    pub(super) fn network(&self) -> &Model {
        match &self.task {
            Task::Plain(model) | Task::Chars(model, _) | Task::Series(model, _) => model,
            Task::Tagger(tagger) => &tagger.words,
        }
    }

    /// What the network's numbers mean.
    pub(super) fn value(&self, y: &[f32], asked: Asked) -> Value<'_> {
        match (&self.task, asked) {
            (Task::Chars(_, task), Asked::Char(None)) => {
                let best = ranked(y).into_iter().take(self.alternatives.max(1));
                let named = |(class, probability): (usize, f64)| Alternative {
                    character: task.alphabet().symbols()[class],
                    probability,
                };
                let alternatives: Vec<Alternative> = best.map(named).collect();
                let character = alternatives.first().map_or(' ', |best| best.character);
                Value::Character { character, masked: true, alternatives }
            }
            (_, Asked::Char(Some(character))) => {
                Value::Character { character, masked: false, alternatives: Vec::new() }
            }
            (Task::Series(_, task), _) => series_value(task, y),
            (Task::Tagger(tagger), Asked::Word(word)) => {
                let (tag, probability) = tagger.best(y);
                Value::Tag { word, tag, probability }
            }
            _ => Value::Numbers { values: y.to_vec() },
        }
    }
}

fn series_value<'m>(task: &'m SeriesTask, y: &[f32]) -> Value<'m> {
    if let Some(scaling) = &task.scaling.targets {
        let named = task.targets.iter().zip(y).enumerate();
        let values = named.map(|(at, (name, y))| (name.as_str(), scaling.undo(at, *y))).collect();
        return Value::Named { values };
    }
    let classes = task.classes.as_deref().unwrap_or_default();
    let named = |(class, p): (usize, f64)| (classes[class].as_str(), p);
    let probabilities: Vec<(&str, f64)> = ranked(y).into_iter().map(named).collect();
    let (class, probability) = probabilities.first().copied().unwrap_or_default();
    Value::Class { class, probability, probabilities }
}
