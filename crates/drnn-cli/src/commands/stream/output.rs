//! Predictions as text or as JSON: a line each, except characters as text.

use clap::ValueEnum;
use drnn_tasks::live::{Predicted, Prediction};
use serde_json::json;
use std::collections::VecDeque;
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
    /// Predictions since the last gap.
    answered: u64,
    /// Marks of bad lines: each waits for the prediction for the element before its line.
    marks: VecDeque<Mark>,
}

/// The mark of a bad line.
struct Mark {
    /// Elements of the sequence before it.
    after: u64,
    line: u64,
    why: String,
}

/// Maximum number of marks that wait: more are written early, so that memory is bounded.
const MAX_WAITING: usize = 1000;

impl<W: Write> Output<W> {
    pub fn new(to: W, form: To, keeps_lines: bool) -> Output<W> {
        Output { to: BufWriter::new(to), form, keeps_lines, answered: 0, marks: VecDeque::new() }
    }

    pub fn answer(&mut self, answer: &Prediction) -> Result<()> {
        self.answered += 1;
        self.write(answer)?;
        self.write_marks(self.answered)
    }

    /// A bad line, after `read` elements of its sequence: its mark keeps its place among the
    /// predictions.
    pub fn mark(&mut self, read: u64, line: u64, why: String) -> Result<()> {
        self.marks.push_back(Mark { after: read, line, why });
        let early = self.marks.len().saturating_sub(MAX_WAITING);
        let early = early.checked_sub(1).map_or(0, |last| self.marks[last].after);
        self.write_marks(early.max(self.answered))
    }

    /// Writes the marks of lines that come after at most `read` elements.
    fn write_marks(&mut self, read: u64) -> Result<()> {
        while self.marks.front().is_some_and(|mark| mark.after <= read) {
            let Some(Mark { line, why, .. }) = self.marks.pop_front() else { break };
            match self.form {
                To::Json => writeln!(self.to, "{}", json!({ "line": line, "error": why }))?,
                To::Text => writeln!(self.to, "error\tline {line}: {why}")?,
            }
        }
        Ok(())
    }

    fn write(&mut self, answer: &Prediction) -> Result<()> {
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
        self.write_marks(u64::MAX)?;
        let answered = std::mem::take(&mut self.answered) > 0;
        match self.form == To::Text && (answered || self.keeps_lines) {
            true => self.to.write_all(b"\n"),
            false => Ok(()),
        }
    }

    /// Writes the marks that still wait: there are no more predictions.
    pub fn end(&mut self) -> Result<()> {
        self.write_marks(u64::MAX)
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
