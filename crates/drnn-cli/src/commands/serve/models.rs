//! Models on the command line: `FILE`, `NAME=FILE`, or the name of a built-in one.

use crate::Failure;
use crate::args::import::{ImportArguments, is_foreign};
use crate::files::builtin;
use drnn_serve::Models;
use drnn_tasks::live::LiveModel;
use std::path::Path;

/// Loads the given models, or all built-in ones. `import` is for files of PyTorch.
pub fn load(arguments: &[String], import: &ImportArguments) -> Result<Models, Failure> {
    // One thread each: many requests and streams run concurrently.
    let cpu = drnn::Cpu::from_env()?.with_threads(1);
    let mut models = Models::new();
    let mut add = |argument: &str, model: LiveModel| {
        models.add(model.on(&cpu)).map_err(|why| Failure::Input(format!("{argument}: {why}")))
    };
    if arguments.is_empty() {
        for (name, bytes) in builtin::ALL {
            add(name, LiveModel::from_bytes(name, bytes)?)?;
        }
    }
    let mut foreign = 0;
    for argument in arguments {
        let (name, source) = match argument.split_once('=') {
            // An equals sign may be part of a file's name.
            Some((name, source)) if !Path::new(argument).exists() => (Some(name), source),
            _ => (None, argument.as_str()),
        };
        let inside = builtin::ALL.iter().find(|(name, _)| *name == source);
        let path = Path::new(source);
        let model = match inside {
            Some((_, bytes)) if !path.exists() => LiveModel::from_bytes(source, bytes)?,
            _ if is_foreign(path) => {
                foreign += 1;
                import.load_live(path)?
            }
            _ => LiveModel::load(path)?,
        };
        add(argument, name.into_iter().fold(model, LiveModel::named))?;
    }
    if import.are_given() && foreign == 0 {
        let why = "--prefix and --nonlinearity are for files of PyTorch, and no model is one";
        return Err(Failure::Input(why.into()));
    }
    Ok(models)
}
