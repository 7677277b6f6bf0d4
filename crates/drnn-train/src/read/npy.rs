//! NumPy arrays: floats become f32, integers i64, Fortran order becomes C order.

use super::limits::{MAX_ARRAY_HEADER, MAX_ELEMENTS};
use super::open::Source;
use super::refuse;
use crate::error::Result;
use npyz::{DType, NpyFile, NpyHeader, Order};
use std::io::Read;

/// An array in C order.
#[derive(Debug, Clone, PartialEq)]
pub struct Array {
    /// At most three dimensions.
    pub shape: Vec<usize>,
    /// As many as the shape says.
    pub values: Values,
}

/// The elements of an array.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Of floats of any width.
    Floats(Vec<f32>),
    /// Of integers of any width; what is too large for i64 is its largest number.
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

impl Source {
    /// Whether it says that it is an array.
    pub fn is_array(&self) -> bool {
        self.head() == MAGIC
    }
}

const MAGIC: &[u8] = b"\x93NUMPY";

/// Reads an array.
pub fn array(mut source: Source) -> Result<Array> {
    let name = source.name().to_string();
    read(&mut source).map_err(|reason| refuse(&name, None, reason))
}

/// An array, or what is wrong with it.
type Found<T> = std::result::Result<T, String>;

fn not_whole(e: std::io::Error) -> String {
    let reason: String = e.to_string().chars().take(200).collect();
    format!("is not a whole .npy file: {reason}")
}

/// The header's bytes, up to where the data begin.
fn header(source: &mut impl Read) -> Found<Vec<u8>> {
    let mut bytes = vec![0; 10];
    source.read_exact(&mut bytes).map_err(not_whole)?;
    let wide = matches!(bytes[6], 2 | 3);
    if !bytes.starts_with(MAGIC) || (bytes[6] != 1 && !wide) {
        return Err("is not a whole .npy file of plain numbers".into());
    }
    let mut len = usize::from(bytes[8]) | usize::from(bytes[9]) << 8;
    if wide {
        bytes.extend([0; 2]);
        source.read_exact(&mut bytes[10..]).map_err(not_whole)?;
        len |= usize::from(bytes[10]) << 16 | usize::from(bytes[11]) << 24;
    }
    if len > MAX_ARRAY_HEADER {
        return Err("is not a whole .npy file of plain numbers".into());
    }
    let start = bytes.len();
    bytes.resize(start + len, 0);
    source.read_exact(&mut bytes[start..]).map_err(not_whole)?;
    Ok(bytes)
}

/// The shape in the header, which is so plain that the full parser cannot be led astray by it: a dictionary
/// without lists or nesting, whose shape can be counted.
fn plain_shape(header: &[u8]) -> Found<Vec<usize>> {
    let broken = || "is not a whole .npy file of plain numbers".to_string();
    let start = if header[6] == 1 { 10 } else { 12 };
    let header = std::str::from_utf8(&header[start..]).map_err(|_| broken())?;
    let count = |c: char| header.matches(c).count();
    if [count('{'), count('('), count(')'), count('[')] != [1, 1, 1, 0] {
        return Err(broken());
    }
    let shape = header.split(['(', ')']).nth(1).ok_or_else(broken)?;
    let dims = shape.split(',').map(str::trim).filter(|n| !n.is_empty());
    let dims: Vec<usize> = dims.map(|n| n.parse().map_err(|_| broken())).collect::<Found<_>>()?;
    match dims.iter().try_fold(1usize, |a, &n| a.checked_mul(n)) {
        // Neighbouring dimensions are multiplied without checks later on, zeros or not.
        Some(n) if n <= MAX_ELEMENTS && dims.iter().all(|&n| n < 1 << 31) && dims.len() <= 3 => {
            Ok(dims)
        }
        _ => Err(format!("claims shape {dims:?}, more than an array may have")),
    }
}

/// Where the file says how long it is, its data must be as long as its shape says.
fn check_length(header: &NpyHeader, shape: &[usize], data: Option<u64>) -> Found<()> {
    let size = match header.dtype() {
        DType::Plain(number) if !number.uses_pickled_array() => number.num_bytes(),
        _ => None, // refused for what it is
    };
    let size = size.unwrap_or(0) as u64;
    let claimed = shape.iter().fold(size, |bytes, n| bytes.saturating_mul(*n as u64));
    match data {
        Some(data) if data < claimed => Err(format!(
            "claims shape {shape:?}, {claimed} bytes of data, and holds {data}: it is not whole"
        )),
        _ => Ok(()),
    }
}

fn read(source: &mut Source) -> Found<Array> {
    let header = header(source)?;
    let shape = plain_shape(&header)?;
    let start = header.len() as u64;
    let header = NpyHeader::from_reader(&header[..]).map_err(not_whole)?;
    check_length(&header, &shape, source.plain_len().map(|len| len.saturating_sub(start)))?;
    let (order, dtype) = (header.order(), header.dtype().descr());
    let mut file = NpyFile::with_header(header, source);
    // The vector grows as numbers come: the shape is only a claim.
    macro_rules! read_as {
        ($kind:ident, $($from:ty => $convert:expr),*) => {$(
            match file.try_data::<$from>() {
                Ok(data) => {
                    let mut values = Vec::new();
                    for value in data {
                        values.push($convert(value.map_err(not_whole)?));
                    }
                    return Ok(Array { values: Values::$kind(in_c_order(values, &shape, order)), shape });
                }
                Err(other) => file = other,
            }
        )*};
    }
    read_as!(Floats, f32 => |x| x, f64 => |x| x as f32);
    read_as!(Integers, i64 => |x| x, i32 => i64::from, i16 => i64::from, i8 => i64::from,
             u32 => i64::from, u16 => i64::from, u8 => i64::from,
             u64 => |x| i64::try_from(x).unwrap_or(i64::MAX));
    drop(file);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> Result<Array> {
        array(Source::from_bytes("a", bytes.to_vec())?)
    }

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
        assert!(
            parse(&text).unwrap_err().to_string().contains("expected floats (f4, f8) or integers")
        );
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
        // A claim is compared with the file before anything is read of it.
        let header = "{'descr': '<f8', 'fortran_order': False, 'shape': (1000, 1000, 1000), }";
        let message = parse(&npy(header, &[0; 80])).unwrap_err().to_string();
        assert!(message.contains("8000000000 bytes of data, and holds 80"), "{message}");
        let object = npy("{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", &[0; 8]);
        assert!(parse(&object).unwrap_err().to_string().contains("expected floats"));
        // What fuzzers found, here or in other readers.
        let found = concat!(env!("CARGO_MANIFEST_DIR"), "/../drnn/tests/regressions");
        for entry in std::fs::read_dir(found).unwrap() {
            let _ = parse(&std::fs::read(entry.unwrap().path()).unwrap());
        }
        // Nested lists would keep the parser busy for ever, a long header would fill the memory.
        let nested = "{'descr': [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[['<f4']]]], 'shape': (1,), }";
        assert!(parse(&npy(nested, &[0; 8])).unwrap_err().to_string().contains("plain numbers"));
        assert!(
            parse(b"\x93NUMPY\x02\x00\xff\xff\xff\xff{")
                .unwrap_err()
                .to_string()
                .contains("plain numbers")
        );
    }
}
