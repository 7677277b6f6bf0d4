//! Sequences from a table.
//!
//! ```text
//! id,x1,x2,y              rows of one sequence follow one another
//! a,0.5,1,0.1
//! a,0.7,0,0.2
//! b,0.1,1,0.4
//! ```

use super::columns::{Columns, InputChoice, plan};
use super::sequences::{Sequences, Truth};
use crate::error::{Error, Result};
use crate::loss::IGNORE;
use crate::read::{
    self, Choice, Delimiter, FieldKind, Input, Missing, Profile, Profiling, Table, listed, quote,
    refuse,
};
use drnn_tasks::series::{ColumnKind, InputColumn};
use std::collections::BTreeSet;

/// Reads a table.
pub fn from_table(input: &Input, columns: &Columns) -> Result<Sequences> {
    columns.check()?;
    let source = input.open()?;
    let name = source.name().to_string();
    if source.is_array() {
        return Err(refuse(&name, None, "is an array, expected a table"));
    }
    let profile = read::profile(source, &profiling(columns))?;
    let is_classes = classes(&name, &profile, columns)?;
    let (inputs, mut notes) = match &columns.inputs {
        InputChoice::Known(inputs) => (inputs.clone(), Vec::new()),
        InputChoice::Found(rules) => {
            plan(&profile, columns, rules).map_err(|why| refuse(&name, 1, why))?
        }
    };
    notes.extend(layout_notes(&profile, columns.delimiter));
    let targets = columns.targets.iter().filter(|_| !is_classes);
    let targets: Vec<InputColumn> = targets.map(|name| target_column(&profile, name)).collect();
    notes.extend(decimal_notes(&inputs, &targets));
    let all = inputs.iter().cloned().chain(targets);
    let choice = Choice {
        columns: Some(all.collect()),
        label: is_classes.then(|| columns.targets[0].clone()),
        sequence: columns.sequence.clone(),
        missing: Missing::Keep,
        delimiter: Delimiter::Exactly(profile.delimiter),
        max_labels: columns.max_classes,
        targets: if is_classes { 0 } else { columns.targets.len() },
        names_options: columns.names_options,
    };
    let table = read::table(input.open()?, &choice)?;
    let mut sequences = from_rows(&name, &table, inputs, columns)?;
    sequences.notes = notes;
    sequences.delimiter = profile.delimiter;
    sequences.forecast(&columns.ahead)
}

/// What is to be found out about a table.
fn profiling(columns: &Columns) -> Profiling {
    let Columns { targets, ahead, sequence, delimiter, .. } = columns;
    let mut profiling =
        Profiling { delimiter: *delimiter, sequence: sequence.clone(), ..Profiling::default() };
    match &columns.inputs {
        // Only the targets are unknown.
        InputChoice::Known(known) => {
            profiling.kind_only = known.iter().map(|column| column.name.clone()).collect();
        }
        InputChoice::Found(rules) => {
            let format = rules.time.iter().zip(rules.time_format);
            profiling.times = format.map(|(name, format)| (name.clone(), format)).collect();
            profiling.categories = rules.categories.clone();
            profiling.max_categories = rules.max_categories;
        }
    }
    // The target of a forecast may be an input.
    let is_input = |target: &String| match &columns.inputs {
        InputChoice::Known(_) => false,
        InputChoice::Found(rules) => {
            !ahead.is_empty() && rules.names.as_ref().is_none_or(|names| names.contains(target))
        }
    };
    let targets: Vec<String> = targets.iter().filter(|name| !is_input(name)).cloned().collect();
    profiling.kind_only.extend(targets);
    profiling
}

/// Whether the target is a class.
fn classes(name: &str, profile: &Profile, columns: &Columns) -> Result<bool> {
    let is_classes = match columns.classes {
        Some(said) => said,
        None => {
            let mut any = false;
            for target in &columns.targets {
                let column = profile.column(target);
                let kind = column.map(|column| &column.kind);
                if matches!(kind, Some(FieldKind::Time(_))) {
                    let why = format!("the target {} holds times", quote(target));
                    return Err(refuse(name, 1, format!("{why}; --target names another column")));
                }
                any |= matches!(kind, Some(FieldKind::Text(_)));
            }
            any
        }
    };
    if is_classes && columns.targets.len() > 1 {
        let what = format!("{} targets, but classes are of one column", columns.targets.len());
        return Err(Error::Options(what));
    }
    Ok(is_classes)
}

/// A column of numbers that is a target.
fn target_column(profile: &Profile, name: &str) -> InputColumn {
    match profile.column(name).map(|column| &column.kind) {
        Some(FieldKind::DecimalComma) => {
            InputColumn { name: name.into(), kind: ColumnKind::DecimalComma }
        }
        _ => InputColumn::number(name),
    }
}

/// A note on columns whose numbers have a decimal comma.
fn decimal_notes(inputs: &[InputColumn], targets: &[InputColumn]) -> Option<String> {
    let all = inputs.iter().chain(targets);
    let names: BTreeSet<&str> = all
        .filter(|column| column.kind == ColumnKind::DecimalComma)
        .map(|column| column.name.as_str())
        .collect();
    let names: Vec<&str> = names.into_iter().collect();
    (!names.is_empty()).then(|| {
        let names = listed(names.iter().copied());
        format!("numbers have a decimal comma, 1,5 is 1.5, in {names}.")
    })
}

/// Notes on the delimiter and on names of rows.
fn layout_notes(profile: &Profile, delimiter: Delimiter) -> Vec<String> {
    let mut notes = Vec::new();
    if delimiter != Delimiter::Exactly(profile.delimiter)
        && delimiter != Delimiter::Likely(profile.delimiter)
    {
        let between = match profile.delimiter {
            b'\t' => "tabs".into(),
            b' ' => "spaces".into(),
            other => format!("`{}`", char::from(other)),
        };
        notes.push(format!("columns are taken to be separated by {between} (--delimiter)."));
    }
    if profile.row_names {
        let name = quote(&profile.columns[0].name);
        notes.push(format!(
            "the header has no name for the first column: it has the rows' names, is called \
             {name} here, and is no input."
        ));
    }
    notes
}

fn from_rows(
    name: &str,
    table: &Table,
    inputs: Vec<InputColumn>,
    columns: &Columns,
) -> Result<Sequences> {
    let fail = |row: usize, what: String| Err(refuse(name, table.lines.get(row).copied(), what));
    let labels = table.label.as_ref().map(|label| label.names.clone());
    let width = inputs.iter().map(InputColumn::width).sum();
    let mut sequences = Sequences::of_columns(inputs, columns.targets.clone(), labels);
    sequences.unknown_categories = table.unknown;
    let mut seen = BTreeSet::new();
    let mut last = None;
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
        let (x, y) = table.row(row).split_at(width);
        let truth = match &table.label {
            Some(label) => Truth::Label(Some(label.ids[row]).filter(|id| *id != IGNORE)),
            None => Truth::Values(y),
        };
        if let Err(what) = sequences.push(x, truth, columns.missing) {
            return fail(row, what);
        }
    }
    sequences.finish().map_err(|what| refuse(name, None, what))
}
