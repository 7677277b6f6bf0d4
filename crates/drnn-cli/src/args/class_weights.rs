//! `--class-weights balanced`, `--class-weights fall=20,walk=1` or `--class-weights weights.csv`.

use crate::Failure;
use crate::args::reading::Reading;
use drnn::text::shortened;
use drnn_tasks::text::quote;
use drnn_train::{MAX_CLASS_WEIGHT, balanced_class_weights, named_class_weights};
use std::convert::Infallible;
use std::path::PathBuf;
use std::str::FromStr;

/// How much each class counts in training, as given on the command line.
#[derive(Debug, Clone, PartialEq)]
pub enum ClassWeights {
    /// Each class counts as much as any other, however rare it is.
    Balanced,
    /// `CLASS=WEIGHT,..`, or a file with a class and its weight in each line.
    Named(String),
}

impl FromStr for ClassWeights {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<ClassWeights, Infallible> {
        Ok(match text {
            "balanced" => ClassWeights::Balanced,
            other => ClassWeights::Named(other.into()),
        })
    }
}

/// At most this many classes are described.
const SHOWN: usize = 12;

impl ClassWeights {
    /// A weight for each of `names`, which occur `counts` times in the training set.
    pub fn of(
        &self,
        names: &[String],
        counts: &[usize],
        reading: Reading,
    ) -> Result<Vec<f32>, Failure> {
        match self {
            ClassWeights::Balanced => Ok(balanced_class_weights(counts)),
            ClassWeights::Named(text) => Ok(named_class_weights(&pairs(text, reading)?, names)?),
        }
    }
}

/// Classes and weights of a list, or of the file of that name.
fn pairs(list: &str, reading: Reading) -> Result<Vec<(String, f32)>, Failure> {
    let path = PathBuf::from(list);
    let (entries, place) = match (path.is_file(), list.contains('=')) {
        (true, _) => {
            let mut lines = reading.open(&path)?.lines();
            let mut entries = Vec::new();
            while let Some(line) = lines.next()?.map(str::to_string) {
                if !line.trim().is_empty() {
                    entries.push((Some(lines.number()), line));
                }
            }
            (entries, path.display().to_string())
        }
        (false, true) => {
            let entries: Vec<_> = list.split(',').map(|entry| (None, entry.to_string())).collect();
            (entries, "--class-weights".into())
        }
        (false, false) => {
            return Err(Failure::Input(format!(
                "--class-weights {}: expected balanced, CLASS=WEIGHT,.. or a file with a class and \
                 its weight in each line; there is no such file",
                shortened(list, 60)
            )));
        }
    };
    let pair = |(line, entry): (Option<u64>, String)| {
        let cut = entry.rsplit_once(['=', ',', '\t', ';']);
        let found = cut.and_then(|(class, weight)| {
            let weight = weight.trim().parse::<f32>().ok();
            Some((
                class.trim().to_string(),
                weight.filter(|w| (0.0..=MAX_CLASS_WEIGHT).contains(w))?,
            ))
        });
        found.ok_or_else(|| {
            let line = line.map_or(String::new(), |line| format!(":{line}"));
            let why = "expected a class and its weight, from 0 to 1,000,000: fall=20";
            Failure::Input(format!("{place}{line}: {}: {why}", quote(&entry)))
        })
    };
    entries.into_iter().map(pair).collect()
}

/// For the description of the data: a checkpoint of other weights is refused.
pub fn described(names: &[String], weights: &[f32]) -> String {
    let print = weights.iter().fold(0u32, |print, w| print.rotate_left(5) ^ w.to_bits());
    let each = names.iter().zip(weights).take(SHOWN);
    let each = each.map(|(name, weight)| format!("{}={weight}", shortened(name, 40)));
    let listed = each.collect::<Vec<_>>().join(", ");
    match names.len() > SHOWN {
        true => format!("class weights {listed}, .. ({print:08x})"),
        false => format!("class weights {listed}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names() -> Vec<String> {
        ["walk", "fall", "a=b"].map(String::from).into()
    }

    fn given(text: &str) -> Result<Vec<f32>, String> {
        let weights: ClassWeights = text.parse().unwrap();
        let found = weights.of(&names(), &[90, 10, 0], Reading::default());
        found.map_err(|failure| match failure {
            Failure::Input(why) => why,
            _ => panic!("another failure"),
        })
    }

    #[test]
    fn balanced_and_named_weights() {
        let balanced = given("balanced").unwrap();
        assert_eq!(balanced, [100.0 / 180.0, 5.0, 1.0]);
        assert_eq!(given("fall=20").unwrap(), [1.0, 20.0, 1.0]);
        assert_eq!(given("a=b=0, walk = 0.5").unwrap(), [0.5, 1.0, 0.0]);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        std::fs::write(&path, "fall,3\n\nwalk\t0.25\n").unwrap();
        assert_eq!(given(path.to_str().unwrap()).unwrap(), [0.25, 3.0, 1.0]);
        std::fs::write(&path, "fall,3\nwalk,much\n").unwrap();
        let why = given(path.to_str().unwrap()).unwrap_err();
        assert!(why.contains("weights:2: `walk,much`: expected a class"), "{why}");
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, why) in [
            ("ballanced", "expected balanced"),
            ("run=2", "no class `run` in the training set, which has `walk`, `fall`, `a=b`"),
            ("fall=-1", "from 0 to 1,000,000"),
            ("fall=NaN", "from 0 to 1,000,000"),
            ("fall=1,fall=2", "two weights"),
            ("fall=0,walk=0,a=b=0", "all weights are 0"),
        ] {
            let found = given(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
    }

    #[test]
    fn many_classes_are_described_in_short() {
        let names: Vec<String> = (0..50).map(|i| format!("c{i}")).collect();
        let (ones, mut others) = (vec![1.0; 50], vec![1.0; 50]);
        others[49] = 2.0;
        let [a, b] = [&ones, &others].map(|weights| described(&names, weights));
        assert!(a != b && a.len() < 200, "{a}");
    }
}
