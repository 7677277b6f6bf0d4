//! What a model is, for machines: what goes in, what comes out, how late.
//!
//! ```json
//! {"name": "sensor", "task": "series", "reads": {"kind": "numbers", "count": 2, "names": ["a", "b"]},
//!  "answers": {"kind": "classes", "names": ["rest", "walk"]}, "description": "..", "network": "dgru(32 units, ..",
//!  "delay": 3, "parameters": 3553, "streams": true}
//! ```

use super::model::{LiveModel, Reads, Task};
use serde::Serialize;

/// Facts of a model.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Facts<'m> {
    /// What it is called.
    pub name: &'m str,
    /// `chars`, `series`, `tagger` or `plain`.
    pub task: &'static str,
    /// What its elements are.
    pub reads: ReadsFacts<'m>,
    /// What its answers are.
    pub answers: AnswerFacts<'m>,
    /// In a line, for people.
    pub description: String,
    /// The network that is stepped.
    pub network: String,
    /// Elements that an answer comes late.
    pub delay: usize,
    /// All of them.
    pub parameters: usize,
    /// Whether it answers while its input is arriving.
    pub streams: bool,
}

/// What goes in.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReadsFacts<'m> {
    /// `numbers`, `tokens`, `characters` or `words`.
    pub kind: &'static str,
    /// Of numbers: how many; of tokens: they are below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Of numbers: the columns' names, where they have some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<&'m [String]>,
}

/// What comes out.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct AnswerFacts<'m> {
    /// `numbers`, `values`, `classes`, `tags` or `characters`.
    pub kind: &'static str,
    /// Of numbers: how many.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<usize>,
    /// Of values the targets, of classes and tags all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub names: Option<&'m [String]>,
    /// Of characters: those that it knows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub alphabet: Option<String>,
}

impl LiveModel {
    /// What it is.
    pub fn facts(&self) -> Facts<'_> {
        let (kind, count) = match self.reads() {
            Reads::Numbers(q) => ("numbers", Some(q)),
            Reads::Tokens(symbols) => ("tokens", Some(symbols)),
            Reads::Characters => ("characters", None),
            Reads::Words => ("words", None),
        };
        let names = match &self.task {
            Task::Series(_, task) => Some(task.inputs.as_slice()),
            _ => None,
        };
        let out = |kind, names| AnswerFacts { kind, count: None, names, alphabet: None };
        let answers = match &self.task {
            Task::Plain(model) => {
                AnswerFacts { count: Some(model.spec().output_width()), ..out("numbers", None) }
            }
            Task::Chars(_, task) => {
                let alphabet = Some(task.alphabet().symbols().iter().collect());
                AnswerFacts { alphabet, ..out("characters", None) }
            }
            Task::Series(_, task) => match &task.classes {
                Some(classes) => out("classes", Some(classes)),
                None => out("values", Some(&task.targets)),
            },
            Task::Tagger(tagger) => out("tags", Some(tagger.vocabulary().tags())),
        };
        Facts {
            name: self.name(),
            task: self.task(),
            reads: ReadsFacts { kind, count, names },
            answers,
            description: self.description(),
            network: self.network().spec().to_string(),
            delay: self.latency(),
            parameters: self.parameters(),
            streams: self.streams(),
        }
    }
}
