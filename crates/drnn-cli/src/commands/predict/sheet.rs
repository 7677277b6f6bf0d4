//! Rows of predictions as CSV with a header, or as one JSON object per line.

use super::To;
use crate::text::csv_field;
use serde_json::{Map, Value};
use std::io::{BufWriter, Result, Write};

/// A table that is written row by row.
pub struct Sheet<W: Write> {
    to: BufWriter<W>,
    form: To,
    delimiter: char,
    columns: Vec<String>,
    rows: usize,
}

/// A field of a row.
#[derive(Debug, Clone, PartialEq)]
pub enum Cell {
    Text(String),
    Number(f64),
    Count(u64),
    /// No prediction: an empty field, or null.
    None,
}

impl<W: Write> Sheet<W> {
    pub fn new(to: W, form: To) -> Sheet<W> {
        let (to, columns) = (BufWriter::new(to), Vec::new());
        Sheet { to, form, delimiter: ',', columns, rows: 0 }
    }

    /// The names of all columns, written once before the rows.
    pub fn header(&mut self, columns: Vec<String>, delimiter: char) -> Result<()> {
        (self.columns, self.delimiter) = (columns, delimiter);
        if self.form == To::Csv {
            let names: Vec<Cell> = self.columns.iter().cloned().map(Cell::Text).collect();
            self.line(&names)?;
        }
        Ok(())
    }

    /// One row, with a cell for each column.
    pub fn row(&mut self, cells: &[Cell]) -> Result<()> {
        self.rows += 1;
        match self.form {
            To::Csv => self.line(cells),
            To::Json => {
                let entries = self.columns.iter().cloned().zip(cells.iter().map(Cell::value));
                serde_json::to_writer(&mut self.to, &entries.collect::<Map<_, _>>())?;
                self.to.write_all(b"\n")
            }
        }
    }

    /// How many rows were written. Writes out what is buffered.
    pub fn finish(mut self) -> Result<usize> {
        self.to.flush()?;
        Ok(self.rows)
    }

    fn line(&mut self, cells: &[Cell]) -> Result<()> {
        for (i, cell) in cells.iter().enumerate() {
            if i > 0 {
                write!(self.to, "{}", self.delimiter)?;
            }
            match cell {
                Cell::Text(text) => {
                    self.to.write_all(csv_field(text, self.delimiter).as_bytes())?;
                }
                Cell::Number(x) => write!(self.to, "{x}")?,
                Cell::Count(n) => write!(self.to, "{n}")?,
                Cell::None => {}
            }
        }
        self.to.write_all(b"\n")
    }
}

impl Cell {
    fn value(&self) -> Value {
        match self {
            Cell::Text(text) => text.as_str().into(),
            Cell::Number(x) => (*x).into(),
            Cell::Count(n) => (*n).into(),
            Cell::None => Value::Null,
        }
    }
}
