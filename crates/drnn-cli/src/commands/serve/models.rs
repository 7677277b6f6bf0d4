//! Models on the command line: `FILE`, `NAME=FILE`, or the name of a built-in one.

use crate::Failure;
use crate::args::import::ImportArguments;
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
        let (model, is_foreign) = import.load_live_if_foreign(Path::new(source))?;
        foreign += usize::from(is_foreign);
        add(argument, name.into_iter().fold(model, LiveModel::named))?;
    }
    if import.are_given() && foreign == 0 {
        return Err(Failure::Input(
            "--prefix, --embedding-layer, --output-layer and --nonlinearity are for files of \
             PyTorch and other programs, and no model is one"
                .into(),
        ));
    }
    Ok(models)
}
