//! Checks elements and converts them to the network's input: scales numbers, looks up characters,
//! encodes words.
//!
//! ```text
//! plain    x_1 .. x_n
//! series   (x - mean) / sd
//! chars    c_1 .. c_n, then a mask for each look-ahead step
//! tagger   BEGIN w_1 .. w_n END, then PAD d times
//! ```

use super::element::Element;
use super::model::{LiveModel, LiveTask};
use super::sequence::{Awaited, Sequence};
use crate::error::{Error, Result};
use crate::runner::Runner;
use crate::series::{Missing, SeriesTask};
use crate::tagger::{BEGIN, Encoder, Form, after_last};
use crate::text::quote;
use drnn::InputSpec;

/// The network's input at one step.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Input {
    Numbers(Vec<f32>),
    Token(u32),
}

impl Input {
    pub fn element(&self) -> drnn::Element<'_> {
        match self {
            Input::Numbers(x) => drnn::Element::Dense(x),
            Input::Token(token) => drnn::Element::Token(*token),
        }
    }
}

/// A checked element.
pub(super) struct Read {
    pub input: Input,
    pub awaited: Awaited,
    /// Its numbers in their own units, missing ones replaced; set if the next element may need them.
    pub numbers: Option<Vec<f32>>,
}

/// Reads elements for one model, and caches the encodings of words.
pub(super) struct Reader<'m> {
    pub model: &'m LiveModel,
    encoder: Encoder,
    /// Where a tagger's network of characters runs, if not on the CPU.
    chars: Option<&'m dyn Runner>,
}

impl<'m> Reader<'m> {
    pub fn new(model: &'m LiveModel) -> Reader<'m> {
        Reader::with_runner(model, None)
    }

    /// The same with a tagger's network of characters elsewhere.
    pub fn with_runner(model: &'m LiveModel, chars: Option<&'m dyn Runner>) -> Reader<'m> {
        Reader { model, encoder: Encoder::default(), chars }
    }

    /// Encodes the words among elements that will be read, each spelling once, in large batches.
    pub fn prepare<'a>(&mut self, elements: impl IntoIterator<Item = &'a Element>) -> Result<()> {
        let LiveTask::Tagger(tagger) = &self.model.task else { return Ok(()) };
        let words = elements.into_iter().filter_map(|element| match element {
            Element::Word(word) if !word.is_empty() && word.len() <= self.model.max_word => {
                Some(word.as_str())
            }
            _ => None,
        });
        self.encoder.prepare(tagger, self.chars.unwrap_or(tagger.char_model()), words)
    }

    /// The next element of `sequence`.
    pub fn read(&mut self, element: &Element, sequence: &Sequence) -> Result<Read> {
        let read = match (&self.model.task, element) {
            (LiveTask::Tagger(tagger), Element::Word(word)) => match word.len() {
                0 => Err("an empty word".into()),
                length if length > self.model.max_word => {
                    Err(format!("a word of {length} bytes, more than {}", self.model.max_word))
                }
                _ => {
                    let x = self.encoder.encode(tagger, Form::Word(word))?;
                    Ok(Read::new(Input::Numbers(x), Awaited::Word(word.clone())))
                }
            },
            (LiveTask::Chars(_, task), Element::Char(c)) => {
                Ok(Read::new(Input::Token(task.read_as(*c)), Awaited::Char(Some(*c))))
            }
            (LiveTask::Chars(_, task), Element::Mask) => {
                Ok(Read::new(Input::Token(task.mask()), Awaited::Char(None)))
            }
            (LiveTask::Series(_, task), Element::Numbers(x)) => scaled(task, x, sequence),
            (LiveTask::Plain(model), element) => plain(model.spec().input(), element),
            (_, element) => Err(format!("{element:?} is not an element of this model's task")),
        };
        read.map_err(|why| Error::Data(format!("element {}: {why}", sequence.position())))
    }

    /// The network's input before the first element.
    pub fn begin(&mut self) -> Result<Option<Input>> {
        match &self.model.task {
            LiveTask::Tagger(tagger) => {
                Ok(Some(Input::Numbers(self.encoder.encode(tagger, Form::Special(BEGIN))?)))
            }
            _ => Ok(None),
        }
    }

    /// The network's inputs after the last element, before its own padding.
    pub fn end(&mut self) -> Result<Vec<Input>> {
        let ahead = self.model.network().spec().look_ahead();
        match &self.model.task {
            LiveTask::Chars(_, task) => Ok(vec![Input::Token(task.mask()); ahead]),
            LiveTask::Tagger(tagger) => {
                let special = after_last(self.model.latency());
                let mut input = |special| self.encoder.encode(tagger, Form::Special(special));
                special.map(|s| Ok(Input::Numbers(input(s)?))).collect()
            }
            LiveTask::Plain(_) | LiveTask::Series(..) => Ok(Vec::new()),
        }
    }
}

impl Read {
    fn new(input: Input, awaited: Awaited) -> Read {
        Read { input, awaited, numbers: None }
    }
}

type Checked = std::result::Result<Read, String>;

fn plain(input: InputSpec, element: &Element) -> Checked {
    match (input, element) {
        (InputSpec::Tokens { symbols, .. }, Element::Token(token)) => {
            if *token as usize >= symbols {
                return Err(format!("token {token} is not below {symbols}, the number of symbols"));
            }
            Ok(Read::new(Input::Token(*token), Awaited::Number))
        }
        (InputSpec::Dense(q), Element::Numbers(x)) => {
            count(x, q)?;
            if let Some(at) = x.iter().position(|x| !x.is_finite()) {
                return Err(format!("number {} of {q} is {}, or missing", at + 1, x[at]));
            }
            Ok(Read::new(Input::Numbers(x.clone()), Awaited::Number))
        }
        (InputSpec::Dense(q), _) => Err(format!("{element:?}, expected {q} numbers")),
        (InputSpec::Tokens { .. }, _) => Err(format!("{element:?}, expected a token")),
    }
}

fn count(x: &[f32], q: usize) -> std::result::Result<(), String> {
    match x.len() == q {
        true => Ok(()),
        false => Err(format!("{} numbers, expected {q}", x.len())),
    }
}

/// Scales numbers. Missing ones are replaced as in training, or refused if training dropped or
/// refused them.
fn scaled(task: &SeriesTask, x: &[f32], sequence: &Sequence) -> Checked {
    count(x, task.inputs.len())?;
    let mut own = x.to_vec();
    let mut scaled = Vec::with_capacity(x.len());
    for (at, x) in own.iter_mut().enumerate() {
        let name = || quote(task.column_of(at));
        let missing = |why: &str| Err(format!("column {} is missing; {why}", name()));
        if x.is_nan() {
            *x = match (task.missing, sequence.previous().get(at)) {
                (Missing::Zero, _) => 0.0,
                (Missing::Mean, _) => f32::NAN,
                (Missing::Previous, Some(previous)) => *previous,
                (Missing::Previous, None) => return missing("there is no element before it"),
                (Missing::Drop, _) => {
                    return missing("the model was trained without such rows");
                }
                (Missing::Refuse | Missing::Keep, _) => {
                    return missing("the model was trained without missing numbers");
                }
            };
        }
        // A missing number that is replaced by the mean is 0 when scaled.
        let y = if x.is_nan() { 0.0 } else { task.scaling.inputs.apply(at, *x) };
        if !y.is_finite() {
            return Err(format!("column {} is {x}, out of range", name()));
        }
        scaled.push(y);
    }
    let numbers = (task.missing == Missing::Previous).then_some(own);
    Ok(Read { input: Input::Numbers(scaled), awaited: Awaited::Number, numbers })
}
