//! The task of a character model, as its file stores it.
//!
//! ```json
//! {"task": "chars", "alphabet": " etaoin..", "mask": 27, "window": 180, "masked": 0.2}
//! ```
//!
//! The alphabet is in the order of its ids; the mask's id is one above the last.

use super::alphabet::Alphabet;
use crate::error::{Error, Result};
use drnn::{InputSpec, Model, NetSpec};
use serde::{Deserialize, Serialize};

/// The alphabet of a model, and how it was trained.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StoredCharTask", into = "StoredCharTask")]
pub struct CharTask {
    alphabet: Alphabet,
    window: usize,
    masked: f64,
}

/// The JSON form.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredCharTask {
    task: String,
    alphabet: String,
    mask: u32,
    window: usize,
    masked: f64,
}

const NAME: &str = "chars";

impl CharTask {
    /// The value of `task` in the file.
    pub const NAME: &'static str = NAME;

    /// A task with this alphabet, trained on windows of `window` characters with a fraction `masked`
    /// of them masked.
    pub fn new(alphabet: Alphabet, window: usize, masked: f64) -> CharTask {
        CharTask { alphabet, window, masked }
    }

    /// The task of a model, or an error if it is not a character model.
    pub fn of(model: &Model) -> Result<CharTask> {
        let refuse = |why: String| Err(Error::Data(why));
        let Some(value) = model.task() else {
            return refuse(
                "the model has no task; `drnn train chars` makes one that fills in characters"
                    .into(),
            );
        };
        match value["task"].as_str() {
            Some(NAME) => {}
            other => {
                return refuse(format!(
                    "a model for {:?}, not for \"{NAME}\"",
                    other.unwrap_or("an unknown task")
                ));
            }
        }
        let task: CharTask = serde_json::from_value(value.clone())
            .map_err(|e| Error::Data(format!("the model's character task: {e}")))?;
        task.check(model.spec())?;
        Ok(task)
    }

    /// Checks that the alphabet fits a network.
    fn check(&self, spec: &NetSpec) -> Result<()> {
        let classes = self.alphabet.len();
        let symbols = match spec.input() {
            InputSpec::Tokens { symbols, .. } => symbols,
            InputSpec::Dense(_) => 0,
        };
        match symbols == classes + 1 && spec.output_width() == classes {
            true => Ok(()),
            false => Err(Error::Data(format!("an alphabet of {classes} characters in {spec}"))),
        }
    }

    /// Stores the task in a model.
    pub fn put_into(&self, model: Model) -> Result<Model> {
        self.check(model.spec())?;
        let value = serde_json::to_value(self).map_err(|e| Error::Data(e.to_string()))?;
        Ok(model.with_task(value))
    }

    /// The alphabet.
    pub fn alphabet(&self) -> &Alphabet {
        &self.alphabet
    }

    /// The mask's id.
    pub fn mask(&self) -> u32 {
        self.alphabet.unknown()
    }

    /// Characters per window in training.
    pub fn window(&self) -> usize {
        self.window
    }

    /// Fraction of characters that were masked in training.
    pub fn masked(&self) -> f64 {
        self.masked
    }

    /// The id that a character is read as: its own; else that of its lower case; else, for white
    /// space, that of the space; else the mask.
    pub fn read_as(&self, character: char) -> u32 {
        let known = |character| Some(self.alphabet.id(character)).filter(|id| *id != self.mask());
        let small = || {
            let mut small = character.to_lowercase();
            let first = small.next()?;
            small.next().is_none().then(|| known(first))?
        };
        let space = || character.is_whitespace().then(|| known(' '))?;
        known(character).or_else(small).or_else(space).unwrap_or(self.mask())
    }
}

impl TryFrom<StoredCharTask> for CharTask {
    type Error = String;
    fn try_from(stored: StoredCharTask) -> std::result::Result<CharTask, String> {
        let StoredCharTask { task, alphabet, mask, window, masked } = stored;
        let alphabet = Alphabet::new(alphabet.chars().collect()).map_err(|e| e.to_string())?;
        if task != NAME || mask != alphabet.unknown() {
            return Err(format!(
                "task {task:?} with mask {mask}; expected \"{NAME}\" and {}, one above the alphabet",
                alphabet.unknown()
            ));
        }
        if window == 0 || !(masked > 0.0 && masked <= 1.0) {
            return Err(format!("windows of {window} characters, {masked} of them masked"));
        }
        Ok(CharTask { alphabet, window, masked })
    }
}

impl From<CharTask> for StoredCharTask {
    fn from(task: CharTask) -> StoredCharTask {
        StoredCharTask {
            task: NAME.into(),
            alphabet: task.alphabet.symbols().iter().collect(),
            mask: task.mask(),
            window: task.window,
            masked: task.masked,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use drnn::{Cell, Padding};
    use serde_json::json;

    fn model(symbols: usize, outputs: usize) -> Model {
        let spec = NetSpec::builder(Cell::Lstm).tokens(symbols, 4).units([6]).outputs(outputs);
        Model::init(&spec.delay(2, Padding::LookAhead).build().unwrap(), 1).unwrap()
    }

    fn task() -> CharTask {
        CharTask::new(Alphabet::new(" abä".chars().collect()).unwrap(), 180, 0.2)
    }

    #[test]
    fn a_model_file_stores_the_task() {
        let bytes = task().put_into(model(5, 4)).unwrap().to_bytes().unwrap();
        let found = CharTask::of(&Model::from_bytes(&bytes).unwrap()).unwrap();
        assert_eq!(found, task());
        assert_eq!((found.mask(), found.window()), (4, 180));
        assert!(task().put_into(model(6, 4)).is_err());
    }

    #[test]
    fn other_models_are_refused() {
        let refused = |model: Model| CharTask::of(&model).unwrap_err().to_string();
        let changed = |change: &dyn Fn(&mut serde_json::Value)| {
            let mut value = serde_json::to_value(task()).unwrap();
            change(&mut value);
            refused(model(5, 4).with_task(value))
        };
        assert!(refused(model(5, 4)).contains("has no task"));
        assert!(changed(&|v| v["task"] = json!("tags")).contains("a model for \"tags\", not for"));
        assert!(changed(&|v| v["alphabet"] = json!("abca")).contains("has `a` twice"));
        assert!(changed(&|v| v["alphabet"] = json!("abcde")).contains("with mask 4; expected"));
        assert!(changed(&|v| v["mask"] = json!(3)).contains("with mask 3; expected"));
        assert!(changed(&|v| v["window"] = json!(0)).contains("windows of 0"));
        assert!(changed(&|v| v["masked"] = json!(2.0)).contains("2 of them masked"));
        assert!(changed(&|v| v["more"] = json!(1)).contains("unknown field `more`"));
        let value = serde_json::to_value(task()).unwrap();
        assert!(refused(model(5, 5).with_task(value)).contains("an alphabet of 4 characters in"));
    }

    #[test]
    fn unknown_characters_are_read_as_similar_ones_or_masks() {
        let task = task();
        let read = |text: &str| text.chars().map(|c| task.read_as(c)).collect::<Vec<_>>();
        assert_eq!(read("aäB"), [1, 3, 2]);
        assert_eq!(read("Ä\n\t"), [3, 0, 0]);
        assert_eq!(read("z€İ"), [4; 3]);
        let other = CharTask::new(Alphabet::new(vec!['B']).unwrap(), 9, 0.5);
        assert_eq!((other.read_as('\n'), other.read_as('b'), other.read_as('B')), (1, 1, 0));
    }
}
