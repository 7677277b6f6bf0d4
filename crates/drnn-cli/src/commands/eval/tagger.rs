//! Evaluates a tagger on tagged sentences: accuracy overall, of known and unknown words, and by tag.

use super::{Evaluation, Request};
use crate::Failure;
use crate::files::model_file::ModelFile;
use crate::training::treebank::{by_tag, confusion, table};
use drnn::text::grouped;
use drnn_tasks::tagger::{Counting, Tagger};
use drnn_train::tagger::{Ratio, Scores, Sentences, read_sentences};

/// Evaluates all files together.
pub fn evaluate(request: Request) -> Result<Evaluation, Failure> {
    let ModelFile::Several(bundle) = request.model else {
        let why = "a tagger is several networks";
        return Err(Failure::Input(format!("{}: {why}", request.path.display())));
    };
    let tagger = Tagger::from_bundle(bundle)
        .map_err(|e| Failure::Input(format!("{}: {e}", request.path.display())))?
        .on(&drnn::Cpu::from_env()?);
    let (vocabulary, counting) = (tagger.vocabulary(), tagger.counting());
    let mut data = Sentences::new();
    for path in request.data {
        for sentence in read_sentences(path, request.reading.limits())? {
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
            "{} words have tags that the tagger does not know; they count as wrong.",
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
