//! Categories that the training part has: only they are inputs.

use super::sequences::{Sequences, Span};
use crate::error::{Error, Result};
use drnn::text::shortened;
use drnn_tasks::series::{ColumnKind, InputColumn};
use std::ops::Range;

impl Sequences {
    /// Which inputs the training part can say something of: all but categories that it does not have. An
    /// error if there is none.
    pub fn known_inputs(&self) -> Result<Vec<bool>> {
        let q = self.inputs.len();
        let mut known = vec![true; q];
        for range in self.category_ranges() {
            for (at, known) in known.iter_mut().enumerate().take(range.end).skip(range.start) {
                *known = self.x.iter().skip(at).step_by(q).any(|x| *x > 0.0);
            }
        }
        if known.contains(&true) {
            return Ok(known);
        }
        let columns = self.columns.iter().map(|column| shortened(&column.name, 60));
        Err(Error::Data(format!(
            "no row of the training set has a category of {}, and there is no other input; --inputs \
             chooses columns, --valid and --test the sizes of the other sets",
            columns.collect::<Vec<_>>().join(", ")
        )))
    }

    /// Removes the inputs that are not known; their categories are then read as none of the others.
    /// A column that has no known category is removed. Without a known input all stay: a network needs
    /// one.
    pub fn keep_inputs(&mut self, known: &[bool]) {
        let q = self.inputs.len();
        if known.len() != q || known.iter().all(|known| *known) || !known.contains(&true) {
            return;
        }
        let mut at = 0;
        for column in &mut self.columns {
            let keep = &known[at..at + column.width()];
            at += column.width();
            if let ColumnKind::Category { names } = &mut column.kind {
                let mut keep = keep.iter();
                names.retain(|_| keep.next().is_some_and(|keep| *keep));
            }
        }
        self.columns.retain(|column| column.width() > 0);
        self.inputs = self.columns.iter().flat_map(InputColumn::inputs).collect();
        let mut at = 0;
        self.x.retain(|_| {
            at += 1;
            known[(at - 1) % q]
        });
        self.unknown_categories = self.count_unknown();
    }

    /// Steps and columns whose category is none of those that are inputs.
    fn count_unknown(&self) -> usize {
        let (q, ranges) = (self.inputs.len(), self.category_ranges());
        let unknown = |row: &[f32]| {
            ranges.iter().filter(|of| row[(*of).clone()].iter().all(|x| *x == 0.0)).count()
        };
        let of = |span: Span| {
            let rows = self.x[span.counted.start * q..span.counted.end * q].chunks_exact(q);
            rows.map(unknown).sum::<usize>()
        };
        self.spans().map(of).sum()
    }

    /// The inputs of each column of categories.
    fn category_ranges(&self) -> Vec<Range<usize>> {
        let mut end = 0;
        let mut ranges = Vec::new();
        for column in &self.columns {
            end += column.width();
            if matches!(column.kind, ColumnKind::Category { .. }) {
                ranges.push(end - column.width()..end);
            }
        }
        ranges
    }
}
