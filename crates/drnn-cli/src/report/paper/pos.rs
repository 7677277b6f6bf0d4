//! Part-of-speech tagging: the paper's tables of three languages.

use super::Section;
use super::absent::{ABSENT, task_cell};
use super::claims::{Claim, Verdict};
use super::statistics::{Paired, Scores, in_sds, mean_and_sd, paired};
use crate::campaign::{Experiment, Outcome, Protocol, Task, TaskRecord, Vectors};
use crate::report::page::{Part, Table, mean_sd, signed};
use crate::report::pos::{Language, PaperRow, paper_rows};
use crate::report::training::title;
use drnn_train::PaperNet;

/// Accuracy on the test set in per cent, by seed.
#[derive(Debug, Default, Clone)]
struct Accuracy {
    words: Scores,
    /// Over every line, as the authors count.
    lines: Scores,
}

/// All trained pairs of networks.
pub struct Taggers {
    trained: Vec<(Language, Vectors, [PaperNet; 2], Accuracy)>,
}

impl Taggers {
    pub fn of(records: &[&TaskRecord]) -> Taggers {
        let mut trained: Vec<(Language, Vectors, [PaperNet; 2], Accuracy)> = Vec::new();
        for record in records {
            let Outcome::Pos { lang, run, .. } = &record.outcome else { continue };
            let Ok(Task { experiment: Experiment::Pos(_, pair, vectors), .. }) =
                record.task.parse()
            else {
                continue;
            };
            let Some(test) = run.test else { continue };
            let same = |other: &&mut (Language, Vectors, [PaperNet; 2], Accuracy)| {
                (other.0, other.1, other.2) == (*lang, vectors, pair)
            };
            let seed = record.provenance.seed;
            let accuracy = match trained.iter_mut().find(same) {
                Some(found) => &mut found.3,
                None => {
                    trained.push((*lang, vectors, pair, Accuracy::default()));
                    let last = trained.len() - 1;
                    &mut trained[last].3
                }
            };
            accuracy.words.insert(seed, 100.0 * test.words);
            accuracy.lines.insert(seed, 100.0 * test.paper_acc);
        }
        Taggers { trained }
    }

    fn accuracy(&self, lang: Language, vectors: Vectors, pair: [PaperNet; 2]) -> Accuracy {
        let found = self.trained.iter().find(|t| (t.0, t.1, t.2) == (lang, vectors, pair));
        found.map_or_else(Accuracy::default, |found| found.3.clone())
    }

    /// As the authors count, which their printed numbers are.
    fn lines(&self, lang: Language, pair: [PaperNet; 2]) -> Scores {
        self.accuracy(lang, Vectors::Learned, pair).lines
    }
}

fn name(lang: Language) -> &'static str {
    match lang {
        Language::En => "English",
        Language::Fr => "French",
        Language::De => "German",
    }
}

pub fn section(taggers: &Taggers) -> Section {
    let mut parts = vec![
        Part::Text(
            "A network over the characters of each word feeds a network over words. 20 epochs, batches of 32 sentences, the \
             last epoch is tested. Accuracy in per cent on the test set: on words, as treebanks are scored, and on every line \
             (paper_acc), as the authors count."
                .into(),
        ),
        Part::List(vec![
            "English: the paper's treebank, EWT of release 2.3.".into(),
            "French: a later release of GSD than the paper's; compare trends, not digits.".into(),
            "German: the treebank of 2013 with 12 tags that the paper's GSD was made from; compare trends, not digits."
                .into(),
            "Word vectors of 64 values are learned from the training words, where the paper uses Polyglot's; English is also \
             trained with GloVe's 50 values."
                .into(),
        ]),
    ];
    for lang in Language::ALL {
        parts.push(Part::Table(table(taggers, lang)));
    }
    Section { heading: "Part-of-speech tagging: Tables pos", parts }
}

fn table(taggers: &Taggers, lang: Language) -> Table {
    let glove = lang == Language::En;
    let row = |PaperRow { pair, test, test_sd, .. }: &PaperRow| {
        let found = taggers.accuracy(lang, Vectors::Learned, *pair);
        let values = |scores: &Scores| scores.values().copied().collect::<Vec<f64>>();
        let mut cells = vec![
            format!("{} / {}", title(pair[0]), title(pair[1])),
            format!("{test:.2} ± {test_sd:.2}"),
        ];
        match mean_and_sd(&found.lines) {
            None => cells.extend([ABSENT, "", "", ""].map(String::from)),
            Some(mean) => cells.extend([
                mean_sd(&values(&found.lines), 2),
                mean_sd(&values(&found.words), 2),
                found.lines.len().to_string(),
                in_sds(mean, (*test, *test_sd)).map_or(String::new(), |sds| signed(sds, 1)),
            ]),
        }
        if glove {
            let found = taggers.accuracy(lang, Vectors::Glove, *pair);
            cells.push(match found.lines.is_empty() {
                true => ABSENT.into(),
                false => mean_sd(&values(&found.lines), 2),
            });
        }
        let experiment = Experiment::Pos(lang, *pair, Vectors::Learned);
        let task = Task { protocol: Protocol::Paper, experiment, repetition: 1 };
        let id = format!("pos/{}/{}_{}", lang.name(), pair[0], pair[1]);
        cells.push(task_cell(id, &task, !found.lines.is_empty()));
        cells
    };
    let mut head = vec![name(lang), "paper", "paper_acc", "words", "seeds", "/ sd"];
    if glove {
        head.push("paper_acc, GloVe");
    }
    head.push("task");
    let more =
        if glove { ". With GloVe's vectors the task is of en-glove instead of en" } else { "" };
    Table {
        caption: format!(
            "Network over characters / over words. / sd: paper_acc minus the paper's, in standard deviations{more}."
        ),
        head: head.into_iter().map(String::from).collect(),
        rows: paper_rows(lang.name()).iter().map(row).collect(),
    }
}

pub fn claims(taggers: &Taggers) -> Vec<Claim> {
    use PaperNet::{BiLstm, DLstm, Lstm};
    vec![
        compare(
            taggers,
            "Replacing the word-level Bi-LSTM by an LSTM decreases accuracy significantly",
            ([BiLstm, Lstm], [BiLstm, BiLstm]),
            |found| found.decided.then_some(found.mean < 0.0),
        ),
        compare(
            taggers,
            "A word-level d-LSTM of delay 1 is within 0.3 % of the Bi-LSTM",
            ([BiLstm, DLstm(1)], [BiLstm, BiLstm]),
            |found| found.near,
        ),
        compare(
            taggers,
            "Replacing only the character-level Bi-LSTM by an LSTM does not affect accuracy",
            ([Lstm, BiLstm], [BiLstm, BiLstm]),
            |found| {
                if found.decided { Some(found.mean > 0.0) } else { found.near.filter(|near| *near) }
            },
        ),
        compare(
            taggers,
            "A character-level d-LSTM of delay 1 improves a little on the double Bi-LSTM (English, German)",
            ([DLstm(1), BiLstm], [BiLstm, BiLstm]),
            |found| found.decided.then_some(found.mean > 0.0),
        ),
    ]
}

/// The paper's "within 0.3 %", which also counts as no effect here.
const NEAR: f64 = 0.3;

/// The difference of two pairs in per cent.
struct Difference {
    mean: f64,
    /// Whether it is not 0.
    decided: bool,
    /// Whether it is above -[`NEAR`]; None where that is not decided.
    near: Option<bool>,
}

impl Difference {
    fn of(a: &Scores, b: &Scores, printed_sd: Option<f64>) -> Option<(Difference, Paired)> {
        let found = paired(a, b)?;
        let raised = a.iter().map(|(seed, accuracy)| (*seed, accuracy + NEAR)).collect();
        let above = paired(&raised, b)?;
        let near = above.is_decided(printed_sd).then_some(above.mean > 0.0);
        let decided = found.is_decided(printed_sd);
        Some((Difference { mean: found.mean, decided, near }, found))
    }
}

/// A claim on the difference of two pairs in each language; `holds` is None where that is open.
fn compare(
    taggers: &Taggers,
    claim: &str,
    (a, b): ([PaperNet; 2], [PaperNet; 2]),
    holds: impl Fn(&Difference) -> Option<bool>,
) -> Claim {
    let (mut cases, mut evidence) = (Vec::new(), Vec::new());
    for lang in Language::ALL {
        let rows = paper_rows(lang.name());
        let of = |pair| rows.iter().find(|row| row.pair == pair);
        let printed = of(a).zip(of(b));
        let paper = printed
            .map_or(String::new(), |(a, b)| format!(" (paper: {})", signed(a.test - b.test, 2)));
        let printed = printed.map(|(a, b)| a.test_sd.hypot(b.test_sd));
        let [a, b] = [a, b].map(|pair| taggers.lines(lang, pair));
        let Some((difference, found)) = Difference::of(&a, &b, printed) else { continue };
        cases.push(match holds(&difference) {
            Some(true) => Verdict::Holds,
            Some(false) => Verdict::DoesNot,
            None => Verdict::NotYet,
        });
        evidence.push(format!("{}: {}{paper}", name(lang), found.text(2)));
    }
    if cases.is_empty() {
        let id = |pair: [PaperNet; 2]| format!("pos/LANG/{}_{}", pair[0], pair[1]);
        return Claim::open(claim, &format!("{} and {}", id(a), id(b)));
    }
    Claim::new(claim, Verdict::of_all(&cases), format!("{}.", evidence.join("; ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accuracy(values: &[f64]) -> Scores {
        (1..).zip(values.iter().copied()).collect()
    }

    #[test]
    fn what_counts_as_near_needs_seeds() {
        let near = |a: &[f64], b: &[f64]| {
            Difference::of(&accuracy(a), &accuracy(b), Some(0.15)).unwrap().0.near
        };
        // One seed: three of the paper's standard deviations from the limit.
        assert_eq!(near(&[94.0], &[94.1]), None);
        assert_eq!(near(&[94.5], &[94.1]), Some(true));
        assert_eq!(near(&[93.3], &[94.1]), Some(false));
        // Three: a paired test against the limit.
        let bilstm = [94.1, 94.2, 94.3];
        assert_eq!(near(&[94.0, 94.11, 94.22], &bilstm), Some(true));
        assert_eq!(near(&[93.6, 93.72, 93.8], &bilstm), Some(false));
        assert_eq!(near(&[93.5, 94.0, 94.4], &bilstm), None);
    }
}
