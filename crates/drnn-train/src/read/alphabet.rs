//! The characters that a model knows, as numbers: 0, 1, .. by frequency, and one more for all others.

use super::open::Source;
use super::pieces::pieces;
use super::{quote, refuse};
use crate::error::{Error, Result};
use std::collections::HashMap;

/// Characters and their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alphabet {
    symbols: Vec<char>,
    ascii: [u32; 128],
    others: HashMap<char, u32>,
}

impl Alphabet {
    /// Of given characters, which get the numbers 0, 1, .. in this order.
    pub fn new(symbols: Vec<char>) -> Result<Alphabet> {
        let unknown = symbols.len() as u32;
        let mut alphabet = Alphabet { symbols, ascii: [unknown; 128], others: HashMap::new() };
        for (id, &symbol) in alphabet.symbols.iter().enumerate() {
            let id = id as u32;
            let before = match alphabet.ascii.get_mut(symbol as usize) {
                Some(place) => Some(std::mem::replace(place, id)).filter(|id| *id != unknown),
                None => alphabet.others.insert(symbol, id),
            };
            if before.is_some() {
                let symbol = quote(symbol.encode_utf8(&mut [0; 4]));
                return Err(Error::Data(format!("the alphabet has {symbol} twice")));
            }
        }
        if alphabet.symbols.is_empty() {
            return Err(Error::Data("the alphabet has no symbols".into()));
        }
        Ok(alphabet)
    }

    /// Of the `most` most frequent characters of a text, line ends included; of equally frequent ones the lower
    /// code point comes first. The text is read to its end: to read its symbols then, open it again.
    pub fn find(mut source: Source, most: usize) -> Result<Alphabet> {
        let mut counts = Counts { ascii: [[0; 256]; 4], others: HashMap::new() };
        pieces(&mut source, |piece| counts.add(piece))?;
        let mut found = counts.found();
        if found.is_empty() {
            return Err(refuse(source.name(), None, "holds no text"));
        }
        found.sort_unstable_by_key(|&(symbol, count)| (std::cmp::Reverse(count), symbol));
        found.truncate(most);
        Alphabet::new(found.into_iter().map(|(symbol, _)| symbol).collect())
    }

    /// Its characters in the order of their numbers.
    pub fn symbols(&self) -> &[char] {
        &self.symbols
    }

    /// How many they are, without the unknown one.
    #[allow(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> usize {
        self.symbols.len()
    }

    /// The number of all other characters, one above the last.
    pub fn unknown(&self) -> u32 {
        self.symbols.len() as u32
    }

    /// The number of a character.
    pub fn id(&self, symbol: char) -> u32 {
        match self.ascii.get(symbol as usize) {
            Some(id) => *id,
            None => self.others.get(&symbol).copied().unwrap_or(self.unknown()),
        }
    }

    /// Numbers of the characters below 128.
    pub(super) fn ascii(&self) -> &[u32; 128] {
        &self.ascii
    }
}

/// How often characters occur. Bytes are counted in four places in turn: two equal ones in a row would wait for
/// each other.
struct Counts {
    ascii: [[u64; 256]; 4],
    others: HashMap<char, u64>,
}

impl Counts {
    fn add(&mut self, piece: &str) {
        for four in piece.as_bytes().chunks(4) {
            for (counts, byte) in self.ascii.iter_mut().zip(four) {
                counts[usize::from(*byte)] += 1;
            }
        }
        if !piece.is_ascii() {
            for symbol in piece.chars().filter(|symbol| !symbol.is_ascii()) {
                *self.others.entry(symbol).or_default() += 1;
            }
        }
    }

    fn found(self) -> Vec<(char, u64)> {
        let ascii = (0..128u8).map(|byte| {
            let count = self.ascii.iter().map(|counts| counts[usize::from(byte)]).sum();
            (char::from(byte), count)
        });
        ascii.filter(|(_, count)| *count > 0).chain(self.others).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(text: &str, most: usize) -> Result<Alphabet> {
        Alphabet::find(Source::from_bytes("a", text.into()).unwrap(), most)
    }

    #[test]
    fn frequent_ones_come_first() {
        let found = find("\u{feff}b€aab\n€cdπ", 100).unwrap();
        assert_eq!(found.symbols(), ['a', 'b', '€', '\n', 'c', 'd', 'π']);
        assert_eq!([found.id('€'), found.id('b'), found.id('x'), found.id('é')], [2, 1, 7, 7]);
        let few = find("b€aab\n€cdπ", 3).unwrap();
        assert_eq!(few.symbols(), ['a', 'b', '€']);
        assert_eq!([few.len(), few.unknown() as usize, few.id('π') as usize], [3, 3, 3]);
        assert_eq!(Alphabet::new(found.symbols().to_vec()).unwrap(), found);
    }

    #[test]
    fn no_alphabets() {
        assert_eq!(find("", 3).unwrap_err().to_string(), "a: holds no text");
        assert!(find("a", 0).unwrap_err().to_string().contains("no symbols"));
        for twice in [vec!['a', '\n', '\n'], vec!['€', 'a', '€'], vec!['a', 'a']] {
            assert!(Alphabet::new(twice).unwrap_err().to_string().contains("twice"));
        }
        let bad = Source::from_bytes("a", b"x\n\xff".to_vec()).unwrap();
        assert!(Alphabet::find(bad, 9).unwrap_err().to_string().starts_with("a:2: byte 1"));
    }
}
