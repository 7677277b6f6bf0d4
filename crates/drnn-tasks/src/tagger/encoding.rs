//! Where the encodings of words are among the char net's last states.

use super::network::TaggerNet;

/// Position of each word's encoding in the last states of a batch: the states of the last layer,
/// direction after direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EncodingLayout {
    first: usize,
    units: usize,
    directions: usize,
    rows: usize,
}

impl EncodingLayout {
    /// For a batch of `rows` words.
    pub fn new(net: &TaggerNet, rows: usize) -> EncodingLayout {
        let (units, directions) = (net.chars.units(), net.chars.direction().count());
        let (last, below) = (units[units.len() - 1], &units[..units.len() - 1]);
        let first = below.iter().sum::<usize>() * directions * rows;
        EncodingLayout { first, units: last, directions, rows }
    }

    /// The pieces of word `row`'s encoding: offset in the encoding, offset in the states, length.
    pub fn of_row(&self, row: usize) -> impl Iterator<Item = (usize, usize, usize)> + use<> {
        let &EncodingLayout { first, units, directions, rows } = self;
        (0..directions).map(move |i| (i * units, first + (i * rows + row) * units, units))
    }
}
