//! Rows of CSV with exact line numbers.
//!
//! ```text
//! id,x,note
//! 7,0.5,"a quoted field may hold , and "" and ends of lines"
//! ```
//!
//! Blank lines are skipped. Fields are taken without the spaces around them.

use super::header::{Delimiter, Header};
use super::limits::MAX_LINE_BYTES;
use super::lines::Lines;
use super::refuse;
use crate::error::{Error, Result};
use csv_core::{ReadRecordResult, Reader, ReaderBuilder, Terminator};

/// The rows of a file as text, one at a time in memory that is used again: a row has several lines
/// where a quoted field does.
pub struct Records {
    lines: Lines,
    record: String,
    line: u64,
}

/// The rows of a file, split into fields.
pub(super) struct Rows {
    records: Records,
    fields: Fields,
    /// The first row after the header, with its line: it was looked at to understand the header.
    pending: Option<(String, u64)>,
}

/// The fields of one row.
pub(crate) struct Fields {
    parser: Reader,
    delimiter: u8,
    unquoted: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
}

impl Fields {
    pub(crate) fn new(delimiter: u8) -> Fields {
        let mut builder = ReaderBuilder::new();
        let parser = builder.delimiter(delimiter).terminator(Terminator::Any(b'\n')).build();
        Fields { parser, delimiter, unquoted: Vec::new(), ends: Vec::new(), count: 0 }
    }

    /// Splits a row, which ends with the end of its line.
    pub(crate) fn split(&mut self, record: &str) -> std::result::Result<(), &'static str> {
        let input = record.as_bytes();
        let max_fields = input.iter().filter(|b| **b == self.delimiter).count() + 2;
        self.unquoted.resize(input.len().max(self.unquoted.len()), 0);
        self.ends.resize(max_fields.max(self.ends.len()), 0);
        self.parser.reset();
        let (result, read, _, count) =
            self.parser.read_record(input, &mut self.unquoted, &mut self.ends);
        if result != ReadRecordResult::Record || read != input.len() {
            return Err(QUOTES);
        }
        self.count = count;
        Ok(())
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn get(&self, i: usize) -> &str {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        // Delimiters and quotes are ASCII, so what is between them is still UTF-8.
        std::str::from_utf8(&self.unquoted[start..self.ends[i]]).unwrap_or_default().trim()
    }
}

impl Records {
    /// Of these lines.
    pub fn new(lines: Lines) -> Records {
        Records { lines, record: String::new(), line: 0 }
    }

    /// The next row, without the end of its last line; None at the end.
    #[allow(clippy::should_implement_trait)] // an iterator could not lend
    pub fn next(&mut self) -> Result<Option<&str>> {
        loop {
            self.record.clear();
            let Some(line) = self.lines.next()? else { return Ok(None) };
            self.record += line;
            self.line = self.lines.number();
            if !self.record.trim().is_empty() {
                break;
            }
        }
        // Inside quotes an end of line is part of the field.
        let mut open = quotes(&self.record);
        while open % 2 == 1 {
            let more = self.lines.next()?;
            let Some(line) = more.filter(|line| self.record.len() + line.len() < MAX_LINE_BYTES)
            else {
                return Err(self.refuse(QUOTES));
            };
            self.record.push('\n');
            self.record += line;
            open += quotes(line);
        }
        Ok(Some(&self.record))
    }

    /// The line in which the row begins, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// What errors call the file.
    pub fn name(&self) -> &str {
        self.lines.name()
    }

    /// Says what is wrong with the row.
    pub fn refuse(&self, reason: impl ToString) -> Error {
        refuse(self.lines.name(), self.line, reason)
    }
}

impl Rows {
    /// Reads the header; rows follow. None if there is not even a header.
    pub(super) fn open(lines: Lines, delimiter: Delimiter) -> Result<Option<(Rows, Header)>> {
        let mut records = Records::new(lines);
        let Some(names) = records.next()?.map(String::from) else { return Ok(None) };
        let line = records.line;
        let first = records.next()?.map(String::from).map(|row| (row, records.line));
        let row = first.as_ref().map(|(row, _)| row.as_str());
        let delimiter = delimiter.of(&names, row);
        (records.record, records.line) = (names, line);
        let mut rows = Rows { records, fields: Fields::new(delimiter), pending: None };
        rows.split()?;
        let names = (0..rows.len()).map(|i| rows.field(i).to_string()).collect();
        let header = Header::new(names, row, delimiter);
        rows.pending = first;
        Ok(Some((rows, header)))
    }

    /// Reads a row; whether there is one.
    pub(super) fn next(&mut self) -> Result<bool> {
        match self.pending.take() {
            Some(row) => (self.records.record, self.records.line) = row,
            None => {
                if self.records.next()?.is_none() {
                    return Ok(false);
                }
            }
        }
        self.split()?;
        Ok(true)
    }

    fn split(&mut self) -> Result<()> {
        self.records.record.push('\n');
        self.fields.split(&self.records.record).map_err(|why| self.refuse(why))
    }

    /// Fields of the row.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(super) fn field(&self, i: usize) -> &str {
        self.fields.get(i)
    }

    /// Where the row begins.
    pub(super) fn line(&self) -> u64 {
        self.records.line()
    }

    pub(super) fn name(&self) -> &str {
        self.records.name()
    }

    /// Says what is wrong with the row.
    pub(super) fn refuse(&self, reason: impl ToString) -> Error {
        self.records.refuse(reason)
    }
}

fn quotes(text: &str) -> usize {
    text.bytes().filter(|b| *b == b'"').count()
}

const QUOTES: &str = "a quote is left open, or stands inside a field; write \"..\" around such a field and \"\" for a quote in it";

#[cfg(test)]
mod tests {
    use super::super::Source;
    use super::*;

    fn rows(text: &str) -> Result<Vec<(u64, Vec<String>)>> {
        let lines = Source::from_bytes("a", text.into()).unwrap().lines();
        let Some((mut rows, header)) = Rows::open(lines, Delimiter::Exactly(b','))? else {
            return Ok(Vec::new());
        };
        let mut all = vec![(1, header.names)];
        while rows.next()? {
            let fields = (0..rows.len()).map(|i| rows.field(i).to_string()).collect();
            all.push((rows.line(), fields));
        }
        Ok(all)
    }

    #[test]
    fn fields_and_lines() {
        let text = "a, b ,\n\n \n\"x, \"\"y\"\"\n\nz\",2,\"\"\r\n,\nπ";
        let found = rows(text).unwrap();
        let expected: [(u64, &[&str]); 4] =
            [(1, &["a", "b", ""]), (4, &["x, \"y\"\n\nz", "2", ""]), (7, &["", ""]), (8, &["π"])];
        assert_eq!(found.len(), expected.len());
        for (found, (line, fields)) in found.iter().zip(expected) {
            assert_eq!((found.0, &found.1[..]), (line, &fields.map_strings()[..]));
        }
        assert_eq!(rows("a\rb,c").unwrap()[0].1, ["a\rb", "c"]);
    }

    trait MapStrings {
        fn map_strings(&self) -> Vec<String>;
    }

    impl MapStrings for &[&str] {
        fn map_strings(&self) -> Vec<String> {
            self.iter().map(|s| s.to_string()).collect()
        }
    }

    #[test]
    fn quotes_that_do_not_pair() {
        let long = format!("a\n\"{}", "x\n".repeat(MAX_LINE_BYTES));
        for text in ["a\n\"b\nc\n", "a\nb\"c,\"d\n", "a\n5\",1\n", &long] {
            let message = rows(text).unwrap_err().to_string();
            assert!(message.starts_with("a:2: a quote is left open"), "{message}");
        }
    }
}
