//! What the columns of a table hold, found by reading it once.
//!
//! ```text
//! 0.5, -2e3                     numbers, by the first field that is not missing
//! 0,5                           numbers with a decimal comma, where commas do not separate columns
//! 2016-07-01 13:45, 1/7/2016    times, in every form that all of them can have
//! red, blue                     text: categories
//! ```

use super::header::{Delimiter, Header};
use super::open::Source;
use super::table::{no_column, open_table};
use crate::error::Result;
use drnn_tasks::series::{TimeFormat, decimal_comma};
use drnn_tasks::text::number;
use std::collections::{BTreeSet, HashMap};

/// How a table is looked at.
#[derive(Debug, Clone, Default)]
pub(crate) struct Profiling {
    pub delimiter: Delimiter,
    /// The column with the sequence that a row belongs to: times begin anew with each.
    pub sequence: Option<String>,
    /// Columns that hold categories even if they look like numbers.
    pub categories: Vec<String>,
    /// Columns that hold times, and their form.
    pub times: HashMap<String, TimeFormat>,
    /// Columns whose fields matter only as far as their kind goes.
    pub kind_only: Vec<String>,
    /// Categories that are counted; there may be more.
    pub max_categories: usize,
}

/// What a table holds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Profile {
    pub columns: Vec<ColumnProfile>,
    /// Whether the first column has the rows' names.
    pub row_names: bool,
    pub delimiter: u8,
}

/// A column.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ColumnProfile {
    pub name: String,
    pub kind: FieldKind,
}

/// What the fields of a column are.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FieldKind {
    /// All fields are missing.
    Empty,
    Number,
    DecimalComma,
    Time(Times),
    Text(Categories),
}

/// Times of a column.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Times {
    /// Forms that all of them can have; or those of the first, where no form fits all.
    pub formats: Vec<TimeFormat>,
    first: f64,
    last: f64,
    /// Seconds from one row to the next, within a sequence.
    steps: Vec<f64>,
    previous: Option<f64>,
}

/// Texts of a column.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Categories {
    /// In ascending order; one more than wanted if there are too many.
    pub names: BTreeSet<String>,
    /// One that is a number.
    pub number: Option<String>,
    numbers: usize,
    /// Fields that are not missing, until there are too many categories.
    pub fields: usize,
}

impl Profile {
    /// The column of this name.
    pub fn column(&self, name: &str) -> Option<&ColumnProfile> {
        self.columns.iter().find(|column| column.name == name)
    }
}

impl Times {
    /// The median of the times from one row to the next, forwards, in seconds.
    pub fn step(&self) -> Option<f64> {
        let mut forwards: Vec<f64> = self.steps.iter().copied().filter(|s| *s > 0.0).collect();
        forwards.sort_by(f64::total_cmp);
        forwards.get(forwards.len() / 2).copied()
    }

    /// Whether no field was a time in any of the forms.
    pub fn is_empty(&self) -> bool {
        self.previous.is_none()
    }

    /// From the earliest to the latest, in seconds.
    pub fn span(&self) -> f64 {
        self.last - self.first
    }

    /// Rows that are earlier than the row before them.
    pub fn backwards(&self) -> usize {
        self.steps.iter().filter(|step| **step < 0.0).count()
    }

    fn add(&mut self, field: &str, begins: bool) {
        let fits = |format: &TimeFormat| format.parse(field).is_ok();
        if self.formats.len() > 1 && self.formats.iter().any(fits) {
            self.formats.retain(fits);
        }
        // A time that does not exist is refused when the column is read.
        let Some(Ok(moment)) = self.formats.first().map(|format| format.parse(field)) else {
            return;
        };
        let at = moment.seconds();
        let is_first = self.previous.is_none() && self.steps.is_empty();
        self.first = if is_first { at } else { self.first.min(at) };
        self.last = if is_first { at } else { self.last.max(at) };
        if let Some(previous) = self.previous.filter(|_| !begins) {
            self.steps.push(at - previous);
        }
        self.previous = Some(at);
    }
}

impl Categories {
    /// Whether most of them are numbers: then the others are more likely mistakes.
    pub fn are_numbers(&self) -> bool {
        self.numbers * 2 > self.names.len()
    }

    /// Whether most fields of a table that is not tiny are different: numbers in a form that is not
    /// read, or names, rather than categories.
    pub fn are_unique(&self) -> bool {
        self.fields >= 20 && self.names.len() * 2 > self.fields
    }

    fn add(&mut self, field: &str, max: usize) {
        if self.names.len() > max {
            return;
        }
        self.fields += 1;
        if self.names.contains(field) {
            return;
        }
        if field.parse::<f32>().is_ok() {
            self.numbers += 1;
            self.number.get_or_insert(field.into());
        }
        self.names.insert(field.into());
    }
}

/// Whether a field is missing.
fn is_missing(field: &str) -> bool {
    number(field).is_ok_and(f32::is_nan)
}

/// Reads a table, or as much of it as says what its columns hold.
pub(crate) fn profile(source: Source, profiling: &Profiling) -> Result<Profile> {
    let (mut rows, header) = open_table(source, profiling.delimiter)?;
    let Header { names, row_names, delimiter } = header;
    let place = |name: &String| {
        let at = names.iter().position(|other| other == name);
        at.ok_or_else(|| rows.refuse(no_column(name, &names)))
    };
    let sequence = profiling.sequence.as_ref().map(place).transpose()?;
    // Whether a comma can be part of a number.
    let commas = delimiter != b',';
    let mut columns: Vec<ColumnProfile> = names
        .iter()
        .map(|name| ColumnProfile { name: name.clone(), kind: FieldKind::Empty })
        .collect();
    let mut last = String::new();
    while rows.next()? {
        let begins = sequence.filter(|at| *at < rows.len()).is_some_and(|at| {
            let begins = last != rows.field(at);
            last.clear();
            last += rows.field(at);
            begins
        });
        let mut open = false;
        for (at, column) in columns.iter_mut().enumerate().take(rows.len()) {
            let field = rows.field(at);
            if Some(at) == sequence || (at == 0 && row_names) {
                continue;
            }
            if column.kind == FieldKind::Empty && !is_missing(field) {
                column.kind = first_kind(&column.name, field, profiling, commas);
            }
            // Whole numbers may come before the first decimal comma.
            if commas && column.kind == FieldKind::Number && has_decimal_comma(field) {
                column.kind = FieldKind::DecimalComma;
            }
            let kind_only = profiling.kind_only.contains(&column.name);
            match &mut column.kind {
                _ if is_missing(field) => {}
                FieldKind::Time(times) if !kind_only => times.add(field, begins),
                FieldKind::Text(found) if !kind_only => found.add(field, profiling.max_categories),
                _ => {}
            }
            open |= match column.kind {
                FieldKind::Empty => true,
                FieldKind::Number => commas,
                FieldKind::DecimalComma => false,
                FieldKind::Time(_) | FieldKind::Text(_) => !kind_only,
            };
        }
        if !open {
            break;
        }
    }
    Ok(Profile { columns, row_names, delimiter })
}

/// Whether a field is a number with a decimal comma.
fn has_decimal_comma(field: &str) -> bool {
    field.contains(',') && decimal_comma(field).is_ok()
}

/// The kind of a column whose first field is `field`; numbers may have decimal commas if `commas`.
fn first_kind(name: &String, field: &str, profiling: &Profiling, commas: bool) -> FieldKind {
    if let Some(format) = profiling.times.get(name) {
        return FieldKind::Time(Times { formats: vec![*format], ..Times::default() });
    }
    if profiling.categories.contains(name) {
        return FieldKind::Text(Categories::default());
    }
    // Too large a number is refused when the column is read.
    if field.parse::<f32>().is_ok() {
        return FieldKind::Number;
    }
    if commas && has_decimal_comma(field) {
        return FieldKind::DecimalComma;
    }
    let fits = |format: &TimeFormat| format.parse(field).is_ok();
    let formats: Vec<TimeFormat> = TimeFormat::RECOGNISED.into_iter().filter(fits).collect();
    match formats.is_empty() {
        true => FieldKind::Text(Categories::default()),
        false => FieldKind::Time(Times { formats, ..Times::default() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, profiling: &Profiling) -> Profile {
        profile(Source::from_bytes("a.csv", text.into()).unwrap(), profiling).unwrap()
    }

    fn kinds(profile: &Profile) -> Vec<&'static str> {
        let kind = |column: &ColumnProfile| match &column.kind {
            FieldKind::Empty => "empty",
            FieldKind::Number => "number",
            FieldKind::DecimalComma => "decimal comma",
            FieldKind::Time(_) => "time",
            FieldKind::Text(_) => "text",
        };
        profile.columns.iter().map(kind).collect()
    }

    fn wanted() -> Profiling {
        Profiling { max_categories: 2, ..Profiling::default() }
    }

    #[test]
    fn kinds_of_columns() {
        let text = "a,b,c,d,e,f\n1,,NA,inf,2016-07-01,1e39\n2,x,,1,x,2\n";
        let found = of(text, &wanted());
        assert_eq!(kinds(&found), ["number", "text", "empty", "number", "time", "number"]);
        let as_text = Profiling { categories: vec!["a".into()], ..wanted() };
        assert_eq!(kinds(&of(text, &as_text))[0], "text");
        assert!(of("a\n\n", &wanted()).columns[0].kind == FieldKind::Empty);
    }

    /// Only where commas do not separate columns; whole numbers may come first.
    #[test]
    fn decimal_commas() {
        let text = "a;b;c;d;e\n1;1,5;x;1.5;1\n2,5;2;1,5;2;2\n";
        let expected = ["decimal comma", "decimal comma", "text", "number", "number"];
        assert_eq!(kinds(&of(text, &wanted())), expected);
        let quoted = of("a,b\n\"1,5\",2\n", &wanted());
        assert_eq!(kinds(&quoted), ["text", "number"]);
        let as_text = Profiling { categories: vec!["b".into()], ..wanted() };
        assert_eq!(kinds(&of(text, &as_text))[1], "text");
    }

    #[test]
    fn forms_and_steps_of_times() {
        let times = |text: &str| match &of(text, &wanted()).columns[0].kind {
            FieldKind::Time(times) => times.clone(),
            other => panic!("{other:?}"),
        };
        use TimeFormat::{DayFirst, Iso, MonthFirst};
        let open = times("t\n01/02/2016\n02/02/2016\n");
        assert_eq!(open.formats, [DayFirst, MonthFirst]);
        assert_eq!(times("t\n01/02/2016\n13/02/2016\n").formats, [DayFirst]);
        assert_eq!(times("t\n01/02/2016\n02/13/2016\n").formats, [MonthFirst]);
        let hours =
            times("t\n2016-01-01 00:00\n2016-01-01 01:00\n2016-01-01 02:00\n2016-01-01 00:30\n");
        assert_eq!((hours.formats.as_slice(), hours.step()), (&[Iso][..], Some(3600.0)));
        assert_eq!((hours.span(), hours.backwards()), (7200.0, 1));
        // A sequence that begins earlier than the one before it ended is no step back.
        let by = Profiling { sequence: Some("s".into()), ..wanted() };
        let two = of("t,s\n2016-01-02,a\n2016-01-03,a\n2016-01-01,b\n2016-01-02,b\n", &by);
        let FieldKind::Time(two) = &two.columns[0].kind else { panic!() };
        assert_eq!((two.backwards(), two.span(), two.step()), (0, 172_800.0, Some(86_400.0)));
    }

    #[test]
    fn categories_are_counted_up_to_a_limit() {
        let found = of("c,d\nx,?\ny,1\nx,2\nz,3\nw,3\n", &wanted());
        let [FieldKind::Text(c), FieldKind::Text(d)] =
            [&found.columns[0].kind, &found.columns[1].kind]
        else {
            panic!()
        };
        assert_eq!((c.names.len(), c.are_numbers()), (3, false));
        assert!(d.are_numbers() && d.number.as_deref() == Some("1"));
    }

    #[test]
    fn tables_of_r() {
        let found = of("\"x\" \"y\"\n\"1\" 0.5 7\n", &wanted());
        assert!(found.row_names);
        assert_eq!(kinds(&found), ["empty", "number", "number"]);
        let found = of("x;y\nn1;0.5;7\n", &wanted());
        assert_eq!((found.delimiter, found.row_names, found.columns.len()), (b';', true, 3));
        assert!(found.column("y").is_some() && found.column("z").is_none());
    }
}
