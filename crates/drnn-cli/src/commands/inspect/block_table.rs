//! Norms of the connections between the blocks of a network, as text and as JSON.

use drnn::{BlockMap, NetSpec};
use serde_json::{Value, json};
use std::fmt::Write;

/// Maximum blocks in a table; more would be wider than a screen.
pub const MAX_BLOCKS: usize = 16;
/// With more blocks than this, numbers have fewer digits.
const MANY_BLOCKS: usize = 8;

/// What block (i, j) connects in the equivalent stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connection {
    Same,
    Above,
    Lower,
    Upper,
}

impl Connection {
    pub const ALL: [Connection; 4] =
        [Connection::Same, Connection::Above, Connection::Lower, Connection::Upper];

    pub fn of(i: usize, j: usize) -> Connection {
        match i.checked_sub(j) {
            Some(0) => Connection::Same,
            Some(1) => Connection::Above,
            Some(_) => Connection::Lower,
            None => Connection::Upper,
        }
    }

    /// The position of such blocks in the matrix.
    pub fn place(self) -> &'static str {
        match self {
            Connection::Same => "i = j",
            Connection::Above => "i = j + 1",
            Connection::Lower => "i > j + 1",
            Connection::Upper => "i < j",
        }
    }

    /// Which layer and step they lead to.
    pub fn words(self) -> &'static str {
        match self {
            Connection::Same => "the same layer, one step on",
            Connection::Above => "the layer above, at the same step",
            Connection::Lower => "further up, back in time",
            Connection::Upper => "further down, forward in time",
        }
    }
}

/// The table of norms, and the meaning of the blocks.
pub fn text(map: &BlockMap, spec: &NetSpec) -> String {
    let k = map.blocks.count();
    let mut out = String::from(match spec.blocks() {
        Some(_) => "blocks",
        None => "layers, as the blocks of one layer that they would be flattened to",
    });
    if k > MAX_BLOCKS {
        let _ = writeln!(out, ": {k}, too many for a table; --json has the norm of each\n");
    } else {
        out.push_str(", their widths and norms: to (row) from (column); . is fixed at zero\n\n");
        table(&mut out, &rows(map, spec));
        out.push('\n');
    }
    kinds(&mut out, map);
    out
}

/// The table, cell by cell: name and width of a row, what it reads from x, and from each block.
fn rows(map: &BlockMap, spec: &NetSpec) -> Vec<Vec<String>> {
    let (blocks, k) = (&map.blocks, map.blocks.count());
    let digits = if k > MANY_BLOCKS { 2 } else { 3 };
    let norm = |allowed: bool, norm: f64| if allowed { short(norm, digits) } else { ".".into() };
    let mut rows = vec![vec![String::new(), String::new(), "x".into()]];
    rows[0].extend((0..k).map(|j| j.to_string()));
    rows.push(vec![String::new(), String::new(), spec.input().width().to_string()]);
    rows[1].extend(blocks.widths().iter().map(usize::to_string));
    for i in 0..k {
        let mut row = vec![i.to_string(), blocks.widths()[i].to_string()];
        row.push(norm(blocks.reads_input(i), map.input[i]));
        row.extend((0..k).map(|j| norm(blocks.allows(i, j), map.norms[i][j])));
        rows.push(row);
    }
    if let Some(m) = spec.outputs() {
        let mut row = vec!["y".into(), m.to_string(), String::new()];
        row.extend((0..k).map(|i| norm(blocks.feeds_output(i), map.output[i])));
        rows.push(row);
    }
    rows
}

/// Right-aligned columns.
fn table(out: &mut String, rows: &[Vec<String>]) {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |c: usize| rows.iter().filter_map(|row| row.get(c)).map(String::len).max();
    let widths: Vec<usize> = (0..columns).map(|c| width(c).unwrap_or(0)).collect();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}"));
        let _ = writeln!(out, "{}", cells.collect::<Vec<_>>().join("  "));
    }
}

/// One line for each possible connection.
fn kinds(out: &mut String, map: &BlockMap) {
    out.push_str("block (i, j) connects layer j at step t to layer i at step t + j - i + 1:\n");
    let k = map.blocks.count();
    for kind in Connection::ALL {
        let mut range: Option<(f64, f64)> = None;
        for (i, j) in (0..k).flat_map(|i| (0..k).map(move |j| (i, j))) {
            if Connection::of(i, j) == kind && map.blocks.allows(i, j) {
                let norm = map.norms[i][j];
                let (low, high) = range.unwrap_or((norm, norm));
                range = Some((low.min(norm), high.max(norm)));
            }
        }
        let Some((low, high)) = range else { continue };
        let (low, high) = (short(low, 3), short(high, 3));
        let norms = if low == high { low } else { format!("{low} to {high}") };
        let (place, words) = (kind.place(), kind.words());
        let _ = writeln!(out, "  {place:9}  {words:33}  norm {norms}");
    }
}

/// The blocks in `--json`.
pub fn value(map: &BlockMap) -> Value {
    let output = if map.output.is_empty() { Value::Null } else { json!(map.output) };
    json!({
        "widths": map.blocks.widths(),
        "connections": map.blocks.connected(),
        "start": map.blocks.start_state(),
        "norms": map.norms,
        "input": map.input,
        "output": output,
    })
}

/// The absolute value with `digits` digits: `9.24`, `12.3`, `0.051`, `1.2e-6`.
pub fn short(x: f64, digits: i32) -> String {
    if x == 0.0 {
        return "0".into();
    }
    let power = x.log10().floor() as i32;
    if !(-2..=4).contains(&power) {
        return format!("{x:.1e}");
    }
    format!("{x:.*}", (digits - 1 - power).max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let found = [0.0, 9.237, 12.34, 123.4, 12345.6, 0.0512, 0.00123, 1e-9, 3e7];
        let found: Vec<_> = found.iter().map(|&x| short(x, 3)).collect();
        let expected = "0 9.24 12.3 123 12346 0.0512 1.2e-3 1.0e-9 3.0e7";
        assert_eq!(found.join(" "), expected);
        assert_eq!([short(9.237, 2), short(12.3, 2), short(0.051, 2)], ["9.2", "12", "0.051"]);
    }
}
