//! Elements from CSV, a line at a time.
//!
//! The first line of a model of series names its columns: they are found by name, in any order, beside others. Other
//! models have no names: all columns count, in their order, and no line names them.

use super::element::Element;
use super::model::{LiveModel, Task};
use crate::error::{Error, Result};
use crate::read::{Choice, Fields, Places, number, quote};

/// Lines of CSV become elements.
pub struct Rows<'m> {
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
pub enum Row {
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

impl<'m> Rows<'m> {
    /// For elements of `model`.
    pub fn new(model: &'m LiveModel) -> Rows<'m> {
        let delimiter = match &model.task {
            Task::Series(_, task) => task.delimiter as u8,
            _ => b',',
        };
        let (record, fields) = (String::new(), Fields::new(delimiter));
        Rows { model, record, fields, header: None, sequence: None }
    }

    /// What a line is. One that is refused changes nothing.
    pub fn read(&mut self, line: &str) -> Result<Row> {
        self.record.clear();
        self.record += line;
        self.record.push('\n');
        self.fields.split(&self.record).map_err(|why| Error::Data(why.into()))?;
        let Task::Series(_, task) = &self.model.task else {
            return match self.fields.len() {
                1 => Ok(Row::Element {
                    element: self.model.line(self.fields.get(0))?,
                    begins: false,
                }),
                count => {
                    let numbers = (0..count).map(|i| number(self.fields.get(i)));
                    let numbers = numbers.collect::<std::result::Result<_, _>>();
                    let element = Element::Numbers(numbers.map_err(Error::Data)?);
                    Ok(Row::Element { element, begins: false })
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
            return Ok(Row::Header);
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
        Ok(Row::Element { element: Element::Numbers(numbers), begins })
    }
}
