//! NumPy arrays in and out: floats become f32, integers i64, Fortran order becomes C order.

use crate::Failure;
use npyz::{NpyFile, Order, WriterBuilder};
use std::io::Write;
use std::path::Path;

/// An array in C order.
#[derive(Debug, PartialEq)]
pub struct Array {
    pub shape: Vec<usize>,
    pub values: Values,
}

#[derive(Debug, PartialEq)]
pub enum Values {
    Floats(Vec<f32>),
    Integers(Vec<i64>),
}

impl Values {
    /// In an error message.
    pub fn kind(&self) -> &'static str {
        match self {
            Values::Floats(_) => "floats",
            Values::Integers(_) => "integers",
        }
    }
}

/// Reads `path`.
pub fn read(path: &Path) -> Result<Array, Failure> {
    let refuse = |reason: String| Failure::Input(format!("{}: {reason}", path.display()));
    let bytes = std::fs::read(path).map_err(|e| refuse(format!("cannot be read: {e}")))?;
    parse(&bytes).map_err(refuse)
}

/// More than any header of a plain array takes.
const LONGEST_HEADER: usize = 4096;

/// The shape in the header, which is so plain that the full parser cannot be led astray by it: a
/// dictionary without lists or nesting, whose shape asks for no more elements than there are bytes.
fn plain_shape(bytes: &[u8]) -> Result<Vec<usize>, String> {
    let broken = || "is not a whole .npy file of plain numbers".to_string();
    let word = |at: usize| bytes.get(at).copied().map(usize::from).ok_or_else(broken);
    if !bytes.starts_with(b"\x93NUMPY") {
        return Err(broken());
    }
    let (start, len) = match word(6)? {
        1 => (10, word(8)? | word(9)? << 8),
        2 | 3 => (12, word(8)? | word(9)? << 8 | word(10)? << 16 | word(11)? << 24),
        _ => return Err(broken()),
    };
    if len > LONGEST_HEADER {
        return Err(broken());
    }
    let header = bytes.get(start..start + len).and_then(|h| std::str::from_utf8(h).ok());
    let header = header.ok_or_else(broken)?;
    let count = |c: char| header.matches(c).count();
    if [count('{'), count('('), count(')'), count('[')] != [1, 1, 1, 0] {
        return Err(broken());
    }
    let shape = header.split(['(', ')']).nth(1).ok_or_else(broken)?;
    let dims = shape.split(',').map(str::trim).filter(|n| !n.is_empty());
    let dims: Vec<usize> =
        dims.map(|n| n.parse().map_err(|_| broken())).collect::<Result<_, _>>()?;
    match dims.iter().try_fold(1usize, |a, &n| a.checked_mul(n)) {
        // Neighbouring dimensions are multiplied without checks later on, zeros or not.
        Some(n) if n <= bytes.len() && dims.iter().all(|&n| n < 1 << 31) && dims.len() <= 3 => {
            Ok(dims)
        }
        _ => Err(format!("claims shape {dims:?}, more than the file holds or an array may have")),
    }
}

/// Reads the bytes of a file.
pub fn parse(bytes: &[u8]) -> Result<Array, String> {
    let shape = plain_shape(bytes)?;
    let broken = |e: std::io::Error| {
        let reason: String = e.to_string().chars().take(200).collect();
        format!("is not a whole .npy file: {reason}")
    };
    let header = NpyFile::new(bytes).map_err(broken)?;
    let (order, dtype) = (header.order(), header.dtype().descr());
    macro_rules! read_as {
        ($kind:ident, $($from:ty => $convert:expr),*) => {$(
            let file = NpyFile::new(bytes).map_err(broken)?;
            if let Ok(values) = file.try_data::<$from>() {
                let values: Result<Vec<$from>, _> = values.collect();
                let values = values.map_err(broken)?.into_iter().map($convert).collect();
                return Ok(Array { values: Values::$kind(in_c_order(values, &shape, order)), shape });
            }
        )*};
    }
    read_as!(Floats, f32 => |x| x, f64 => |x| x as f32);
    read_as!(Integers, i64 => |x| x, i32 => i64::from, i16 => i64::from, i8 => i64::from,
             u32 => i64::from, u16 => i64::from, u8 => i64::from,
             u64 => |x| i64::try_from(x).unwrap_or(i64::MAX));
    Err(format!("holds {dtype}; expected floats (f4, f8) or integers"))
}

fn in_c_order<T: Copy>(values: Vec<T>, shape: &[usize], order: Order) -> Vec<T> {
    if order == Order::C || values.is_empty() {
        return values;
    }
    let mut place = vec![0; shape.len()];
    let mut out = Vec::with_capacity(values.len());
    for _ in 0..values.len() {
        let index = place.iter().zip(shape).rev().fold(0, |at, (i, n)| at * n + i);
        out.push(values[index]);
        for (i, n) in place.iter_mut().zip(shape).rev() {
            *i += 1;
            if *i < *n {
                break;
            }
            *i = 0;
        }
    }
    out
}

/// Writes floats of `shape` to `path`: all of the file or nothing.
pub fn write(path: &Path, shape: &[usize], values: &[f32]) -> Result<(), Failure> {
    let make = || -> std::io::Result<()> {
        let mut bytes = Vec::new();
        let dims: Vec<u64> = shape.iter().map(|&n| n as u64).collect();
        let options = npyz::WriteOptions::new().default_dtype().shape(&dims);
        let mut writer = options.writer(&mut bytes).begin_nd()?;
        writer.extend(values.iter().copied())?;
        writer.finish()?;
        drnn::write_atomically(path, |file| file.write_all(&bytes))
    };
    make().map_err(|e| Failure::Input(format!("{}: cannot be written: {e}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn npy(header: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
        let padded = format!("{header:<117}\n");
        bytes.extend((padded.len() as u16).to_le_bytes());
        bytes.extend(padded.as_bytes());
        bytes.extend(data);
        bytes
    }

    #[test]
    fn types_and_orders() {
        let data: Vec<u8> = (0..6).collect();
        let c = npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3), }", &data);
        let f = npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", &data);
        assert_eq!(parse(&c).unwrap().values, Values::Integers(vec![0, 1, 2, 3, 4, 5]));
        assert_eq!(parse(&f).unwrap().values, Values::Integers(vec![0, 2, 4, 1, 3, 5]));
        let big =
            npy("{'descr': '>f8', 'fortran_order': False, 'shape': (1,), }", &1.5f64.to_be_bytes());
        assert_eq!(parse(&big).unwrap().values, Values::Floats(vec![1.5]));
        let text = npy("{'descr': '<U1', 'fortran_order': False, 'shape': (1,), }", &[0; 4]);
        assert!(parse(&text).unwrap_err().contains("expected floats (f4, f8) or integers"));
    }

    #[test]
    fn damaged_files_are_refused() {
        let whole = npy("{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }", &[0; 8]);
        assert!(parse(&whole).is_ok());
        for len in 0..whole.len() {
            assert!(parse(&whole[..len]).is_err(), "{len}");
        }
        for at in 0..whole.len() - 8 {
            for bit in 0..8 {
                let mut damaged = whole.clone();
                damaged[at] ^= 1 << bit;
                let _ = parse(&damaged); // may be legal; must not panic
            }
        }
        for shape in ["(4294967296, 4294967296)", "(9999999999, 0)", "(1, 1, 1, 1)", "(3,)"] {
            let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
            assert!(parse(&npy(&header, &[0; 8])).is_err(), "{shape}");
        }
        // What fuzzers found, here or in other readers.
        let found = concat!(env!("CARGO_MANIFEST_DIR"), "/../drnn/tests/regressions");
        for entry in std::fs::read_dir(found).unwrap() {
            let _ = parse(&std::fs::read(entry.unwrap().path()).unwrap());
        }
        // Nested lists would keep the parser busy for ever, a long header would fill the memory.
        let nested = "{'descr': [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[['<f4']]]], 'shape': (1,), }";
        assert!(parse(&npy(nested, &[0; 8])).unwrap_err().contains("plain numbers"));
        assert!(
            parse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{").unwrap_err().contains("plain numbers")
        );
    }
}
