//! The text8: its file, and its split into training, validation and test set.

use crate::Failure;
use crate::report::mlm::Text;
use drnn::text::grouped;
use drnn_tasks::chars::Alphabet;
use drnn_train::Dataset;
use drnn_train::chars::paper::TEXT8;
use drnn_train::chars::{Held, Masked, Masking, SHARE, WINDOW, split};
use drnn_train::read::{Symbols, open};
use drnn_train::seed;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Characters of the whole text, and of the commonly distributed first part.
const WHOLE: usize = 100_000_000;
const FIRST_74: usize = 74_081_952;
/// Characters of the validation set, and of the test set, in both.
const HELD: usize = 5_000_000;

/// The text, read and split.
pub struct Text8 {
    pub train: Masked,
    pub valid: Masked,
    pub test: Masked,
    pub about: Text,
}

impl Text8 {
    /// The first `first` characters of the training set and a twentieth as many of the others; or all.
    pub fn open(data: Option<&Path>, first: Option<usize>, seed: u64) -> Result<Text8, Failure> {
        let path = find(data)?;
        let alphabet = Alphabet::new(TEXT8.chars().collect())?;
        let symbols = Arc::new(Symbols::read(open(&path)?, &alphabet)?);
        let refuse = |why: String| Failure::Input(format!("{}: {why}", path.display()));
        if symbols.unknown() > 0 {
            let others = grouped(symbols.unknown() as usize);
            return Err(refuse(format!(
                "has {others} characters other than a to z and space: not text8"
            )));
        }
        let (held, how) = match symbols.len() {
            WHOLE => {
                (Held::Characters(HELD), "the whole text8; the paper's split, 90 : 5 : 5 million")
            }
            FIRST_74 => {
                let how = "the first 74 % of text8; its last 5 million to test, the 5 million before to validate";
                (Held::Characters(HELD), how)
            }
            _ => (
                Held::Share(0.05),
                "of another length than text8; its last 5 % to test, the 5 % before to validate",
            ),
        };
        let ranges = split(symbols.len(), held, held)?;
        let mut number = 0;
        let mut part = |name: &str, max: Option<usize>| {
            let range = ranges[number].clone();
            let end = max.map_or(range.end, |max| range.end.min(range.start + max));
            number += 1;
            let seed = seed::derive(seed, &[number as u64]);
            let masking = Masking { window: WINDOW, share: SHARE, mask: alphabet.unknown(), seed };
            Masked::new(name, symbols.clone(), range.start..end, masking)
                .map_err(|e| refuse(e.to_string()))
        };
        let few = first.map(|first| (first / 20).max(WINDOW));
        let [train, valid, test] =
            [part("to train", first)?, part("to validate", few)?, part("to test", few)?];
        let parts = [&train, &valid, &test];
        let about = Text {
            characters: symbols.len(),
            split: how.into(),
            used: parts.map(Masked::characters),
            windows: parts.map(Dataset::len),
        };
        Ok(Text8 { train, valid, test, about })
    }

    /// Differences from the paper.
    pub fn deviations(&self, few: bool) -> Vec<String> {
        let Text { characters, used: [train, valid, _], .. } = self.about;
        let mut found = Vec::new();
        if characters != WHOLE {
            found.push(format!(
                "a text of {} characters instead of {}",
                grouped(characters),
                grouped(WHOLE)
            ));
        }
        if few {
            found.push(format!(
                "trained on the first {} characters, judged by {} each to validate and to test",
                grouped(train),
                grouped(valid)
            ));
        }
        found
    }
}

/// Names of the file, in a folder or in one of its folders.
const NAMES: [&str; 4] = ["text8", "text8.zip", "text8.gz", "text8.zst"];

/// The text8 at `data`: the file, or one in that folder or one of its folders.
pub fn find(data: Option<&Path>) -> Result<PathBuf, Failure> {
    let from_env = || std::env::var_os("DRNN_DATA").map(PathBuf::from);
    let Some(path) = data.map(Path::to_path_buf).or_else(from_env) else {
        return Err(Failure::Input(
            "the text8 is needed: --data PATH, or DRNN_DATA in the environment. Download it from \
             http://mattmahoney.net/dc/text8.zip"
                .into(),
        ));
    };
    if !path.is_dir() {
        return Ok(path); // errors are reported when it is opened
    }
    let refuse =
        |e: std::io::Error| Failure::Input(format!("{}: cannot be read: {e}", path.display()));
    let mut folders = vec![path.clone()];
    for entry in std::fs::read_dir(&path).map_err(refuse)? {
        folders.push(entry.map_err(refuse)?.path());
    }
    folders[1..].sort_unstable(); // the same choice every time
    let files = folders.iter().flat_map(|folder| NAMES.map(|name| folder.join(name)));
    files.into_iter().find(|file| file.is_file()).ok_or_else(|| {
        Failure::Input(format!("{}: contains no {}", path.display(), NAMES.join(", ")))
    })
}
