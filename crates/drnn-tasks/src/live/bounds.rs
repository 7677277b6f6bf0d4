//! Upper bounds on the size of predictions as JSON and of a live stream, known before memory is
//! allocated for them.

use super::element::Element;
use super::model::{ElementKind, LiveModel, LiveTask};

/// Bytes of `{"position":18446744073709551615,` and the names of the other fields.
const FRAME: usize = 100;
/// The longest numbers, with a comma: `-1.1754944e-38,` and `-2.2250738585072014e-308,`.
const F32: usize = 16;
const F64: usize = 25;
/// The longest character, with its quotes: `"\u0000"`.
const CHARACTER: usize = 8;
/// Maximum bytes of a JSON string per byte of text: `\u0000`.
const ESCAPED: usize = 6;

impl LiveModel {
    /// Maximum bytes of a prediction as JSON, without a word that it repeats.
    pub fn max_prediction_bytes(&self) -> usize {
        let longest = |names: &[String]| names.iter().map(|name| quoted(name)).max().unwrap_or(0);
        // `"name":0.5,`
        let named =
            |names: &[String]| names.iter().map(|name| quoted(name) + 1 + F64).sum::<usize>();
        FRAME
            + match &self.task {
                LiveTask::Plain(model) => F32 * model.spec().output_width(),
                // `{"character":"a","probability":0.5},`
                LiveTask::Chars(_, task) => {
                    let count = self.alternatives.clamp(1, task.alphabet().len());
                    CHARACTER + count * (CHARACTER + F64 + 35)
                }
                LiveTask::Series(_, task) => match &task.classes {
                    Some(classes) => longest(classes) + F64 + named(classes),
                    None => named(&task.targets),
                },
                LiveTask::Tagger(tagger) => longest(tagger.vocabulary().tags()) + F64,
            }
    }

    /// Bytes of an element's numbers if its categories become more numbers than its text has
    /// characters; else 0.
    pub fn encoded_bytes(&self) -> usize {
        match self.element_kind() {
            ElementKind::Fields(_) => {
                self.series().map_or(0, |task| task.inputs.len() * size_of::<f32>())
            }
            _ => 0,
        }
    }

    /// Bytes of a live stream's states, before and after a step.
    pub fn state_bytes(&self) -> usize {
        // h and c, before and after.
        let spec = self.network().spec();
        let widths = spec.state_widths().iter().chain(spec.cell_state_widths());
        2 * widths.sum::<usize>() * size_of::<f32>()
    }

    /// Maximum bytes of the prediction for this element. `max` is [`LiveModel::max_prediction_bytes`],
    /// which takes time to compute.
    pub fn max_prediction_bytes_to(&self, element: &Element, max: usize) -> usize {
        match element {
            Element::Char(_) => FRAME + CHARACTER,
            Element::Word(word) => max + ESCAPED * word.len(),
            _ => max,
        }
    }
}

/// Bytes of a string as JSON, with its quotes.
fn quoted(text: &str) -> usize {
    serde_json::to_string(text).map_or(2 + ESCAPED * text.len(), |json| json.len())
}
