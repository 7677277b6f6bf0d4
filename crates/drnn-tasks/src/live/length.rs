//! How long an answer can be, as JSON, and how much a live stream holds: what must be there before it is needed.

use super::element::Element;
use super::model::{LiveModel, Task};

/// `{"position":18446744073709551615,` and the names of the other fields.
const FRAME: usize = 100;
/// The longest numbers, with a comma: `-1.1754944e-38,` and `-2.2250738585072014e-308,`.
const F32: usize = 16;
const F64: usize = 25;
/// The longest character, with its quotes: `"\u0000"`.
const CHARACTER: usize = 8;
/// Bytes that one of a text can become: `\u0000`.
const ESCAPED: usize = 6;

impl LiveModel {
    /// Bytes of the longest answer to an element, besides the element itself where the answer repeats it.
    pub fn longest_answer(&self) -> usize {
        let longest = |names: &[String]| names.iter().map(|name| quoted(name)).max().unwrap_or(0);
        // `"name":0.5,`
        let named =
            |names: &[String]| names.iter().map(|name| quoted(name) + 1 + F64).sum::<usize>();
        FRAME
            + match &self.task {
                Task::Plain(model) => F32 * model.spec().output_width(),
                // `{"character":"a","probability":0.5},`
                Task::Chars(_, task) => {
                    let count = self.alternatives.clamp(1, task.alphabet().len());
                    CHARACTER + count * (CHARACTER + F64 + 35)
                }
                Task::Series(_, task) => match &task.classes {
                    Some(classes) => longest(classes) + F64 + named(classes),
                    None => named(&task.targets),
                },
                Task::Tagger(tagger) => longest(tagger.vocabulary().tags()) + F64,
            }
    }

    /// Bytes of a live stream's states, with those of the step that it is in.
    pub fn state_bytes(&self) -> usize {
        // h and c, before and after.
        let units: usize = self.network().spec().state_widths().iter().sum();
        4 * units * size_of::<f32>()
    }

    /// The same for this element, where `longest` is [`LiveModel::longest_answer`], which takes time to find.
    pub fn longest_answer_to(&self, element: &Element, longest: usize) -> usize {
        match element {
            Element::Char(_) => FRAME + CHARACTER,
            Element::Word(word) => longest + ESCAPED * word.len(),
            _ => longest,
        }
    }
}

/// Bytes of a string as JSON.
fn quoted(text: &str) -> usize {
    serde_json::to_string(text).map_or(2 + ESCAPED * text.len(), |json| json.len())
}
