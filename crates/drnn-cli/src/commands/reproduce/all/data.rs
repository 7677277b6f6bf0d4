//! Data sets of a campaign, found before anything is trained.

use super::super::mlm::find_text8;
use super::super::pos::{glove_file, treebank_files};
use crate::Failure;
use crate::campaign::{DataFile, Experiment, Task, Vectors};
use crate::report::pos::Language;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The folder with data sets; all that the tasks need is in it.
pub struct Sources {
    /// Empty where no task needs data.
    pub folder: PathBuf,
}

impl Sources {
    /// Fails with all data sets that are missing.
    pub fn find(tasks: &[Task], folder: Option<&Path>) -> Result<Sources, Failure> {
        let needed: BTreeSet<Need> =
            tasks.iter().flat_map(|task| Need::of(&task.experiment)).collect();
        if needed.is_empty() {
            return Ok(Sources { folder: PathBuf::new() });
        }
        let Some(folder) = folder else {
            let names: Vec<&str> = needed.iter().map(|need| need.name()).collect();
            return Err(Failure::Input(format!(
                "these tasks need {}: --data DIR, or DRNN_DATA in the environment; docs/PAPER.md says where \
                 to download them",
                names.join(", ")
            )));
        };
        let problems: Vec<String> =
            needed.iter().filter_map(|need| need.find(folder).err()).collect();
        match problems.as_slice() {
            [] => Ok(Sources { folder: folder.to_path_buf() }),
            _ => Err(Failure::Input(format!(
                "data sets are missing; docs/PAPER.md says where to download them, and --task selects tasks \
                 that do not need them:\n  {}",
                problems.join("\n  ")
            ))),
        }
    }

    /// The word vectors of an experiment, if it has any.
    pub fn vectors(&self, vectors: Vectors) -> Option<PathBuf> {
        (vectors == Vectors::Glove).then(|| glove_file(&self.folder)).flatten()
    }

    /// The files of a tagger, by name and size on disk.
    pub fn tagger_files(&self, lang: Language, vectors: Vectors) -> Result<Vec<DataFile>, Failure> {
        let banks = treebank_files(&self.folder, lang)?;
        let file = |path: PathBuf| DataFile {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes: std::fs::metadata(&path).map_or(0, |about| about.len()),
        };
        Ok(banks.into_iter().chain(self.vectors(vectors)).map(file).collect())
    }
}

/// A data set that a task needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    Text8,
    English,
    French,
    German,
    Glove,
}

impl Need {
    fn of(experiment: &Experiment) -> Vec<Need> {
        match experiment {
            Experiment::Mlm(_) | Experiment::Relax(_) => vec![Need::Text8],
            Experiment::Pos(lang, _, vectors) => {
                let bank = match lang {
                    Language::En => Need::English,
                    Language::Fr => Need::French,
                    Language::De => Need::German,
                };
                let glove = (*vectors == Vectors::Glove).then_some(Need::Glove);
                [bank].into_iter().chain(glove).collect()
            }
            _ => Vec::new(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Need::Text8 => "text8",
            Need::English => "the English treebank",
            Need::French => "the French treebank",
            Need::German => "the German treebank",
            Need::Glove => "GloVe's vectors",
        }
    }

    /// What is wrong where it cannot be found.
    fn find(self, folder: &Path) -> Result<(), String> {
        let treebank = |lang| treebank_files(folder, lang).map(|_| ()).map_err(text);
        match self {
            Need::Text8 => find_text8(Some(folder)).map(|_| ()).map_err(text),
            Need::English => treebank(Language::En),
            Need::French => treebank(Language::Fr),
            Need::German => treebank(Language::De),
            Need::Glove => match glove_file(folder) {
                Some(_) => Ok(()),
                None => Err(format!(
                    "{}: no glove*.txt (plain or compressed) in it or its folders",
                    folder.display()
                )),
            },
        }
    }
}

fn text(failure: Failure) -> String {
    match failure {
        Failure::Input(message) => message,
        other => format!("{other:?}"),
    }
}
