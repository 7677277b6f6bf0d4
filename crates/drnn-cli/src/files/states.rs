//! States as NumPy arrays, in PyTorch's shapes.

use crate::Failure;
use crate::args::reading::Reading;
use crate::files::npy::{self, Array, Values};
use crate::files::paths::make_folder;
use drnn::{NetSpec, States};
use std::path::{Path, PathBuf};

/// The part of the states that an array holds; a projection makes them differ in width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    H,
    C,
}

impl Part {
    fn widths(self, spec: &NetSpec) -> &[usize] {
        match self {
            Part::H => spec.state_widths(),
            Part::C => spec.cell_state_widths(),
        }
    }
}

/// `[layers * directions, B, n]`; `[1, B, sum of n]`, with layers concatenated, if they differ in width.
fn shape(spec: &NetSpec, part: Part, rows: usize) -> [usize; 3] {
    let widths = part.widths(spec);
    match widths.iter().all(|n| *n == widths[0]) {
        true => [widths.len() * spec.direction().count(), rows, widths[0]],
        false => [1, rows, widths.iter().sum::<usize>() * spec.direction().count()],
    }
}

/// Reads h and c; if only one is given the other is zero. None if neither is given.
pub fn read(
    h: Option<&PathBuf>,
    c: Option<&PathBuf>,
    spec: &NetSpec,
    rows: usize,
    reading: Reading,
) -> Result<Option<States>, Failure> {
    if c.is_some() && !spec.cell().has_cell_state() {
        return Err(Failure::Input(format!("--c0: {spec} has no cell state")));
    }
    let read = |path: Option<&PathBuf>, part: Part| {
        path.map(|path| values(path, spec, part, rows, reading)).transpose()
    };
    let (h, c) = (read(h, Part::H)?, read(c, Part::C)?);
    if h.is_none() && c.is_none() {
        return Ok(None);
    }
    let mut states = States::zeros(spec, rows);
    states.h = h.unwrap_or(states.h);
    states.c = c.unwrap_or(states.c);
    Ok(Some(states))
}

fn values(
    path: &Path,
    spec: &NetSpec,
    part: Part,
    rows: usize,
    reading: Reading,
) -> Result<Vec<f32>, Failure> {
    let expected = shape(spec, part, rows);
    match npy::read(path, reading)? {
        Array { shape, values: Values::Floats(values) } if shape == expected => {
            Ok(by_layer(spec, part, rows, &values))
        }
        Array { shape, values } => Err(Failure::Input(format!(
            "{}: {} of shape {shape:?}, expected floats {expected:?}",
            path.display(),
            values.kind()
        ))),
    }
}

/// Writes h and, for an LSTM, c to files of these names in `folder`.
pub fn write(
    folder: &Path,
    names: [&str; 2],
    spec: &NetSpec,
    rows: usize,
    states: &States,
) -> Result<(), Failure> {
    make_folder(folder)?;
    let write = |name: &str, part: Part, values: &[f32]| {
        let values = side_by_side(spec, part, rows, values);
        npy::write(&folder.join(name), &shape(spec, part, rows), &values)
    };
    write(names[0], Part::H, &states.h)?;
    if spec.cell().has_cell_state() {
        write(names[1], Part::C, &states.c)?;
    }
    Ok(())
}

/// Widths of all layers if a file concatenates them; None if each is a page of its own.
fn parts(spec: &NetSpec, part: Part) -> Option<Vec<usize>> {
    let widths = part.widths(spec);
    let both = |&n: &usize| std::iter::repeat_n(n, spec.direction().count());
    (!widths.iter().all(|n| *n == widths[0])).then(|| widths.iter().flat_map(both).collect())
}

/// From rows of concatenated layers to layer after layer, as in [`States`].
fn by_layer(spec: &NetSpec, part: Part, rows: usize, values: &[f32]) -> Vec<f32> {
    let Some(parts) = parts(spec, part) else { return values.to_vec() };
    let (total, mut first, mut out) = (parts.iter().sum::<usize>(), 0, Vec::new());
    for n in parts {
        out.extend((0..rows).flat_map(|row| &values[row * total + first..][..n]));
        first += n;
    }
    out
}

/// The inverse. Also the start state of a single layer with the same units.
pub fn side_by_side(spec: &NetSpec, part: Part, rows: usize, values: &[f32]) -> Vec<f32> {
    match parts(spec, part) {
        Some(parts) => joined(&parts, rows, values),
        None => values.to_vec(),
    }
}

/// Concatenates the parts of each row.
pub fn joined(parts: &[usize], rows: usize, values: &[f32]) -> Vec<f32> {
    let mut out = Vec::with_capacity(values.len());
    for row in 0..rows {
        let mut first = 0;
        for &n in parts {
            out.extend_from_slice(&values[first + row * n..][..n]);
            first += n * rows;
        }
    }
    out
}
