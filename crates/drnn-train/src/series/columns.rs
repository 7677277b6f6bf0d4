//! Which columns of a table are inputs, and what they hold.

use crate::error::{Error, Result};
use crate::read::{
    Categories, ColumnProfile, Delimiter, FieldKind, MAX_CLASSES, Missing, Profile, Times,
    no_column, quote,
};
use drnn::text::grouped;
use drnn_tasks::series::{ColumnKind, Cycle, InputColumn, MAX_CATEGORIES, SeriesTask, TimeFormat};
use std::collections::HashSet;

/// Which columns are what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns {
    /// Inputs.
    pub inputs: InputChoice,
    /// Targets.
    pub targets: Vec<String>,
    /// How many steps after its row a target lies, in ascending order; none for the row itself.
    pub ahead: Vec<usize>,
    /// Says which sequence a row belongs to; without it all rows are one.
    pub sequence: Option<String>,
    /// Whether the target is a class: None where its first field that is not missing is to say so, by being no
    /// number.
    pub classes: Option<bool>,
    /// What becomes of missing inputs. With [`Missing::Refuse`] rows without a target are an error;
    /// else they are read and do not count.
    pub missing: Missing,
    /// Between columns.
    pub delimiter: Delimiter,
    /// Classes that the target may have.
    pub max_classes: usize,
    /// Whether errors name the options of a training that help.
    pub names_options: bool,
}

/// Input columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InputChoice {
    /// By what the table holds.
    Found(InputRules),
    /// Those of a model, or of another table.
    Known(Vec<InputColumn>),
}

/// How input columns are found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputRules {
    /// Their names. None for all columns but the sequence and times, and but the targets where
    /// they are those of the row itself.
    pub names: Option<Vec<String>>,
    /// A column of times that is an input too.
    pub time: Option<String>,
    /// The form of times; None where they are to say so.
    pub time_format: Option<TimeFormat>,
    /// What inputs are made of times; None for the cycles that they can show.
    pub cycles: Option<Vec<Cycle>>,
    /// Columns that hold categories even if they look like numbers.
    pub categories: Vec<String>,
    /// Categories that a column may have.
    pub max_categories: usize,
}

impl Default for InputRules {
    fn default() -> InputRules {
        InputRules {
            names: None,
            time: None,
            time_format: None,
            cycles: None,
            categories: Vec::new(),
            max_categories: MAX_CATEGORIES,
        }
    }
}

impl Columns {
    /// These targets, with all other columns as inputs, in one sequence; nothing may be missing.
    pub fn new(targets: Vec<String>) -> Columns {
        Columns {
            inputs: InputChoice::Found(InputRules::default()),
            targets,
            ahead: Vec::new(),
            sequence: None,
            classes: None,
            missing: Missing::Refuse,
            delimiter: Delimiter::default(),
            max_classes: MAX_CLASSES,
            names_options: true,
        }
    }

    /// The columns of a model's task.
    pub fn of(task: &SeriesTask) -> Columns {
        Columns {
            inputs: InputChoice::Known(task.input_columns().into_owned()),
            targets: task.target_columns().to_vec(),
            ahead: task.forecast.as_ref().map_or(Vec::new(), |forecast| forecast.ahead.clone()),
            sequence: task.sequence.clone(),
            classes: Some(task.classes.is_some()),
            missing: task.missing,
            delimiter: Delimiter::Likely(u8::try_from(task.delimiter).unwrap_or(b',')),
            // Classes that the model does not know count as wrong and do not make the network larger.
            max_classes: usize::MAX,
            names_options: false,
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        let fail = |what: String| Err(Error::Options(what));
        let Columns { targets, sequence, ahead, .. } = self;
        if targets.is_empty() {
            return fail("no target: which column is to be predicted?".into());
        }
        if ahead.first() == Some(&0) || !ahead.is_sorted_by(|a, b| a < b) {
            return fail(format!("steps ahead {ahead:?}, expected rising numbers from 1"));
        }
        let inputs: Vec<&String> = match &self.inputs {
            InputChoice::Found(rules) => rules.names.iter().flatten().collect(),
            InputChoice::Known(known) => known.iter().map(|column| &column.name).collect(),
        };
        let mut seen = HashSet::new();
        if let Some(twice) = targets.iter().chain(sequence).find(|name| !seen.insert(*name)) {
            return fail(format!("column {} is named twice", quote(twice)));
        }
        let mut given = HashSet::new();
        for name in inputs {
            let is_target = targets.contains(name);
            if !given.insert(name) || (!is_target && seen.contains(name)) {
                return fail(format!(
                    "column {} is named twice: it is an input, a target or the sequence",
                    quote(name)
                ));
            }
            if is_target && ahead.is_empty() {
                return fail(format!(
                    "column {} is named twice: as an input, a target would only be copied; --ahead \
                     H forecasts it H steps ahead",
                    quote(name)
                ));
            }
        }
        Ok(())
    }
}

/// The input columns of a table, and notes on them.
pub(super) fn plan(
    profile: &Profile,
    columns: &Columns,
    rules: &InputRules,
) -> std::result::Result<(Vec<InputColumn>, Vec<String>), String> {
    let find = |name: &String| {
        profile.column(name).ok_or_else(|| {
            let there: Vec<String> =
                profile.columns.iter().map(|column| column.name.clone()).collect();
            no_column(name, &there)
        })
    };
    columns.targets.iter().chain(&rules.categories).try_for_each(|name| find(name).map(|_| ()))?;
    let mut candidates: Vec<&ColumnProfile> = match &rules.names {
        Some(names) => names.iter().map(find).collect::<std::result::Result<_, _>>()?,
        None => {
            let is_other = |column: &&ColumnProfile| {
                let is_target = columns.targets.contains(&column.name);
                columns.sequence.as_ref() != Some(&column.name)
                    && !(is_target && columns.ahead.is_empty())
            };
            profile.columns.iter().skip(profile.row_names.into()).filter(is_other).collect()
        }
    };
    if let Some(time) = &rules.time
        && !candidates.iter().any(|column| column.name == *time)
    {
        candidates.push(find(time)?);
    }
    let (mut inputs, mut notes) = (Vec::new(), Vec::new());
    for column in candidates {
        // As in a table whose lines all end with a delimiter.
        if column.name.is_empty() && column.kind == FieldKind::Empty && rules.names.is_none() {
            notes.push("a column without a name and without values is left out.".into());
            continue;
        }
        let is_named = rules.names.as_ref().is_some_and(|names| names.contains(&column.name));
        let kind = match &column.kind {
            FieldKind::Time(_) if !is_named && rules.time.as_ref() != Some(&column.name) => {
                notes.push(format!(
                    "column {0} holds times and is left out; --time {0} makes inputs of it.",
                    column.name
                ));
                continue;
            }
            _ => column_kind(column, rules, &mut notes)?,
        };
        inputs.push(InputColumn { name: column.name.clone(), kind });
    }
    if inputs.is_empty() {
        let hint = if notes.is_empty() { "" } else { "; --time and --inputs choose columns" };
        return Err(format!("has no column other than the target: there is no input{hint}"));
    }
    Ok((inputs, notes))
}

/// What a column that is an input holds.
fn column_kind(
    column: &ColumnProfile,
    rules: &InputRules,
    notes: &mut Vec<String>,
) -> std::result::Result<ColumnKind, String> {
    let name = quote(&column.name);
    let is_time = rules.time.as_ref() == Some(&column.name);
    match &column.kind {
        FieldKind::Number | FieldKind::DecimalComma if is_time => Err(format!(
            "column {name} holds numbers; --time-format unix reads them as seconds since 1970, \
             unix-ms as milliseconds; iso reads 20160701 as 1 July 2016"
        )),
        FieldKind::DecimalComma => Ok(ColumnKind::DecimalComma),
        FieldKind::Empty | FieldKind::Number => Ok(ColumnKind::Number),
        FieldKind::Text(found) if is_time => {
            let is_time = |text: &str| TimeFormat::RECOGNISED.iter().any(|f| f.parse(text).is_ok());
            let other = found.names.iter().find(|text| !is_time(text)).map_or("", |text| text);
            let why = "is not a time that is recognised; --time-format names its form";
            Err(format!("column {name}: {} {why}", quote(other)))
        }
        FieldKind::Text(found) => category_kind(column, found, rules, notes),
        FieldKind::Time(times) => time_kind(column, times, rules, notes),
    }
}

fn category_kind(
    column: &ColumnProfile,
    found: &Categories,
    rules: &InputRules,
    notes: &mut Vec<String>,
) -> std::result::Result<ColumnKind, String> {
    let name = quote(&column.name);
    let said = rules.categories.contains(&column.name);
    let text = found.names.iter().find(|text| text.parse::<f32>().is_err());
    if let Some(text) = text.filter(|_| !said && found.are_numbers()) {
        return Err(format!(
            "column {name} holds numbers, but also {}; write NA for a missing number, \
             choose columns with --inputs, or use --categories {}",
            quote(text),
            column.name
        ));
    }
    let example = found.names.first().map_or(String::new(), |first| quote(first));
    if found.names.len() > rules.max_categories {
        return Err(format!(
            "column {name} holds text with more than {} different values, like {example}, \
             and each would be an input; choose columns with --inputs, or allow more with \
             --max-categories N",
            grouped(rules.max_categories)
        ));
    }
    let count = found.names.len();
    notes.push(format!("column {} has {count} categories, an input each.", column.name));
    if found.are_unique() {
        notes.push(format!(
            "column {}: most of its {} fields are different texts, like {example}; if these \
             are numbers or names, --inputs leaves the column out.",
            column.name,
            grouped(found.fields)
        ));
    }
    Ok(ColumnKind::Category { names: found.names.iter().cloned().collect() })
}

fn time_kind(
    column: &ColumnProfile,
    times: &Times,
    rules: &InputRules,
    notes: &mut Vec<String>,
) -> std::result::Result<ColumnKind, String> {
    let name = quote(&column.name);
    let format = match (rules.time_format, &times.formats[..]) {
        (Some(format), _) | (None, &[format]) => format,
        _ => {
            return Err(format!(
                "column {name}: the order of day and month is open; --time-format \
                 day-first or month-first says it"
            ));
        }
    };
    if times.is_empty() {
        return Err(format!("column {name}: no field is a time written as {format}"));
    }
    let shown = || Cycle::shown_by(times.step().unwrap_or(0.0), times.span());
    let cycles = rules.cycles.clone().unwrap_or_else(shown);
    let unsorted = (times.backwards() > 0).then(|| {
        format!(
            "{} rows are earlier than the row before them; is the table sorted by {}?",
            grouped(times.backwards()),
            column.name
        )
    });
    if cycles.is_empty() {
        return Err(format!(
            "column {name}: its times are too few or too far apart to show the cycle of a \
             day, a week or a year; --cycles chooses among them, or leave it out{}",
            unsorted.map_or(String::new(), |text| format!("; {text}"))
        ));
    }
    let names: Vec<String> = cycles.iter().map(Cycle::to_string).collect();
    notes.push(format!("column {} becomes {}.", column.name, names.join(", ")));
    notes.extend(unsorted);
    Ok(ColumnKind::Time { format, cycles })
}
