//! Output of `drnn fill`: the completed text, or a line for each mask.

use crate::text::csv_field;
use crate::text::masks::Mark;
use drnn_tasks::live::{Alternative, Predicted};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The completed text.
    Text,
    /// For each mask its line and column in that text, and its alternatives.
    Table,
    /// The same as JSON.
    Json,
    /// The same as CSV with a header; the best alternative only.
    Csv,
}

/// The first line of [`Form::Csv`].
const CSV_HEADER: &str = "line,column,character,probability\n";

/// Takes the marks of a text and the answers to them, both in order, and writes the output.
pub struct Output<W: Write> {
    to: BufWriter<W>,
    form: Form,
    /// Marks without an answer so far.
    open: VecDeque<Mark>,
    /// How many of these are written already: known characters, with no mask before them.
    written: usize,
    /// Position of the next character to be written, counted from 1.
    line: u64,
    column: u64,
    /// Masks filled in.
    masks: usize,
    /// Whether the header of CSV still has to be written.
    needs_header: bool,
}

impl<W: Write> Output<W> {
    pub fn new(to: W, form: Form) -> Output<W> {
        let (to, open) = (BufWriter::new(to), VecDeque::new());
        let needs_header = form == Form::Csv;
        Output { to, form, open, written: 0, line: 1, column: 1, masks: 0, needs_header }
    }

    /// Masks filled in so far.
    pub fn masks(&self) -> usize {
        self.masks
    }

    /// A mark that was read; its answer follows.
    pub fn read(&mut self, mark: Mark) -> io::Result<()> {
        self.open.push_back(mark);
        self.write_known()
    }

    /// The answer to the first mark that has none.
    pub fn answer(&mut self, answer: &Predicted) -> io::Result<()> {
        match self.open.pop_front() {
            None => return Ok(()),
            Some(Mark::Known(_)) => self.written -= 1,
            Some(Mark::Masked) => {
                if let Predicted::Character { character, alternatives, .. } = answer {
                    self.fill(*character, alternatives)?;
                }
            }
        }
        self.write_known()
    }

    pub fn flush(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.needs_header) {
            self.to.write_all(CSV_HEADER.as_bytes())?;
        }
        self.to.flush()
    }

    /// Writes known characters up to the next mask.
    fn write_known(&mut self) -> io::Result<()> {
        while let Some(&Mark::Known(character)) = self.open.get(self.written) {
            self.written += 1;
            self.write(character)?;
        }
        Ok(())
    }

    fn write(&mut self, character: char) -> io::Result<()> {
        (self.line, self.column) = match character {
            '\n' => (self.line + 1, 1),
            _ => (self.line, self.column + 1),
        };
        match self.form {
            Form::Text => self.to.write_all(character.encode_utf8(&mut [0; 4]).as_bytes()),
            Form::Table | Form::Json | Form::Csv => Ok(()),
        }
    }

    fn fill(&mut self, character: char, alternatives: &[Alternative]) -> io::Result<()> {
        let (line, column) = (self.line, self.column);
        self.masks += 1;
        match self.form {
            Form::Text => {}
            Form::Csv => {
                if std::mem::take(&mut self.needs_header) {
                    self.to.write_all(CSV_HEADER.as_bytes())?;
                }
                let best = alternatives.first().map_or(f64::NAN, |best| best.probability);
                let character = csv_field(character.encode_utf8(&mut [0; 4]), ',').into_owned();
                writeln!(self.to, "{line},{column},{character},{best}")?;
            }
            Form::Table => {
                write!(self.to, "{line}:{column}")?;
                for Alternative { character, probability } in alternatives {
                    write!(self.to, "\t{character:?} {probability:.4}")?;
                }
                writeln!(self.to)?;
            }
            Form::Json => {
                let value = json!({
                    "line": line, "column": column, "character": character,
                    "alternatives": alternatives,
                });
                writeln!(self.to, "{value}")?;
            }
        }
        self.write(character)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value as Json;

    /// What is written after each of some marks whose answers come two marks late; `b` has
    /// probability 1/2 everywhere, `a` 1/4.
    fn written(form: Form, count: usize, marks: &[Mark]) -> Vec<String> {
        let mut output = Output::new(Vec::new(), form);
        let alternatives = [('b', 0.5), ('a', 0.25)]
            .map(|(character, probability)| Alternative { character, probability });
        let alternatives = alternatives[..count].to_vec();
        let answer = Predicted::Character { character: 'b', masked: true, alternatives };
        let mut after = Vec::new();
        for i in 0..marks.len() + 2 {
            marks.get(i).map_or(Ok(()), |mark| output.read(*mark)).unwrap();
            if i >= 2 {
                output.answer(&answer).unwrap();
            }
            output.flush().unwrap();
            after.push(String::from_utf8(output.to.get_ref().clone()).unwrap());
        }
        after
    }

    #[test]
    fn text_waits_for_masks_only() {
        use Mark::{Known, Masked};
        let marks = [Known('x'), Masked, Known('y'), Known('z')];
        assert_eq!(written(Form::Text, 1, &marks), ["x", "x", "x", "xbyz", "xbyz", "xbyz"]);
        let marks = [Known('\n'), Known('x'), Masked, Masked];
        let table = written(Form::Table, 2, &marks).pop().unwrap();
        assert_eq!(table, "2:2\t'b' 0.5000\t'a' 0.2500\n2:3\t'b' 0.5000\t'a' 0.2500\n");
        let json = written(Form::Json, 1, &marks).pop().unwrap();
        let first: Json = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!((&first["line"], &first["column"]), (&json!(2), &json!(2)));
        let best = &first["alternatives"][0];
        assert!((best["probability"].as_f64().unwrap() - 0.5).abs() < 1e-6, "{first}");
        assert_eq!((&best["character"], &first["alternatives"][1]), (&json!("b"), &Json::Null));
        assert_eq!((json.lines().count(), &first["character"]), (2, &json!("b")));
    }
}
