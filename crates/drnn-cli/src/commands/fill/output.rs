//! What is written of a text and its answers: the completed text, or a line for each mask.

use super::holes::Mark;
use drnn_tasks::chars::CharTask;
use drnn_tasks::live::ranked;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io::{self, BufWriter, Write};

/// What is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The completed text.
    Text,
    /// For each mask its place in that text, and this many characters.
    Table(usize),
    /// The same as JSON.
    Json(usize),
}

/// Marks in, answers in, text out.
pub struct Output<W: Write> {
    to: BufWriter<W>,
    form: Form,
    alphabet: Vec<char>,
    /// What has no answer yet.
    open: VecDeque<Mark>,
    /// How many of these are written nevertheless: known characters, with no hole before them.
    written: usize,
    /// Place of the next character to be written, counted from 1.
    line: u64,
    column: u64,
}

impl<W: Write> Output<W> {
    pub fn new(to: W, form: Form, task: &CharTask) -> Output<W> {
        let alphabet = task.alphabet().symbols().to_vec();
        let (to, open) = (BufWriter::new(to), VecDeque::new());
        Output { to, form, alphabet, open, written: 0, line: 1, column: 1 }
    }

    /// A mark that is to be answered.
    pub fn ask(&mut self, mark: Mark) -> io::Result<()> {
        self.open.push_back(mark);
        self.write_known()
    }

    /// The answer to the first mark that has none.
    pub fn answer(&mut self, answer: &[f32]) -> io::Result<()> {
        match self.open.pop_front() {
            None => return Ok(()),
            Some(Mark::Known(_)) => self.written -= 1,
            Some(Mark::Hole) => self.fill(answer)?,
        }
        self.write_known()
    }

    pub fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    /// Writes known characters up to the next hole.
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
            Form::Table(_) | Form::Json(_) => Ok(()),
        }
    }

    fn fill(&mut self, answer: &[f32]) -> io::Result<()> {
        let found = ranked(answer);
        let Some(&(best, _)) = found.first() else { return Ok(()) };
        let (line, column, character) = (self.line, self.column, self.alphabet[best]);
        match self.form {
            Form::Text => {}
            Form::Table(most) => {
                write!(self.to, "{line}:{column}")?;
                for (class, p) in found.iter().take(most) {
                    write!(self.to, "\t{:?} {p:.4}", self.alphabet[*class])?;
                }
                writeln!(self.to)?;
            }
            Form::Json(most) => {
                let each = found.iter().take(most).map(
                    |(class, p)| json!({"character": self.alphabet[*class], "probability": p}),
                );
                let alternatives: Vec<Value> = each.collect();
                let value = json!({
                    "line": line, "column": column, "character": character, "alternatives": alternatives,
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
    use drnn_tasks::chars::Alphabet;

    /// What is written after each of some marks, whose answers come two late; `b` is the likeliest.
    fn written(form: Form, marks: &[Mark]) -> Vec<String> {
        let alphabet = Alphabet::new(vec!['a', 'b', ' ']).unwrap();
        let task = CharTask::new(alphabet, 9, 0.2);
        let mut output = Output::new(Vec::new(), form, &task);
        let answer = [0.0, 2f32.ln(), 0.0];
        let mut after = Vec::new();
        for i in 0..marks.len() + 2 {
            marks.get(i).map_or(Ok(()), |mark| output.ask(*mark)).unwrap();
            if i >= 2 {
                output.answer(&answer).unwrap();
            }
            output.flush().unwrap();
            after.push(String::from_utf8(output.to.get_ref().clone()).unwrap());
        }
        after
    }

    #[test]
    fn text_waits_for_holes_only() {
        use Mark::{Hole, Known};
        let marks = [Known('x'), Hole, Known('y'), Known('z')];
        assert_eq!(written(Form::Text, &marks), ["x", "x", "x", "xbyz", "xbyz", "xbyz"]);
        let marks = [Known('\n'), Known('x'), Hole, Hole];
        let table = written(Form::Table(2), &marks).pop().unwrap();
        assert_eq!(table, "2:2\t'b' 0.5000\t'a' 0.2500\n2:3\t'b' 0.5000\t'a' 0.2500\n");
        let json = written(Form::Json(1), &marks).pop().unwrap();
        let first: Value = serde_json::from_str(json.lines().next().unwrap()).unwrap();
        assert_eq!((&first["line"], &first["column"]), (&json!(2), &json!(2)));
        let best = &first["alternatives"][0];
        assert!((best["probability"].as_f64().unwrap() - 0.5).abs() < 1e-6, "{first}");
        assert_eq!((&best["character"], &first["alternatives"][1]), (&json!("b"), &Value::Null));
        assert_eq!((json.lines().count(), &first["character"]), (2, &json!("b")));
    }
}
