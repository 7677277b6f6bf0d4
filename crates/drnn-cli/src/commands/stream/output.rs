//! Predictions as text or as JSON: a line each, except characters as text.

use clap::ValueEnum;
use drnn_tasks::live::{Predicted, Prediction};
use std::io::{BufWriter, Result, Write};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum To {
    /// Columns separated by TAB; for characters the completed text
    Text,
    /// An object per line; for characters the masked ones only
    Json,
}

pub struct Output<W: Write> {
    to: BufWriter<W>,
    form: To,
    /// Whether every blank line is written, as in a text.
    keeps_lines: bool,
    /// Whether there was a prediction since the last gap.
    answered: bool,
}

impl<W: Write> Output<W> {
    pub fn new(to: W, form: To, keeps_lines: bool) -> Output<W> {
        Output { to: BufWriter::new(to), form, keeps_lines, answered: false }
    }

    pub fn answer(&mut self, answer: &Prediction) -> Result<()> {
        self.answered = true;
        let to = &mut self.to;
        match (self.form, &answer.value) {
            (To::Json, Predicted::Character { masked: false, .. }) => Ok(()),
            (To::Json, _) => {
                serde_json::to_writer(&mut *to, answer)?;
                to.write_all(b"\n")
            }
            (To::Text, Predicted::Character { character, .. }) => {
                to.write_all(character.encode_utf8(&mut [0; 4]).as_bytes())
            }
            (To::Text, Predicted::Numbers { values }) => columns(to, values.iter()),
            (To::Text, Predicted::Named { values }) => columns(to, values.iter().map(|(_, x)| x)),
            (To::Text, Predicted::Class { class, probability, .. }) => {
                writeln!(to, "{class}\t{probability:.4}")
            }
            (To::Text, Predicted::Tag { word, tag, .. }) => writeln!(to, "{word}\t{tag}"),
            (To::Text, other) => writeln!(to, "{other:?}"),
        }
    }

    /// A sequence has ended, and another will begin.
    pub fn gap(&mut self) -> Result<()> {
        let answered = std::mem::take(&mut self.answered);
        match self.form == To::Text && (answered || self.keeps_lines) {
            true => self.to.write_all(b"\n"),
            false => Ok(()),
        }
    }

    pub fn flush(&mut self) -> Result<()> {
        self.to.flush()
    }
}

fn columns<T: std::fmt::Display>(
    to: &mut impl Write,
    values: impl Iterator<Item = T>,
) -> Result<()> {
    for (i, value) in values.enumerate() {
        write!(to, "{}{value}", if i == 0 { "" } else { "\t" })?;
    }
    to.write_all(b"\n")
}
