//! A model file: one network, or a bundle of several.

use crate::Failure;
use crate::memory::check_model_file;
use drnn::{Bundle, Import, Model};
use serde_json::Value;
use std::path::Path;

/// The contents of a model file.
pub enum ModelFile {
    One(Box<Model>),
    Several(Bundle),
}

impl ModelFile {
    /// Reads a file; `options` are for those of PyTorch.
    pub fn open(path: &Path, options: &Import) -> Result<ModelFile, Failure> {
        check_model_file(path)?;
        // Read once: it may be a pipe.
        let bytes = drnn::io::read_model_file(path)?;
        let in_file = |e: drnn::Error| match e {
            drnn::Error::File(error) => {
                Failure::Input(format!("{}: {}", path.display(), error.reason()))
            }
            other => Failure::Input(format!("{}: {other}", path.display())),
        };
        Ok(match Bundle::is_bundle(&bytes) == Some(true) {
            true => ModelFile::Several(Bundle::from_bytes(&bytes).map_err(in_file)?),
            false => {
                ModelFile::One(Box::new(Model::import_bytes(&bytes, options).map_err(in_file)?))
            }
        })
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
