//! Sequences from a table, or from two arrays.
//!
//! ```text
//! id,x1,x2,y              rows of one sequence follow one another
//! a,0.5,1,0.1
//! a,0.7,0,0.2
//! b,0.1,1,0.4
//!
//! X (T, B, q) floats      Y (T, B, m) floats, or (T, B) integers: a class each, negative for none
//! ```

use super::sequences::{Sequences, Truth};
use crate::error::{Error, Result};
use crate::read::{
    self, Array, Choice, Input, Missing, Source, Table, Values, listed, quote, refuse,
};
use std::collections::{BTreeSet, HashMap, HashSet};

/// Which columns are what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// Inputs; None for all that are nothing else.
    pub inputs: Option<Vec<String>>,
    /// Targets.
    pub targets: Vec<String>,
    /// Says which sequence a row belongs to; without it all rows are one.
    pub sequence: Option<String>,
    /// Whether the target is a class: None where its first field that is not missing is to say so, by being no
    /// number.
    pub classes: Option<bool>,
    /// What becomes of missing inputs. With [`Missing::Drop`] rows without a target are left out too, with
    /// [`Missing::Refuse`] they are an error; else they do not count.
    pub missing: Missing,
    /// Between columns.
    pub delimiter: u8,
    /// Classes that the target may have.
    pub max_classes: usize,
}

/// Reads a table.
pub fn from_table(input: &Input, columns: &Columns) -> Result<Sequences> {
    let Columns { targets, sequence, delimiter, .. } = columns;
    columns.check()?;
    let is_classes = match columns.classes {
        Some(said) => said,
        None => {
            let mut any = false;
            for target in targets {
                any |= read::is_text(input.open()?, target, *delimiter)?;
            }
            any
        }
    };
    if is_classes && targets.len() > 1 {
        let what = format!("{} targets, but classes are of one column", targets.len());
        return Err(Error::Options(what));
    }
    let source = input.open()?;
    let name = source.name().to_string();
    let label = is_classes.then(|| targets[0].clone());
    let numbers = columns.inputs.as_ref().map(|inputs| {
        let values = if is_classes { &[][..] } else { targets };
        inputs.iter().chain(values).cloned().collect()
    });
    let sequence = sequence.clone();
    let choice = Choice {
        numbers,
        label,
        sequence,
        missing: Missing::Keep,
        delimiter: *delimiter,
        max_labels: columns.max_classes,
    };
    from_rows(&name, &read::table(source, &choice)?, columns)
}

impl Columns {
    fn check(&self) -> Result<()> {
        let fail = |what: String| Err(Error::Options(what));
        let Columns { inputs, targets, sequence, .. } = self;
        if targets.is_empty() {
            return fail("no target: which column is to be predicted?".into());
        }
        let all = || inputs.iter().flatten().chain(targets).chain(sequence);
        let mut seen = HashSet::new();
        if let Some(twice) = all().find(|name| !seen.insert(*name)) {
            return fail(format!(
                "column {} is named twice: it is an input, a target or the sequence, and as an input a target would \
                 only be copied",
                quote(twice)
            ));
        }
        Ok(())
    }
}

fn from_rows(name: &str, table: &Table, columns: &Columns) -> Result<Sequences> {
    let fail = |row: usize, what: String| Err(refuse(name, table.lines.get(row).copied(), what));
    let is_target = |column: &String| columns.targets.contains(column);
    let inputs: Vec<String> = table.columns.iter().filter(|c| !is_target(c)).cloned().collect();
    if inputs.is_empty() {
        return Err(refuse(name, None, "has no column other than the target: there is no input"));
    }
    let labels = table.label.as_ref().map(|label| label.names.clone());
    let places: HashMap<&String, usize> =
        table.columns.iter().enumerate().map(|(i, column)| (column, i)).collect();
    let place = |name: &String| places.get(name).copied();
    let x_at: Vec<usize> = inputs.iter().filter_map(place).collect();
    let y_at: Vec<usize> = columns.targets.iter().filter_map(place).collect();
    if labels.is_none() && y_at.len() < columns.targets.len() {
        let missing = columns.targets.iter().find(|target| place(target).is_none());
        let there = listed(table.columns.iter().map(String::as_str));
        let what = format!("has no column {}; there are {there}", quote(missing.map_or("", |m| m)));
        return Err(refuse(name, 1, what));
    }
    let mut sequences = Sequences::new(inputs, columns.targets.clone(), labels);
    let mut seen = BTreeSet::new();
    let mut last = None;
    let (mut x, mut y) = (Vec::new(), Vec::new());
    for row in 0..table.len() {
        let id = table.sequence.as_ref().map(|names| names.ids[row]);
        if row == 0 || id != last {
            if let Some((names, id)) = table.sequence.as_ref().zip(id)
                && !seen.insert(id)
            {
                let which = quote(&names.names[id as usize]);
                let why = "rows of one sequence must follow one another; sort the file by it";
                return fail(row, format!("sequence {which} comes back after another; {why}"));
            }
            sequences.begin();
            last = id;
        }
        let numbers = table.row(row);
        x.clear();
        x.extend(x_at.iter().map(|at| numbers[*at]));
        y.clear();
        y.extend(y_at.iter().map(|at| numbers[*at]));
        let truth = match &table.label {
            Some(label) => Truth::Label(Some(label.ids[row])),
            None => Truth::Values(&y),
        };
        if let Err(what) = sequences.push(&x, truth, columns.missing) {
            return fail(row, what);
        }
    }
    sequences.finish().map_err(|what| refuse(name, None, what))
}

/// Reads two arrays. Inputs are called x0, x1, .., targets y0, y1, .., classes by their numbers.
pub fn from_arrays(
    x: &Input,
    y: &Input,
    missing: Missing,
    max_classes: usize,
) -> Result<Sequences> {
    let open = |input: &Input| {
        let source: Source = input.open()?;
        let name = source.name().to_string();
        Ok::<_, Error>((name, read::array(source)?))
    };
    let ((x_name, x), (y_name, y)) = (open(x)?, open(y)?);
    let (Values::Floats(numbers), &[steps, rows, q]) = (&x.values, &x.shape[..]) else {
        return Err(refuse(&x_name, None, shape_error(&x, "floats [T, B, q]")));
    };
    let fits = y.shape.len() >= 2 && y.shape[..2] == [steps, rows];
    let m = match (&y.values, &y.shape[..]) {
        (Values::Floats(_), &[_, _, m]) if fits && m > 0 => Some(m),
        (Values::Floats(_), &[_, _]) if fits => Some(1),
        (Values::Integers(_), &[_, _]) if fits => None,
        _ => {
            let what = format!("floats [{steps}, {rows}, m] or integers [{steps}, {rows}]");
            return Err(refuse(&y_name, None, shape_error(&y, &what)));
        }
    };
    if numbers.is_empty() {
        return Err(refuse(&x_name, None, format!("holds nothing: shape {:?}", x.shape)));
    }
    let named = |letter: char, n: usize| (0..n).map(|i| format!("{letter}{i}")).collect();
    let classes: Option<BTreeSet<i64>> = match &y.values {
        Values::Integers(y) => Some(y.iter().copied().filter(|y| *y >= 0).collect()),
        Values::Floats(_) => None,
    };
    if classes.as_ref().is_some_and(|classes| classes.len() > max_classes) {
        let what = format!(
            "has more than {} different classes; targets that are values are floats, and \
             --max-classes N allows more",
            drnn::text::grouped(max_classes)
        );
        return Err(refuse(&y_name, None, what));
    }
    let classes: Option<Vec<i64>> = classes.map(|classes| classes.into_iter().collect());
    let labels = classes.as_ref().map(|classes| classes.iter().map(i64::to_string).collect());
    let mut sequences = Sequences::new(named('x', q), named('y', m.unwrap_or(1)), labels);
    for row in 0..rows {
        sequences.begin();
        for step in 0..steps {
            let at = step * rows + row;
            let place = |what: &str| format!("step {step} of sequence {row}: {what}");
            let x = &numbers[at * q..][..q];
            let truth = match (&y.values, m) {
                (Values::Floats(y), Some(m)) => Truth::Values(&y[at * m..][..m]),
                (Values::Integers(y), _) => {
                    let id = classes.as_ref().and_then(|all| all.binary_search(&y[at]).ok());
                    Truth::Label(id.map(|id| id as u32))
                }
                _ => return Err(refuse(&y_name, None, place("no target"))),
            };
            if x.iter().any(|x| x.is_infinite()) {
                return Err(refuse(&x_name, None, place("a number is not finite")));
            }
            if matches!(truth, Truth::Values(y) if y.iter().any(|y| y.is_infinite())) {
                return Err(refuse(&y_name, None, place("a number is not finite")));
            }
            sequences
                .push(x, truth, missing)
                .map_err(|what| refuse(&x_name, None, place(&what)))?;
        }
    }
    sequences.finish().map_err(|what| refuse(&x_name, None, what))
}

fn shape_error(array: &Array, expected: &str) -> String {
    format!("{} of shape {:?}, expected {expected}", array.values.kind(), array.shape)
}
