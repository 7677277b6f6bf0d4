//! Elements from CSV, a line at a time.
//!
//! The first line of a model of series names its columns: they are found by name, in any order, among
//! others. Other models have no names: all columns count, in their order, and no line names them.

use super::csv::Fields;
use super::quote;
use super::table::{Choice, Places};
use drnn_tasks::live::{Element, LiveModel};
use drnn_tasks::text::number;
use drnn_tasks::{Error, Result};

/// Lines of CSV become elements.
pub struct ElementRows<'m> {
    model: &'m LiveModel,
    /// The line with its end.
    record: String,
    fields: Fields,
    header: Option<Header>,
    /// Which sequence the row before belonged to.
    sequence: Option<String>,
}

/// Names of columns, and which of them are read.
struct Header {
    names: Vec<String>,
    places: Places,
}

/// What a line was.
#[derive(Debug, Clone, PartialEq)]
pub enum ElementRow {
    /// The columns' names.
    Header,
    /// An element; `begins` where its column says that it belongs to another sequence than the one before.
    Element {
        /// The element.
        element: Element,
        /// Whether a sequence begins with it.
        begins: bool,
    },
}

impl<'m> ElementRows<'m> {
    /// For elements of `model`.
    pub fn new(model: &'m LiveModel) -> ElementRows<'m> {
        let delimiter = model.series().map_or(b',', |task| task.delimiter as u8);
        let (record, fields) = (String::new(), Fields::new(delimiter));
        ElementRows { model, record, fields, header: None, sequence: None }
    }

    /// Whether the next line names the columns.
    pub fn needs_header(&self) -> bool {
        self.model.series().is_some() && self.header.is_none()
    }

    /// The names of the columns, once they have been read.
    pub fn header(&self) -> Option<&[String]> {
        self.header.as_ref().map(|header| header.names.as_slice())
    }

    /// Field `i` of the line that was read last.
    pub fn field(&self, i: usize) -> &str {
        if i < self.fields.len() { self.fields.get(i) } else { "" }
    }

    /// What a line is. One that is refused changes nothing.
    pub fn read(&mut self, line: &str) -> Result<ElementRow> {
        self.record.clear();
        self.record += line;
        self.record.push('\n');
        self.fields.split(&self.record).map_err(|why| Error::Data(why.into()))?;
        let Some(task) = self.model.series() else {
            return match self.fields.len() {
                1 => Ok(ElementRow::Element {
                    element: self.model.line(self.fields.get(0))?,
                    begins: false,
                }),
                count => {
                    let numbers = (0..count).map(|i| number(self.fields.get(i)));
                    let numbers = numbers.collect::<std::result::Result<_, _>>();
                    let element = Element::Numbers(numbers.map_err(Error::Data)?);
                    Ok(ElementRow::Element { element, begins: false })
                }
            };
        };
        let Some(header) = &self.header else {
            let names: Vec<String> =
                (0..self.fields.len()).map(|i| self.fields.get(i).to_string()).collect();
            let choice = Choice {
                numbers: Some(task.inputs.clone()),
                sequence: task.sequence.clone().filter(|name| names.contains(name)),
                ..Choice::default()
            };
            let places = Places::new(&names, &choice).map_err(Error::Data)?;
            self.header = Some(Header { names, places });
            return Ok(ElementRow::Header);
        };
        let (found, expected) = (self.fields.len(), header.names.len());
        if found != expected {
            let why = format!("the row has {found} columns, the header has {expected}");
            return Err(Error::Data(why));
        }
        let mut numbers = Vec::with_capacity(task.inputs.len());
        for &place in &header.places.numbers {
            let found = number(self.fields.get(place));
            let name = || quote(&header.names[place]);
            numbers.push(found.map_err(|why| Error::Data(format!("column {}: {why}", name())))?);
        }
        let sequence = header.places.sequence.map(|at| self.fields.get(at));
        let begins = self.sequence.is_some() && self.sequence.as_deref() != sequence;
        if self.sequence.as_deref() != sequence {
            self.sequence = sequence.map(String::from);
        }
        Ok(ElementRow::Element { element: Element::Numbers(numbers), begins })
    }
}
