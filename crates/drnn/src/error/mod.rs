//! The one error type: a line per variant, naming the thing that is wrong and what was expected.

mod file;
pub mod text;

use crate::prelude::*;
pub use file::FileError;

use core::fmt;

/// Why a call was refused.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A network that makes no sense.
    #[error("network spec: {0}")]
    Spec(String),

    /// An array whose shape does not fit the network or the other arguments.
    #[error("`{name}` has {found}, expected {expected}")]
    Shape {
        /// Which array.
        name: String,
        /// What was handed in.
        found: Shape,
        /// What fits.
        expected: Shape,
    },

    /// Dense input to a network that reads tokens, or tokens to one that reads vectors.
    #[error("input is {found}, but the network reads {expected}")]
    InputKind {
        /// What was handed in.
        found: &'static str,
        /// What the network reads.
        expected: String,
    },

    /// A token that the network has no embedding for.
    #[error(
        "token {token} at step {step} of sequence {row} is not below {symbols}, the number of symbols"
    )]
    Token {
        /// The token.
        token: u32,
        /// Its step.
        step: usize,
        /// Its sequence.
        row: usize,
        /// Size of the alphabet.
        symbols: usize,
    },

    /// A length that goes beyond the array.
    #[error("length {length} of sequence {row} is more than the {steps} steps of the batch")]
    Length {
        /// The sequence.
        row: usize,
        /// The length stated.
        length: usize,
        /// Steps that the batch has.
        steps: usize,
    },

    /// An output selected where there is none, or out of order.
    #[error("selected output {slot}, at position {position} of the list: {reason}")]
    Selection {
        /// The output's slot, `step * rows + row`.
        slot: u32,
        /// Its place in the list of selected outputs.
        position: usize,
        /// What is wrong with it.
        reason: String,
    },

    /// NaN or infinity where a number is needed.
    #[error("`{name}` holds {value} at position {position}")]
    NotFinite {
        /// Which array.
        name: String,
        /// The value.
        value: f32,
        /// Its place in the array, counted flat.
        position: usize,
    },

    /// A network that cannot be flattened, or is no flattened stack.
    #[error("{0}")]
    Flatten(String),

    /// No state leads the blocks of a flattened stack to their start states.
    #[error(
        "no solved start for sequence {row}: block {block}, before step {step}: {reason}; \
         a held start always works"
    )]
    Unsolvable {
        /// The sequence.
        row: usize,
        /// The block.
        block: usize,
        /// The step before which it would have to hold what it cannot.
        step: usize,
        /// What it would have to hold, and why it cannot.
        reason: String,
    },

    /// A weight where the network's blocks are not connected.
    #[error("`{tensor}`: {place} holds {size}, but `{name}` blocks have zeros there")]
    Outside {
        /// Which tensor.
        tensor: &'static str,
        /// Which part of it.
        place: String,
        /// The largest absolute value found there.
        size: f32,
        /// Which connections the network has.
        name: &'static str,
    },

    /// More than this machine's address space, or 32-bit row numbers, can hold.
    #[error("too large: {0}")]
    TooLarge(String),

    /// A network that has no outputs while input is still arriving.
    #[error("cannot stream: {0}")]
    Stream(String),

    /// A stream that is not live, or is named twice.
    #[error("stream {0}")]
    StreamId(String),

    /// Bytes that are not a snapshot of this network.
    #[error("snapshot: {0}")]
    Snapshot(String),

    /// A dropout rate that is no probability, or leaves nothing.
    #[error("dropout of {rate}, expected a probability of at least 0 and less than 1")]
    Dropout {
        /// The rate.
        rate: f32,
    },

    /// The gradient of an input that has none.
    #[error("the gradient of the input was requested, but the input is tokens, which have none")]
    NoInputGradient,

    /// A file that cannot be read or written, or whose contents are refused. Its
    /// [`source`](core::error::Error::source) is the `std::io::Error`, `serde_json::Error` or
    /// `SafeTensorError` that caused it, where there is one.
    #[error(transparent)]
    File(FileError),

    /// An instruction set that does not exist, or that this processor does not have.
    #[error("instruction set `{name}`: expected {expected}")]
    InstructionSet {
        /// The name given.
        name: String,
        /// The names allowed.
        expected: String,
    },

    /// An environment variable with a value that is not allowed.
    #[error("environment variable {name} is `{value}`, expected {expected}")]
    Environment {
        /// The variable, e.g. `DRNN_THREADS`.
        name: &'static str,
        /// Its value.
        value: String,
        /// The values allowed.
        expected: String,
    },

    /// Any of these, in one of several lanes.
    #[error("lane {lane}: {error}")]
    Lane {
        /// Index of the lane.
        lane: usize,
        /// What is wrong with it.
        #[source]
        error: Box<Error>,
    },
}

impl Error {
    /// The same at a place `offset` further on, for a part of an array that was checked alone.
    pub(crate) fn moved(self, offset: usize) -> Error {
        match self {
            Error::NotFinite { name, value, position } => {
                Error::NotFinite { name, value, position: position + offset }
            }
            other => other,
        }
    }

    /// Says which lane it was, where there are several.
    pub(crate) fn in_lane(self, lane: usize, lanes: usize) -> Error {
        if lanes < 2 {
            return self;
        }
        Error::Lane { lane, error: Box::new(self) }
    }
}

/// Shorthand for results of this crate.
pub type Result<T> = core::result::Result<T, Error>;

/// A shape in an error message: `shape [3, 4]`, or `5 values` where only the number is known.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shape {
    /// Dimensions.
    Dims(Vec<usize>),
    /// A flat array.
    Len(usize),
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Shape::Dims(d) => {
                write!(f, "shape {d:?}")?;
                match d.iter().try_fold(1usize, |a, &d| a.checked_mul(d)) {
                    Some(n) => write!(f, " ({n} values)"),
                    None => Ok(()),
                }
            }
            Shape::Len(1) => write!(f, "1 value"),
            Shape::Len(n) => write!(f, "{n} values"),
        }
    }
}

/// Checks that a flat array has as many values as `dims` says.
pub(crate) fn check_shape(name: &str, found: usize, dims: &[usize]) -> Result<()> {
    let expected = dims.iter().try_fold(1usize, |a, &d| a.checked_mul(d));
    if expected == Some(found) {
        return Ok(());
    }
    Err(Error::Shape {
        name: name.into(),
        found: Shape::Len(found),
        expected: Shape::Dims(dims.to_vec()),
    })
}

/// Checks that there is no NaN and no infinity.
pub(crate) fn check_finite(name: &str, values: &[f32]) -> Result<()> {
    // A NaN or infinity times zero is NaN, and NaN stays: one pass without branches, then the place.
    let mut lanes = [0.0f32; 16];
    let chunks = values.chunks_exact(16);
    let rest = chunks.remainder();
    for chunk in chunks {
        for (lane, x) in lanes.iter_mut().zip(chunk) {
            *lane += x * 0.0;
        }
    }
    let clean = lanes.iter().chain(rest).all(|x| x.is_finite());
    if clean {
        return Ok(());
    }
    match values.iter().position(|x| !x.is_finite()) {
        None => Ok(()),
        Some(position) => {
            Err(Error::NotFinite { name: name.into(), value: values[position], position })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finite_finds_every_place() {
        for at in 0..40 {
            for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut v = [1.0f32; 40];
                assert_eq!(check_finite("v", &v), Ok(()));
                v[at] = bad;
                match check_finite("v", &v) {
                    Err(Error::NotFinite { position, .. }) => assert_eq!(position, at),
                    other => panic!("{other:?}"),
                }
            }
        }
    }
}
