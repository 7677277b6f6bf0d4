//! Splits text into elements: lines, CSV rows, JSON, words or numbers separated by spaces, or
//! characters.

use crate::Failure;
use crate::text::masks::{Mark, Masks};
use clap::ValueEnum;
use drnn_tasks::live::{Element, ElementKind, LiveModel};
use drnn_train::read::{ElementRow, ElementRows, MAX_LINE_BYTES};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// An element per line: numbers, a token, a word, or one character
    Lines,
    /// A row of numbers per line; for a series, after a header line
    Csv,
    /// JSON per line: an array, an object by column names, a number, a string, null
    Json,
    /// Every character is an element
    Chars,
    /// Tokens or words, separated by spaces or line ends
    Tokens,
}

/// An element, or the boundary between two sequences.
#[derive(Debug, PartialEq)]
pub enum Item {
    Element(Element),
    /// The sequence ends here, and another one begins.
    Begins,
    /// A line that is no element, or one that the model refuses.
    Bad {
        /// Its number, from 1.
        line: u64,
        why: String,
    },
}

/// What becomes of a bad line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum BadLines {
    /// The stream ends with an error
    Stop,
    /// It is left out: the sequence continues as if the line were not there
    Skip,
    /// It is left out, and a line with the error is written in its place
    Mark,
}

/// Splits text that comes in pieces.
pub struct Elements<'m> {
    model: &'m LiveModel,
    from: From,
    /// Whether a blank line ends a sequence.
    blank_ends: bool,
    bad_lines: BadLines,
    rows: ElementRows<'m>,
    masks: Masks,
    /// The incomplete line or token.
    open: String,
    /// Whether the line is empty so far.
    is_blank: bool,
    /// Whether the incomplete line is too long and is dropped up to its end.
    too_long: bool,
    /// Line number, from 1.
    line: u64,
}

impl<'m> Elements<'m> {
    /// In format `from`, or the default format of the model.
    pub fn new(
        model: &'m LiveModel,
        from: Option<From>,
        blank_ends: bool,
        bad_lines: BadLines,
    ) -> Result<Elements<'m>, Failure> {
        let suggested = match (model.element_kind(), model.task()) {
            (ElementKind::Characters, _) => From::Chars,
            (_, "series") => From::Csv,
            _ => From::Lines,
        };
        let from = from.unwrap_or(suggested);
        let others = match (from, model.element_kind()) {
            (From::Lines | From::Json, _)
            | (From::Chars, ElementKind::Characters)
            | (From::Csv, ElementKind::Numbers(_) | ElementKind::Fields(_))
            | (From::Tokens, ElementKind::Tokens(_) | ElementKind::Words) => None,
            (_, ElementKind::Characters) => Some("chars"),
            (_, ElementKind::Numbers(_) | ElementKind::Fields(_)) => Some("csv"),
            (_, ElementKind::Tokens(_) | ElementKind::Words) => Some("tokens"),
        };
        if let Some(other) = others {
            let (name, reads) = (from.to_possible_value(), model.element_kind());
            let name = name.as_ref().map_or("", |name| name.get_name());
            let why = format!("--from {name}: the model reads {reads}; use lines, json or {other}");
            return Err(Failure::Input(why));
        }
        let masks = Masks::new(&[]).map_err(Failure::Input)?;
        let (rows, open) = (ElementRows::new(model), String::new());
        let (is_blank, too_long, line) = (true, false, 1);
        Ok(Elements {
            model,
            from,
            blank_ends,
            bad_lines,
            rows,
            masks,
            open,
            is_blank,
            too_long,
            line,
        })
    }

    /// Adds a piece.
    pub fn take(
        &mut self,
        text: &str,
        mut to: impl FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        match self.from {
            From::Chars => text.chars().try_for_each(|c| self.character(c, &mut to)),
            From::Tokens => text.chars().try_for_each(|c| self.token_char(c, &mut to)),
            From::Lines | From::Csv | From::Json => {
                let mut rest = text;
                while let Some((end, others)) = rest.split_once('\n') {
                    self.add(end)?;
                    self.end_line(&mut to)?;
                    rest = others;
                }
                self.add(rest)
            }
        }
    }

    /// The text has ended; its last line need not have a line end.
    pub fn end(&mut self, mut to: impl FnMut(Item) -> Result<(), Failure>) -> Result<(), Failure> {
        match self.from {
            From::Chars => {
                let Elements { masks, line, .. } = self;
                masks.end(|mark| to(item(mark)).map_err(|e| in_line(*line, e)))
            }
            From::Tokens => self.end_token(&mut to),
            _ if self.open.is_empty() && !self.too_long => Ok(()),
            _ => self.end_line(&mut to),
        }
    }

    /// An error in the current line.
    pub fn refuse(&self, why: String) -> Failure {
        in_line(self.line, Failure::Input(why))
    }

    fn character(
        &mut self,
        character: char,
        to: &mut impl FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let ends_line = character == '\n';
        let line = self.line;
        self.line += u64::from(ends_line);
        if self.blank_ends && ends_line && self.is_blank {
            return to(Item::Begins).map_err(|e| in_line(line, e));
        }
        self.is_blank = ends_line;
        self.masks.take(character, |mark| to(item(mark)).map_err(|e| in_line(line, e)))
    }

    fn token_char(
        &mut self,
        character: char,
        to: &mut impl FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if !character.is_whitespace() {
            self.is_blank = false;
            return self.add(character.encode_utf8(&mut [0; 4]));
        }
        self.end_token(to)?;
        if character == '\n' {
            if std::mem::replace(&mut self.is_blank, true) && self.blank_ends {
                to(Item::Begins).map_err(|e| in_line(self.line, e))?;
            }
            self.line += 1;
        }
        Ok(())
    }

    fn end_token(
        &mut self,
        to: &mut impl FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.open.is_empty() {
            return Ok(());
        }
        let element = match std::mem::take(&mut self.too_long) {
            true => Err(Failure::Input(too_long())),
            false => self.model.line(&self.open).map_err(Failure::from),
        };
        self.open.clear();
        let outcome = element.and_then(|element| to(Item::Element(element)));
        self.judge(outcome, to)
    }

    fn add(&mut self, text: &str) -> Result<(), Failure> {
        if self.too_long {
            return Ok(());
        }
        if self.open.len() + text.len() > MAX_LINE_BYTES {
            if self.bad_lines == BadLines::Stop {
                return Err(self.refuse(too_long()));
            }
            // A rest of the line is kept, so that it does not count as blank.
            (self.too_long, self.open) = (true, ".".into());
            return Ok(());
        }
        self.open += text;
        Ok(())
    }

    /// What becomes of a line, given what came of it.
    fn judge(
        &self,
        outcome: Result<(), Failure>,
        to: &mut impl FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let line = self.line;
        match outcome {
            Err(Failure::Input(why)) if self.bad_lines != BadLines::Stop => {
                to(Item::Bad { line, why })
            }
            Err(Failure::Input(why)) => {
                let help = "--bad-lines skip or mark leaves such lines out";
                Err(in_line(line, Failure::Input(format!("{why}; {help}"))))
            }
            outcome => outcome.map_err(|e| in_line(line, e)),
        }
    }

    fn end_line(
        &mut self,
        to: &mut impl FnMut(Item) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let line = self.open.trim_end_matches('\r');
        // A space may be a character.
        let is_blank = match (self.from, self.model.element_kind()) {
            (From::Lines, ElementKind::Characters) => line.is_empty(),
            _ => line.trim().is_empty(),
        };
        // Without a header no line can be read.
        let is_header = self.from == From::Csv && self.rows.needs_header();
        let items = match (self.from, is_blank) {
            _ if self.too_long => Err(drnn_tasks::Error::Data(too_long())),
            (_, true) => Ok([self.blank_ends.then_some(Item::Begins), None]),
            (From::Json, _) => self.model.json(line).map(|e| [None, Some(Item::Element(e))]),
            (From::Csv, _) => self.rows.read(line).map(|row| match row {
                ElementRow::Header => [None, None],
                ElementRow::Element { element, begins } => {
                    [begins.then_some(Item::Begins), Some(Item::Element(element))]
                }
            }),
            _ => self.model.line(line).map(|element| [None, Some(Item::Element(element))]),
        };
        self.too_long = false;
        self.open.clear();
        let outcome = match items {
            Err(why) if is_header => return Err(in_line(self.line, why.into())),
            Err(why) => Err(why.into()),
            Ok(items) => items.into_iter().flatten().try_for_each(&mut *to),
        };
        self.judge(outcome, to)?;
        self.line += 1;
        Ok(())
    }
}

fn too_long() -> String {
    format!("longer than {MAX_LINE_BYTES} bytes; is this text with line ends?")
}

fn item(mark: Mark) -> Item {
    Item::Element(match mark {
        Mark::Known(character) => Element::Char(character),
        Mark::Masked => Element::Mask,
    })
}

/// Adds the line number to an error.
fn in_line(line: u64, failure: Failure) -> Failure {
    match failure {
        Failure::Input(why) => Failure::Input(format!("standard input:{line}: {why}")),
        other => other,
    }
}
