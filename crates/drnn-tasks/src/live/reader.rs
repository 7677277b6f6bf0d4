//! Elements as the network reads them: scaled, looked up, encoded. What is wrong with one is found here.
//!
//! ```text
//! plain    x_1 .. x_n
//! series   (x - mean) / sd
//! chars    c_1 .. c_n, then a mask for each character that the network looks ahead at
//! tagger   BEGIN w_1 .. w_n END, then PAD d times
//! ```

use super::element::Element;
use super::model::{LiveModel, Task};
use super::sequence::{Asked, Sequence};
use crate::error::{Error, Result};
use crate::series::{Missing, SeriesTask};
use crate::tagger::{BEGIN, END, Encoder, Form, PAD};
use crate::text::quote;
use drnn::InputSpec;

/// What the network reads at one step.
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

/// An element that was found good.
pub(super) struct Read {
    pub input: Input,
    pub asked: Asked,
    /// In its own units, with what was filled in; where the next one may need it.
    pub numbers: Option<Vec<f32>>,
}

/// Reads elements for one model. Words that come again are encoded once.
pub(super) struct Reader<'m> {
    pub model: &'m LiveModel,
    encoder: Encoder,
}

impl<'m> Reader<'m> {
    pub fn new(model: &'m LiveModel) -> Reader<'m> {
        Reader { model, encoder: Encoder::default() }
    }

    /// Encodes the words among elements that will be read, each spelling once, in large batches.
    pub fn prepare<'a>(&mut self, elements: impl IntoIterator<Item = &'a Element>) -> Result<()> {
        let Task::Tagger(tagger) = &self.model.task else { return Ok(()) };
        let words = elements.into_iter().filter_map(|element| match element {
            Element::Word(word) if !word.is_empty() && word.len() <= self.model.max_word => {
                Some(word.as_str())
            }
            _ => None,
        });
        self.encoder.prepare(tagger, words)
    }

    /// The next element of `sequence`.
    pub fn read(&mut self, element: &Element, sequence: &Sequence) -> Result<Read> {
        let read = match (&self.model.task, element) {
            (Task::Tagger(tagger), Element::Word(word)) => match word.len() {
                0 => Err("an empty word".into()),
                length if length > self.model.max_word => {
                    Err(format!("a word of {length} bytes, more than {}", self.model.max_word))
                }
                _ => {
                    let x = self.encoder.encode(tagger, Form::Word(word))?;
                    Ok(Read::new(Input::Numbers(x), Asked::Word(word.clone())))
                }
            },
            (Task::Chars(_, task), Element::Char(c)) => {
                Ok(Read::new(Input::Token(task.read_as(*c)), Asked::Char(Some(*c))))
            }
            (Task::Chars(_, task), Element::Mask) => {
                Ok(Read::new(Input::Token(task.mask()), Asked::Char(None)))
            }
            (Task::Series(_, task), Element::Numbers(x)) => scaled(task, x, sequence),
            (Task::Plain(model), element) => plain(model.spec().input(), element),
            (_, element) => Err(format!("{element:?} is not what a model of this task reads")),
        };
        read.map_err(|why| Error::Data(format!("element {}: {why}", sequence.position())))
    }

    /// What is read before the first element.
    pub fn begin(&mut self) -> Result<Option<Input>> {
        match &self.model.task {
            Task::Tagger(tagger) => {
                Ok(Some(Input::Numbers(self.encoder.encode(tagger, Form::Special(BEGIN))?)))
            }
            _ => Ok(None),
        }
    }

    /// And behind the last. Then the network pads by itself, where it does.
    pub fn end(&mut self) -> Result<Vec<Input>> {
        let ahead = self.model.network().spec().look_ahead();
        match &self.model.task {
            Task::Chars(_, task) => Ok(vec![Input::Token(task.mask()); ahead]),
            Task::Tagger(tagger) => {
                let late = self.model.latency();
                let special = std::iter::once(END).chain(std::iter::repeat_n(PAD, late));
                let mut input = |special| self.encoder.encode(tagger, Form::Special(special));
                special.map(|s| Ok(Input::Numbers(input(s)?))).collect()
            }
            Task::Plain(_) | Task::Series(..) => Ok(Vec::new()),
        }
    }
}

impl Read {
    fn new(input: Input, asked: Asked) -> Read {
        Read { input, asked, numbers: None }
    }
}

type Checked = std::result::Result<Read, String>;

fn plain(input: InputSpec, element: &Element) -> Checked {
    match (input, element) {
        (InputSpec::Tokens { symbols, .. }, Element::Token(token)) => {
            if *token as usize >= symbols {
                return Err(format!("token {token} is not below {symbols}, the number of symbols"));
            }
            Ok(Read::new(Input::Token(*token), Asked::Number))
        }
        (InputSpec::Dense(q), Element::Numbers(x)) => {
            count(x, q)?;
            if let Some(at) = x.iter().position(|x| !x.is_finite()) {
                return Err(format!("number {} of {q} is {}, or missing", at + 1, x[at]));
            }
            Ok(Read::new(Input::Numbers(x.clone()), Asked::Number))
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

/// Missing numbers become what they became in training; one whose row was left out there is refused.
fn scaled(task: &SeriesTask, x: &[f32], sequence: &Sequence) -> Checked {
    count(x, task.inputs.len())?;
    let mut own = x.to_vec();
    let mut scaled = Vec::with_capacity(x.len());
    for (at, (x, name)) in own.iter_mut().zip(&task.inputs).enumerate() {
        let missing = |why: &str| Err(format!("column {} is missing; {why}", quote(name)));
        if x.is_nan() {
            *x = match (task.missing, sequence.before().get(at)) {
                (Missing::Zero, _) => 0.0,
                (Missing::Mean, _) => f32::NAN,
                (Missing::Previous, Some(before)) => *before,
                (Missing::Previous, None) => return missing("no element is before it"),
                (Missing::Drop, _) => {
                    return missing("the model was trained to leave such rows out");
                }
                (Missing::Refuse | Missing::Keep, _) => {
                    return missing("the model was trained without missing numbers");
                }
            };
        }
        // A missing number that is to be the mean is 0 when scaled.
        let y = if x.is_nan() { 0.0 } else { task.scaling.inputs.apply(at, *x) };
        if !y.is_finite() {
            return Err(format!("column {} is {x}, out of range", quote(name)));
        }
        scaled.push(y);
    }
    let numbers = (task.missing == Missing::Previous).then_some(own);
    Ok(Read { input: Input::Numbers(scaled), asked: Asked::Number, numbers })
}
