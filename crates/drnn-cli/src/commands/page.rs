//! `drnn page`: the page of `drnn serve` as files, with the models computed in the browser.

use super::serve::read_sweep;
use crate::args::import::ImportArguments;
use crate::files::builtin;
use crate::files::paths::make_folder;
use crate::{Failure, console::progress};
use clap::Args;
use drnn_serve::{Models, page_files};
use drnn_tasks::live::LiveModel;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Write the page of `drnn serve` as static files: models run in the browser, and no server is needed
///
/// Without models, the built-in ones are written. Any web server can serve the folder. The models run by
/// WebAssembly: crates/drnn-wasm/build.sh builds the module, as an npm package.
/// Examples:
///   crates/drnn-wasm/build.sh && drnn page --out site && python3 -m http.server -d site
///   drnn page --out site --wasm target/wasm out/series/model.safetensors tags=tagger-en
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model files, or built-in models such as chars-en and tagger-en; NAME=FILE sets the name of a model
    #[arg(value_name = "MODEL")]
    models: Vec<String>,
    /// Folder for the page
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Folder with drnn.js and drnn.wasm, the npm package `drnn` [default: what crates/drnn-wasm/build.sh
    /// has built in the target folder of this program]
    #[arg(long, value_name = "DIR", env = "DRNN_WASM")]
    wasm: Option<PathBuf>,
    /// Results of `drnn sweep` (sweep.json), for the page
    #[arg(long, value_name = "FILE")]
    sweep: Option<PathBuf>,
    #[command(flatten)]
    import: ImportArguments,
}

/// The files of the npm package that the page needs.
const PACKAGE: [&str; 2] = ["drnn.js", "drnn.wasm"];

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let package = package(arguments.wasm.as_deref())?;
    let sweep = arguments.sweep.as_deref().map(read_sweep).transpose()?;
    let models = models(arguments)?;
    let mut files: Vec<(String, Vec<u8>)> = page_files(sweep.is_some())
        .into_iter()
        .map(|(name, text)| (name, text.into_bytes()))
        .collect();
    for name in PACKAGE {
        files.push((format!("drnn/{name}"), read(&package.join(name))?));
    }
    let all: Vec<_> = models.iter().map(|(model, _)| model.info()).collect();
    let all = serde_json::to_vec(&all).map_err(|e| Failure::Input(e.to_string()))?;
    files.push(("models.json".into(), all));
    files.extend(sweep.map(|text| ("sweep.json".into(), text.into_bytes())));
    let names: Vec<String> = models.iter().map(|(model, _)| model.name().to_string()).collect();
    for (name, (_, bytes)) in names.iter().zip(models.iter()) {
        files.push((format!("models/{name}.safetensors"), bytes.clone()));
    }
    for folder in ["", "page", "drnn", "models"] {
        make_folder(&arguments.out.join(folder))?;
    }
    for (name, bytes) in &files {
        let path = arguments.out.join(name);
        drnn::io::write_atomically(&path, |file| file.write_all(bytes))
            .map_err(|e| Failure::Input(format!("{}: cannot be written: {e}", path.display())))?;
    }
    let out = arguments.out.display();
    progress!("wrote the page of {} to {out}", names.join(", "));
    progress!("any web server can serve it: python3 -m http.server -d {out}");
    Ok(())
}

/// The folder of the npm package.
fn package(given: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = match given {
        Some(folder) => folder.to_path_buf(),
        // The program is in target/release, and what build.sh makes in target/wasm.
        None => {
            let program = std::env::current_exe().unwrap_or_default();
            program.ancestors().nth(2).unwrap_or(&program).join("wasm")
        }
    };
    if PACKAGE.iter().all(|name| folder.join(name).is_file()) {
        return Ok(folder);
    }
    let missing = match given {
        Some(folder) => format!("{} has no {}", folder.display(), PACKAGE.join(" and ")),
        None => "the WebAssembly module is not built".into(),
    };
    Err(Failure::Input(format!(
        "{missing}: run crates/drnn-wasm/build.sh of drnn's sources, or give its result with --wasm"
    )))
}

/// The given models, or the built-in ones, and their files as the browser reads them.
fn models(arguments: &Arguments) -> Result<Vec<(LiveModel, Vec<u8>)>, Failure> {
    let given: Vec<String> = match arguments.models.as_slice() {
        [] => builtin::ALL.iter().map(|(name, _)| name.to_string()).collect(),
        given => given.to_vec(),
    };
    // Only to have names checked as the server does.
    let mut checked = Models::new();
    let mut models = Vec::new();
    for argument in &given {
        let (name, source) = match argument.split_once('=') {
            // An equals sign may be part of a file's name.
            Some((name, source)) if !Path::new(argument).exists() => (Some(name), source),
            _ => (None, argument.as_str()),
        };
        let (model, bytes) = model(arguments, Path::new(source))?;
        let model = name.into_iter().fold(model, LiveModel::named);
        let refuse = |why: String| Failure::Input(format!("{argument}: {why}"));
        let copy =
            LiveModel::from_own_bytes(model.name(), &bytes).map_err(|e| refuse(e.to_string()))?;
        checked.add(copy).map_err(|why| refuse(why.to_string()))?;
        models.push((model, bytes));
    }
    models.sort_by(|(a, _), (b, _)| a.name().cmp(b.name()));
    Ok(models)
}

/// One model; a file of another program is converted to drnn's own.
fn model(arguments: &Arguments, source: &Path) -> Result<(LiveModel, Vec<u8>), Failure> {
    let name = source.file_stem().unwrap_or_default().to_string_lossy();
    let own = match builtin::find(source) {
        Some(bytes) if !source.exists() => Some(bytes.to_vec()),
        _ => drnn::io::read_model_file(source).ok(),
    };
    if let Some(bytes) = own
        && let Ok(model) = LiveModel::from_own_bytes(&name, &bytes)
    {
        return Ok((model, bytes));
    }
    let (model, _) = arguments.import.load_live_if_foreign(source)?;
    let bytes = model.network().to_bytes()?;
    Ok((model, bytes))
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path)
        .map_err(|e| Failure::Input(format!("{}: cannot be read: {e}", path.display())))
}
