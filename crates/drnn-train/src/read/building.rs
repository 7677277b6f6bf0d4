//! Builds a table row by row; missing numbers are NaN.

use super::limits::check_name;
use super::quote;
use super::table::{Choice, Names, Table};
use super::{MISSING_HELP, Missing};
use crate::loss::IGNORE;
use drnn_tasks::text::is_missing;
use std::collections::HashMap;

/// A table under construction.
pub(super) struct Building {
    table: Table,
    missing: Missing,
    label: Interner,
    sequence: Interner,
    last: Vec<Option<usize>>, // row by sequence
    label_column: String,
    max_labels: usize,
}

impl Building {
    pub(super) fn new(columns: Vec<String>, choice: &Choice) -> Building {
        let table = Table { columns, ..Table::default() };
        let [label, sequence] = [Interner::default(), Interner::default()];
        Building {
            table,
            missing: choice.missing,
            label,
            sequence,
            last: Vec::new(),
            label_column: choice.label.clone().unwrap_or_default(),
            max_labels: choice.max_labels,
        }
    }

    /// Puts a row, NaN for missing numbers, with `unknown` categories.
    pub(super) fn push(
        &mut self,
        numbers: &[f32],
        label: Option<&str>,
        sequence: Option<&str>,
        line: Option<u64>,
        unknown: usize,
    ) -> std::result::Result<(), String> {
        let table = &mut self.table;
        let label = label.map(|label| if is_missing(label) { "" } else { label });
        let holes = numbers.iter().filter(|x| x.is_nan()).count();
        if (holes > 0 || label == Some("")) && self.missing == Missing::Drop {
            table.dropped += 1;
            return Ok(());
        }
        if sequence == Some("") {
            return Err("the row's sequence is empty: every row needs the name of one".into());
        }
        table.unknown += unknown;
        if label == Some("") {
            if self.missing != Missing::Keep {
                let column = quote(&self.label_column);
                return Err(format!("column {column}, the class, is missing; {MISSING_HELP}"));
            }
            table.label.get_or_insert_default().ids.push(IGNORE);
        } else if let Some(label) = label {
            check_name("the row's label", label)?;
            if self.label.0.len() >= self.max_labels && !self.label.0.contains_key(label) {
                return Err(format!(
                    "column {} has more than {} different classes, and {} is another; does it hold \
                     numbers or names? Choose another --target, or allow more with --max-classes N",
                    quote(&self.label_column),
                    drnn::text::grouped(self.max_labels),
                    quote(label)
                ));
            }
            self.label.push(label, table.label.get_or_insert_default());
        }
        let mut sequence_id = 0;
        if let Some(sequence) = sequence {
            check_name("the row's sequence", sequence)?;
            sequence_id = self.sequence.push(sequence, table.sequence.get_or_insert_default());
        }
        if self.last.len() <= sequence_id {
            self.last.resize(sequence_id + 1, None);
        }
        let width = table.columns.len();
        let row = table.values.len();
        table.values.extend_from_slice(numbers);
        table.filled += if self.missing == Missing::Keep { 0 } else { holes };
        table.lines.extend(line);
        for at in (0..width).filter(|at| numbers[*at].is_nan()) {
            let fail =
                |what: &str| Err(format!("column {} is missing{what}", quote(&table.columns[at])));
            table.values[row + at] = match (self.missing, self.last[sequence_id]) {
                (Missing::Refuse, _) => return fail(&format!("; {MISSING_HELP}")),
                (Missing::Previous, None) => return fail(", and no row is before it"),
                (Missing::Previous, Some(last)) => table.values[last + at],
                (Missing::Zero, _) => 0.0,
                (Missing::Mean | Missing::Drop, _) => f32::NAN, // until all rows are there
                (Missing::Keep, _) => f32::NAN,
            };
        }
        self.last[sequence_id] = Some(row);
        Ok(())
    }

    pub(super) fn finish(mut self) -> std::result::Result<Table, String> {
        let table = &mut self.table;
        if table.values.is_empty() {
            return Err(match table.dropped {
                0 => "holds no rows".into(),
                n => format!("holds no rows without missing numbers; all {n} were left out"),
            });
        }
        if self.missing == Missing::Mean && table.filled > 0 {
            let width = table.columns.len();
            for (at, name) in table.columns.iter().enumerate() {
                let column = table.values.iter().skip(at).step_by(width).filter(|x| !x.is_nan());
                let (count, sum) =
                    column.fold((0u64, 0.0), |(n, sum), x| (n + 1, sum + f64::from(*x)));
                if count == 0 {
                    return Err(format!("column {} holds no numbers", quote(name)));
                }
                let mean = (sum / count as f64) as f32;
                let holes = table.values.iter_mut().skip(at).step_by(width).filter(|x| x.is_nan());
                holes.for_each(|x| *x = mean);
            }
        }
        Ok(self.table)
    }
}

/// Numbers texts as they come.
#[derive(Default)]
struct Interner(HashMap<String, u32>);

impl Interner {
    fn push(&mut self, name: &str, to: &mut Names) -> usize {
        let id = self.0.get(name).copied().unwrap_or_else(|| {
            let id = to.names.len() as u32;
            to.names.push(name.to_string());
            self.0.insert(name.to_string(), id);
            id
        });
        to.ids.push(id);
        id as usize
    }
}
