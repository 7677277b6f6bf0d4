//! Results of `drnn reproduce pos`: the file, and its report.

use super::kinds::{Files, Reported};
use super::page::{Figure, Page, Part, Table, duration, mean_sd, moments};
use super::training::{deviations_part, provenance_parts, title, training_facts};
use super::{Provenance, check_runs, html, markdown};
use crate::plot::{Line, Picture, Plot, Scale, Style};
use clap::ValueEnum;
use drnn::text::grouped;
use drnn_train::tagger::{Ratio, Scores};
use drnn_train::{Options, PaperNet, Reason};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// The paper's tables: `lang,char_net,char_delay,word_net,word_delay,val_acc,val_acc_sd,test_acc,test_acc_sd`.
const PAPER: &str = include_str!("paper-pos.csv");

/// The paper's languages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    En,
    Fr,
    De,
}

impl Language {
    pub const ALL: [Language; 3] = [Language::En, Language::Fr, Language::De];

    pub fn name(self) -> &'static str {
        match self {
            Language::En => "en",
            Language::Fr => "fr",
            Language::De => "de",
        }
    }

    /// Differences from the paper with these files.
    pub fn deviation(self) -> Option<&'static str> {
        match self {
            Language::En => None,
            Language::Fr => Some(
                "a later release of the French treebank than the paper's may be at hand: compare trends, not digits",
            ),
            Language::De => Some(
                "the German treebank at hand may be the one that the paper's was made from, with 12 tags: compare trends, not digits",
            ),
        }
    }
}

/// The contents of pos.json.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PosResults {
    /// `pos`.
    pub kind: String,
    /// 1.
    pub format: u64,
    pub provenance: Provenance,
    pub lang: String,
    /// Describes the data.
    pub what: String,
    pub options: Options,
    pub deviations: Vec<String>,
    pub notes: Vec<String>,
    pub runs: Vec<Run>,
}

/// One pair of networks, trained once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    pub chars: PaperNet,
    pub words: PaperNet,
    pub repetition: usize,
    pub parameters: usize,
    /// None if the training diverged.
    pub dev: Option<Accuracies>,
    pub test: Option<Accuracies>,
    pub epochs: usize,
    pub ended: Reason,
    pub seconds: f64,
}

/// Accuracy, 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Accuracies {
    /// Over words.
    pub words: f64,
    /// Over words that have a vector of their own, and over the others.
    pub known: f64,
    pub unknown: f64,
    /// Over every line, as the paper's authors count.
    pub paper_acc: f64,
}

impl From<Scores> for Accuracies {
    fn from(scores: Scores) -> Accuracies {
        let value = |share: Ratio| share.value().unwrap_or(0.0);
        Accuracies {
            words: value(scores.words),
            known: value(scores.known),
            unknown: value(scores.unknown),
            paper_acc: value(scores.lines),
        }
    }
}

/// A row of the paper's tables: networks, and accuracy in per cent with its standard deviation.
pub struct PaperRow {
    pub pair: [PaperNet; 2],
    pub dev: f64,
    pub test: f64,
    pub test_sd: f64,
}

/// The paper's table of a language.
pub fn paper_rows(lang: &str) -> Vec<PaperRow> {
    let row = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        let net = |kind: &str, delay: &str| match kind {
            "dlstm" => format!("dlstm-{delay}").parse().ok(),
            other => other.parse().ok(),
        };
        let &[of, char_net, char_delay, word_net, word_delay, dev, _, test, test_sd] =
            cells.as_slice()
        else {
            return None;
        };
        if of != lang {
            return None;
        }
        let pair = [net(char_net, char_delay)?, net(word_net, word_delay)?];
        let [dev, test, test_sd] = [dev, test, test_sd].map(|text| text.parse().ok());
        Some(PaperRow { pair, dev: dev?, test: test?, test_sd: test_sd? })
    };
    PAPER.lines().filter_map(row).collect()
}

/// The paper's pairs of char net and word net.
pub fn paper_pairs(lang: &str) -> Vec<[PaperNet; 2]> {
    paper_rows(lang).into_iter().map(|row| row.pair).collect()
}

/// Repetitions of one pair.
struct Group<'a> {
    pair: [PaperNet; 2],
    runs: Vec<&'a Run>,
}

impl Group<'_> {
    /// In per cent.
    fn each(&self, value: impl Fn(&Run) -> Option<f64>) -> Vec<f64> {
        self.runs.iter().map(|run| 100.0 * value(run).unwrap_or(f64::NAN)).collect()
    }
}

impl PosResults {
    fn groups(&self) -> Vec<Group<'_>> {
        let mut groups: Vec<Group> = Vec::new();
        for run in &self.runs {
            let pair = [run.chars, run.words];
            match groups.iter_mut().find(|group| group.pair == pair) {
                Some(group) => group.runs.push(run),
                None => groups.push(Group { pair, runs: vec![run] }),
            }
        }
        groups.sort_by_key(|group| group.pair);
        groups
    }

    fn results_table(&self) -> Table {
        let paper = paper_rows(&self.lang);
        let rows = self.groups().into_iter().map(|group| {
            let [chars, words] = group.pair;
            let paper = paper.iter().find(|row| row.pair == group.pair);
            let shown = |value: Option<f64>| value.map_or("".into(), |x| format!("{x:.2}"));
            vec![
                format!("{} / {}", title(chars), title(words)),
                mean_sd(&group.each(|run| run.dev.map(|a| a.words)), 2),
                mean_sd(&group.each(|run| run.test.map(|a| a.words)), 2),
                mean_sd(&group.each(|run| run.dev.map(|a| a.paper_acc)), 2),
                mean_sd(&group.each(|run| run.test.map(|a| a.paper_acc)), 2),
                shown(paper.map(|row| row.dev)),
                shown(paper.map(|row| row.test)),
                mean_sd(&group.each(|run| run.test.map(|a| a.known)), 2),
                mean_sd(&group.each(|run| run.test.map(|a| a.unknown)), 2),
                grouped(group.runs[0].parameters),
                duration(moments(&group.runs.iter().map(|run| run.seconds).collect::<Vec<_>>()).0),
            ]
        });
        Table {
            caption: "Network over characters / over words, and accuracy in per cent. paper_acc counts every line of the \
                      treebank, as the paper's authors do: lines for several words written as one are easy, so it \
                      is the higher where there are many. Paper: as printed, to be compared with paper_acc. Known: \
                      words that have a vector of their own, test."
                .into(),
            head: [
                "networks", "dev", "test", "paper_acc dev", "paper_acc test", "paper dev", "paper test", "known", "unknown",
                "parameters", "time",
            ]
            .map(String::from)
            .into(),
            rows: rows.collect(),
        }
    }

    /// Accuracy over the word net's delay, a line for each char net; Bi-LSTMs as dotted lines.
    fn plot(&self) -> Plot {
        let mut lines: Vec<Line> = Vec::new();
        let groups = self.groups();
        let delay = |net: PaperNet| match net {
            PaperNet::Lstm => Some(0),
            PaperNet::DLstm(d) => Some(d),
            PaperNet::BiLstm => None,
        };
        let end = groups.iter().filter_map(|group| delay(group.pair[1])).max().unwrap_or(0).max(1);
        let mut chars: Vec<PaperNet> = groups.iter().map(|group| group.pair[0]).collect();
        chars.dedup();
        for (colour, chars) in chars.into_iter().enumerate() {
            let line = |name: String, style, points, bars| Line {
                name,
                style,
                colour,
                strength: 1.0,
                points,
                bars,
            };
            let (mut points, mut bars) = (Vec::new(), Vec::new());
            for group in groups.iter().filter(|group| group.pair[0] == chars) {
                let (mean, sd) = moments(&group.each(|run| run.dev.map(|a| a.words)));
                match delay(group.pair[1]) {
                    Some(d) => {
                        points.push((d as f64, mean));
                        bars.push(sd.unwrap_or(0.0));
                    }
                    None => lines.push(line(
                        format!("{} / Bi-LSTM", title(chars)),
                        Style::Dotted,
                        vec![(0.0, mean), (end as f64, mean)],
                        Vec::new(),
                    )),
                }
            }
            if !points.is_empty() {
                lines.push(line(title(chars), Style::Solid, points, bars));
            }
        }
        Plot {
            title: format!("Accuracy by the delay of the word network: {}", self.lang),
            x: "delay of the word network, in words".into(),
            y: "accuracy on words, dev, percent".into(),
            scale: Scale::Around,
            guide: None,
            lines,
        }
    }

    fn page(&self) -> Page {
        let mut parts = vec![
            Part::Text(
                "A network reads the characters of each word; another reads the words, each as what the first made of it \
                 and a vector of its own, and names its part of speech. A delay of the word network lets it see the \
                 words that follow; a delay of the char network costs no time, because a word's characters are all there."
                    .into(),
            ),
            Part::Table(self.results_table()),
            Part::Figure(Figure {
                name: "accuracy",
                picture: Box::new(self.plot()),
                caption: "Lines by the network over characters; dotted where the network over words is a Bi-LSTM, which waits \
                          for the end of the sentence."
                    .into(),
            }),
            Part::Heading("Training"),
            Part::Text(format!("{}.", self.what)),
            Part::Facts(training_facts([0, 0, 0], &self.options).into_iter().skip(1).collect()),
            Part::Heading("Differences from the paper"),
            deviations_part(&self.deviations),
        ];
        if !self.notes.is_empty() {
            parts.push(Part::List(self.notes.clone()));
        }
        parts.extend(provenance_parts(&self.provenance));
        Page { title: format!("Part-of-speech tagging: {}", self.lang), parts }
    }
}

impl Reported for PosResults {
    const KIND: &'static str = "pos";
    const FORMAT: u64 = 1;

    fn check(&self) -> Result<(), String> {
        check_runs(self.runs.len())?;
        for (i, run) in self.runs.iter().enumerate() {
            let refuse =
                |why: String| Err(format!("runs[{i}], {} / {}: {why}", run.chars, run.words));
            if run.dev.is_none() && run.ended != Reason::NotFinite {
                return refuse("no accuracy, and the run did not end as not-finite".into());
            }
            for Accuracies { words, known, unknown, paper_acc } in
                [run.dev, run.test].into_iter().flatten()
            {
                if [words, known, unknown, paper_acc].iter().any(|x| !(0.0..=1.0).contains(x)) {
                    return refuse("an accuracy is not between 0 and 1".into());
                }
            }
            if !(run.seconds >= 0.0 && run.seconds.is_finite()) {
                return refuse(format!("{} seconds", run.seconds));
            }
        }
        Ok(())
    }

    /// index.html, report.md, pos.csv, accuracy.svg.
    fn files(&self) -> Result<Files, String> {
        self.check()?;
        let page = self.page();
        Ok(vec![
            ("index.html", html::page(&page).into_bytes()),
            ("report.md", markdown::page(&page).into_bytes()),
            ("pos.csv", csv(&self.runs).into_bytes()),
            ("accuracy.svg", self.plot().svg().into_bytes()),
        ])
    }

    fn table(&self) -> String {
        self.results_table().text()
    }
}

fn csv(runs: &[Run]) -> String {
    let mut out = String::from(
        "char,word,repetition,parameters,dev,dev_paper_acc,test,test_paper_acc,test_known,test_unknown,epochs,seconds\n",
    );
    for run in runs {
        let share = |a: Option<Accuracies>, f: fn(Accuracies) -> f64| {
            a.map_or(String::new(), |a| f(a).to_string())
        };
        let _ = writeln!(
            out,
            "{},{},{},{},{},{},{},{},{},{},{},{}",
            run.chars,
            run.words,
            run.repetition,
            run.parameters,
            share(run.dev, |a| a.words),
            share(run.dev, |a| a.paper_acc),
            share(run.test, |a| a.words),
            share(run.test, |a| a.paper_acc),
            share(run.test, |a| a.known),
            share(run.test, |a| a.unknown),
            run.epochs,
            run.seconds
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_tables() {
        for lang in ["en", "fr", "de"] {
            assert_eq!(paper_rows(lang).len(), 31, "{lang}");
        }
        let en = paper_rows("en");
        let both = en.iter().find(|row| row.pair == [PaperNet::BiLstm; 2]).unwrap();
        assert_eq!((both.dev, both.test), (94.85, 94.84));
    }
}
