//! Elements of a model from CSV, a row at a time.
//!
//! The first line for a model of series names its columns: they are found by name, in any order,
//! among others. Other models have no names: all columns count, in their order, and no line names
//! them.

use super::csv::Fields;
use super::header::{COMMON, Header};
use super::table::{Choice, Places, wrong_length};
use drnn_tasks::live::{Element, LiveModel};
use drnn_tasks::series::SeriesTask;
use drnn_tasks::text::number;
use drnn_tasks::{Error, Result};

/// Lines of CSV become elements.
pub struct ElementRows<'m> {
    model: &'m LiveModel,
    /// The line with its end.
    record: String,
    fields: Fields,
    columns: Option<ElementColumns>,
    /// Whether a row has been read.
    begun: bool,
    /// Which sequence the row before belonged to.
    sequence: Option<String>,
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

/// Where the columns of a model are in a table.
struct ElementColumns {
    header: Header,
    places: Places,
}

impl ElementColumns {
    fn new(task: &SeriesTask, header: Header) -> std::result::Result<ElementColumns, String> {
        let sequence = task.sequence.clone().filter(|name| header.names.contains(name));
        let columns = Some(task.input_columns().into_owned());
        let choice = Choice { columns, sequence, ..Choice::default() };
        let places = Places::new(&header, &choice)?;
        Ok(ElementColumns { header, places })
    }

    /// The element of a row.
    fn element<'f>(
        &self,
        count: usize,
        field: impl Fn(usize) -> &'f str,
    ) -> std::result::Result<Element, String> {
        let expected = self.header.names.len();
        if count != expected {
            return Err(wrong_length(count, expected));
        }
        let mut numbers = Vec::new();
        for (column, &place) in self.places.columns.iter().zip(&self.places.at) {
            column.encode(field(place), &mut numbers)?;
        }
        Ok(Element::Numbers(numbers))
    }
}

/// Whether a row of sequence `now` begins it, and remembers it.
fn begins(last: &mut Option<String>, now: Option<&str>) -> bool {
    let begins = last.is_some() && last.as_deref() != now;
    if last.as_deref() != now {
        *last = now.map(String::from);
    }
    begins
}

impl<'m> ElementRows<'m> {
    /// For elements of `model`.
    pub fn new(model: &'m LiveModel) -> ElementRows<'m> {
        let delimiter = model.series().map_or(b',', |task| task.delimiter as u8);
        let (record, fields) = (String::new(), Fields::new(delimiter));
        let (columns, begun, sequence) = (None, false, None);
        ElementRows { model, record, fields, columns, begun, sequence }
    }

    /// What a line is. One that is refused changes nothing.
    pub fn read(&mut self, line: &str) -> Result<ElementRow> {
        self.record.clear();
        self.record += line;
        self.record.push('\n');
        match (self.model.series(), &self.columns) {
            (None, _) => self.numbers(),
            (Some(task), None) => self.find_columns(task).map(|()| ElementRow::Header),
            (Some(task), Some(_)) => self.row(task),
        }
        .map_err(Error::Data)
    }

    /// Whether the next line names the columns.
    pub fn needs_header(&self) -> bool {
        self.model.series().is_some() && self.columns.is_none()
    }

    /// The names of all columns, once they have been read. Where rows have names of their own, as R
    /// writes them, their column is known with the first row.
    pub fn header(&self) -> Option<&[String]> {
        self.columns.as_ref().map(|columns| columns.header.names.as_slice())
    }

    /// What separates columns, once their names have been read.
    pub fn delimiter(&self) -> Option<char> {
        self.columns.as_ref().map(|columns| columns.header.delimiter.into())
    }

    /// Field `i` of the line that was read last.
    pub fn field(&self, i: usize) -> &str {
        if i < self.fields.len() { self.fields.get(i) } else { "" }
    }

    /// Columns without names.
    fn numbers(&mut self) -> std::result::Result<ElementRow, String> {
        self.fields.split(&self.record)?;
        let fields = (0..self.fields.len()).map(|i| self.fields.get(i));
        let element = match self.fields.len() {
            1 => self.model.line(self.fields.get(0)).map_err(|e| e.to_string())?,
            _ => Element::Numbers(fields.map(number).collect::<std::result::Result<_, _>>()?),
        };
        Ok(ElementRow::Element { element, begins: false })
    }

    /// Finds the model's columns; with another delimiter where the model's own finds none of them.
    fn find_columns(&mut self, task: &SeriesTask) -> std::result::Result<(), String> {
        let own = task.delimiter as u8;
        let mut of = |delimiter: u8| {
            let mut fields = Fields::new(delimiter);
            fields.split(&self.record)?;
            let names = (0..fields.len()).map(|i| fields.get(i).to_string()).collect();
            let columns = ElementColumns::new(task, Header::new(names, None, delimiter))?;
            (self.fields, self.columns) = (fields, Some(columns));
            Ok::<(), String>(())
        };
        of(own).or_else(|why| COMMON.into_iter().find_map(|other| of(other).ok()).ok_or(why))
    }

    fn row(&mut self, task: &SeriesTask) -> std::result::Result<ElementRow, String> {
        self.fields.split(&self.record)?;
        let fields = &self.fields;
        let Some(columns) = &self.columns else { return Err("no header".into()) };
        let Header { names, delimiter, .. } = &columns.header;
        // The first row shows whether rows have names of their own.
        let named = match !self.begun && fields.len() == names.len() + 1 {
            true => {
                let header = Header::new(names.clone(), Some(&self.record), *delimiter);
                Some(ElementColumns::new(task, header)?)
            }
            false => None,
        };
        let columns = named.as_ref().unwrap_or(columns);
        let element = columns.element(fields.len(), |at| fields.get(at))?;
        let sequence = columns.places.sequence.map(|at| fields.get(at));
        let begins = begins(&mut self.sequence, sequence);
        if named.is_some() {
            self.columns = named;
        }
        self.begun = true;
        Ok(ElementRow::Element { element, begins })
    }
}
