//! Evaluates a tagger on tagged sentences: accuracy overall, of known and unknown words, and by tag.

use super::{Evaluation, Request};
use crate::Failure;
use crate::files::model_file::ModelFile;
use crate::report::baselines::standard_error;
use crate::training::placed::Placed;
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
    let (chars, words) = (tagger.char_model(), tagger.word_model());
    let placed = [Placed::new(&request.place, chars)?, Placed::new(&request.place, words)?];
    let networks = placed.each_ref().map(Placed::runner);
    let scores = Scores::with_runners(&tagger, networks, &data)?;
    let named = |name: &str, share: Ratio| Some((name.to_string(), share.value()?));
    let error = scores.words.value().map(|accuracy| {
        let error = standard_error(accuracy, scores.words.total as usize);
        ("standard error of the accuracy".to_string(), error)
    });
    let lines = (counting == Counting::Lines).then(|| named("paper_acc", scores.lines));
    let metrics = [
        named("accuracy", scores.words),
        error,
        named("accuracy of known words", scores.known),
        named("accuracy of unknown words", scores.unknown),
        lines.flatten(),
    ];
    let metrics = metrics.into_iter().flatten().collect();
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
