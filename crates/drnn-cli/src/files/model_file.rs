//! A model: a file of one network or of a bundle of several, or a built-in one.

use crate::Failure;
use crate::console::note;
use crate::files::builtin;
use crate::memory::check_model_file;
use drnn::io::Format;
use drnn::{Bundle, Import, Imported, Model};
use serde_json::Value;
use std::path::Path;

/// The contents of a model file.
pub enum ModelFile {
    One(Box<Model>),
    Several(Bundle),
}

/// A model file, and what there is to say about its reading.
pub struct OpenedModel {
    pub file: ModelFile,
    /// It was not written by drnn, but by PyTorch or another program.
    pub foreign: bool,
    /// It says which activation a plain RNN has; a state dict does not.
    pub says_activation: bool,
    /// Tensors that are not part of the model, with their shapes.
    pub ignored: Vec<String>,
    /// What was recognised, and which option decides otherwise.
    pub notes: Vec<String>,
}

/// The bytes of a model file or, where there is no such file, of the built-in model of that name.
pub fn read_model(path: &Path) -> Result<Vec<u8>, Failure> {
    match builtin::find(path) {
        Some(bytes) if !path.exists() || path.is_dir() => return Ok(bytes.to_vec()),
        Some(_) => {
            let path = path.display();
            note!("{path}: the file of that name is used, not the built-in model");
        }
        None => {}
    }
    check_model_file(path)?;
    drnn::io::read_model_file(path).map_err(|e| match path.exists() {
        true => e.into(),
        false => Failure::Input(format!("{e}; built-in models are {}", builtin::names())),
    })
}

/// An error about a model's bytes, with its name.
pub fn in_model(path: &Path, error: drnn::Error) -> Failure {
    let path = path.display();
    match error {
        drnn::Error::File(error) => Failure::Input(format!("{path}: {}", error.reason())),
        other => Failure::Input(format!("{path}: {other}")),
    }
}

impl OpenedModel {
    /// Reads a model; `options` are for files of other programs.
    pub fn read(path: &Path, options: &Import) -> Result<OpenedModel, Failure> {
        // Read once: it may be a pipe.
        let bytes = read_model(path)?;
        OpenedModel::parse(path, &bytes, Bundle::is_bundle(&bytes), options)
    }

    /// Reads a model; `options` are not applied, nor refused, where it is drnn's own.
    pub fn read_if_foreign(path: &Path, options: &Import) -> Result<OpenedModel, Failure> {
        let bytes = read_model(path)?;
        match Bundle::is_bundle(&bytes) {
            None => OpenedModel::parse(path, &bytes, None, options),
            own => OpenedModel::parse(path, &bytes, own, &Import::default()),
        }
    }

    fn parse(
        path: &Path,
        bytes: &[u8],
        is_bundle: Option<bool>,
        options: &Import,
    ) -> Result<OpenedModel, Failure> {
        let refuse = |e| in_model(path, e);
        if is_bundle == Some(true) {
            if *options != Import::default() {
                let (path, why) =
                    (path.display(), "is drnn's own file, which says itself what it is");
                return Err(Failure::Input(format!(
                    "{path}: {why}; options such as --prefix are for files of other programs"
                )));
            }
            let file = ModelFile::Several(Bundle::from_bytes(bytes).map_err(refuse)?);
            let (ignored, notes) = (Vec::new(), Vec::new());
            return Ok(OpenedModel { file, foreign: false, says_activation: true, ignored, notes });
        }
        let Imported { model, format, ignored, notes, .. } =
            Imported::from_bytes(bytes, options).map_err(refuse)?;
        let (file, foreign) = (ModelFile::One(Box::new(model)), is_bundle.is_none());
        let says_activation = !foreign || format == Format::Onnx;
        Ok(OpenedModel { file, foreign, says_activation, ignored, notes })
    }

    /// What was ignored, up to `max` tensors of it; None where nothing was.
    pub fn ignored(&self, max: usize) -> Option<String> {
        let mut listed = self.ignored.iter().take(max).cloned().collect::<Vec<_>>().join(", ");
        if self.ignored.len() > max {
            listed += &format!(" and {} more", self.ignored.len() - max);
        }
        (!self.ignored.is_empty()).then_some(listed)
    }
}

impl ModelFile {
    /// Reads a file, or the built-in model of that name; `options` are for files of other programs.
    pub fn open(path: &Path, options: &Import) -> Result<ModelFile, Failure> {
        Ok(OpenedModel::read(path, options)?.file)
    }

    /// The task that it was trained for, as JSON, if it has one.
    pub fn task(&self) -> Option<&Value> {
        match self {
            ModelFile::One(model) => model.task(),
            ModelFile::Several(bundle) => Some(&bundle.task),
        }
    }
}

/// The name of a task, and its other fields as text: long lists are cut, and control characters are
/// replaced.
pub fn task_facts(task: &Value) -> (String, Vec<(String, String)>) {
    let name = task["task"].as_str().unwrap_or("without a name");
    let others = task.as_object().into_iter().flatten().filter(|(key, _)| *key != "task");
    let facts = others.filter(|(_, value)| !value.is_null());
    let facts = facts.map(|(key, value)| (plain(key), shown(value))).collect();
    (plain(name), facts)
}

/// Maximum number of list entries that are shown.
const MAX_SHOWN: usize = 8;

fn shown(value: &Value) -> String {
    let cut = |shown: Vec<String>, count: usize| match count > MAX_SHOWN {
        true => format!("{}, .. ({count})", shown.join(", ")),
        false => shown.join(", "),
    };
    match value {
        Value::String(text) => plain(text),
        Value::Array(list) => cut(list.iter().take(MAX_SHOWN).map(shown).collect(), list.len()),
        Value::Object(map) => {
            let entries = map.iter().filter(|(_, value)| !value.is_null()).take(MAX_SHOWN);
            let entries = entries.map(|(key, value)| format!("{} [{}]", plain(key), shown(value)));
            cut(entries.collect(), map.len())
        }
        Value::Number(number) => match number.as_f64() {
            Some(x) if !number.is_i64() && !number.is_u64() => format!("{x:.6}"),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}

fn plain(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short += "..";
    }
    short.replace(char::is_control, "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tasks_for_people() {
        let task = json!({
            "task": "series", "inputs": ["a\u{1b}", "b"], "classes": null, "many": (0..20).collect::<Vec<_>>(),
            "scaling": {"inputs": {"mean": [0.5]}},
        });
        let (name, facts) = task_facts(&task);
        let text: Vec<String> =
            facts.iter().map(|(key, value)| format!("{key}: {value}")).collect();
        assert_eq!(name, "series");
        assert!(text.contains(&"inputs: a\u{fffd}, b".to_string()), "{text:?}");
        assert!(text.contains(&"many: 0, 1, 2, 3, 4, 5, 6, 7, .. (20)".to_string()), "{text:?}");
        assert!(text.contains(&"scaling: inputs [mean [0.500000]]".to_string()), "{text:?}");
        assert_eq!(task_facts(&json!(3)), ("without a name".into(), vec![]));
    }
}
