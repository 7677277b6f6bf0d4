//! Tagged words, as columns or as CoNLL-U.

use super::input::Whole;
use crate::Failure;
use clap::ValueEnum;
use drnn_tasks::live::{Predicted, Prediction};
use std::io::{BufWriter, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum To {
    /// Word TAB tag, a blank line after each sentence
    Tsv,
    /// Ten columns
    Conllu,
}

/// Writes tagged words.
pub struct Output<W: Write> {
    to: BufWriter<W>,
    form: To,
    probabilities: bool,
}

impl<W: Write> Output<W> {
    /// With the probability of each tag where `probabilities`, which only [`To::Tsv`] has.
    pub fn new(to: W, form: To, probabilities: bool) -> Output<W> {
        Output { to: BufWriter::new(to), form, probabilities }
    }

    /// The answer to a word of a sentence that is arriving.
    pub fn word(&mut self, answer: &Prediction) -> std::io::Result<()> {
        self.row(answer.position + 1, &answer.value)
    }

    /// The end of such a sentence.
    pub fn end(&mut self) -> std::io::Result<()> {
        writeln!(self.to)
    }

    /// A complete sentence with the answers to all of its words.
    pub fn sentence(&mut self, whole: &Whole, answers: &[Predicted]) -> Result<(), Failure> {
        let words = answers.iter().enumerate().filter(|(i, _)| whole.is_word(*i));
        let words = words.map(|(_, value)| value);
        match (&whole.lines, self.form) {
            (Some(lines), To::Conllu) => {
                let tag = |value| match value {
                    &Predicted::Tag { tag, .. } => Some(tag),
                    _ => None,
                };
                let tags: Vec<&str> = words.filter_map(tag).collect();
                self.to.write_all(lines.with_tags(&tags)?.as_bytes())?;
            }
            _ => {
                for (number, value) in (1..).zip(words) {
                    self.row(number, value)?;
                }
                self.end()?;
            }
        }
        Ok(())
    }

    pub fn flush(&mut self) -> std::io::Result<()> {
        self.to.flush()
    }

    /// A word and its tag; `number` counts the words of the sentence from 1.
    fn row(&mut self, number: u64, value: &Predicted) -> std::io::Result<()> {
        let Predicted::Tag { word, tag, probability } = value else { return Ok(()) };
        match self.form {
            To::Conllu => writeln!(self.to, "{number}\t{word}\t_\t{tag}\t_\t_\t_\t_\t_\t_"),
            To::Tsv if self.probabilities => writeln!(self.to, "{word}\t{tag}\t{probability:.4}"),
            To::Tsv => writeln!(self.to, "{word}\t{tag}"),
        }
    }
}
