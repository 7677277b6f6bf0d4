//! A tagger on sentences with tags: accuracy overall, by tag, for words that it knows and for those it does not.

use super::{Asked, Evaluation};
use crate::Failure;
use crate::files::model_file::ModelFile;
use crate::training::treebank::{by_tag, confusion, table};
use drnn::text::grouped;
use drnn_tasks::tagger::{Counting, Tagger};
use drnn_train::tagger::{Ratio, Scores, Sentences, read_sentences};

/// Scores all files together.
pub fn evaluate(asked: Asked) -> Result<Evaluation, Failure> {
    let ModelFile::Several(bundle) = asked.model else {
        let why = "a tagger is several networks";
        return Err(Failure::Input(format!("{}: {why}", asked.path.display())));
    };
    let tagger = Tagger::from_bundle(bundle)
        .map_err(|e| Failure::Input(format!("{}: {e}", asked.path.display())))?
        .on(&drnn::Cpu::from_env()?);
    let (vocabulary, counting) = (tagger.vocabulary(), tagger.counting());
    let mut data = Sentences::new();
    for path in asked.data {
        for sentence in read_sentences(path, asked.reading.limits())? {
            let tokens = drnn_train::tagger::tokens(counting, &sentence)
                .map(|(form, tag)| (form, Some(tag)));
            data.push(vocabulary, tokens);
        }
    }
    let scores = Scores::of(&tagger, &data)?;
    let mut metrics: Vec<(String, f64)> = Vec::new();
    let mut metric = |name: &str, share: Ratio| {
        metrics.extend(share.value().map(|value| (name.to_string(), value)));
    };
    metric("accuracy", scores.words);
    metric("accuracy of known words", scores.known);
    metric("accuracy of unknown words", scores.unknown);
    if counting == Counting::Lines {
        metric("paper_acc", scores.lines);
    }
    let mut notes = Vec::new();
    if scores.other_tags > 0 {
        notes.push(format!(
            "{} words have tags that the tagger does not know: they count as wrong.",
            grouped(scores.other_tags as usize)
        ));
    }
    Ok(Evaluation {
        metrics,
        counts: vec![
            ("sentences", data.len()),
            ("words", scores.words.total as usize),
            ("unknown words", scores.unknown.total as usize),
        ],
        judged: vec![
            table("given", &scores, counting),
            by_tag(vocabulary, &scores, "given"),
            confusion(vocabulary, &scores),
        ],
        notes,
    })
}
