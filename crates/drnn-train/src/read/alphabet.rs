//! The most frequent characters of a text.

use super::open::Source;
use super::pieces::pieces;
use super::refuse;
use crate::error::Result;
use drnn_tasks::chars::Alphabet;
use std::collections::HashMap;

/// The `max` most frequent characters of a text.
pub fn alphabet(source: Source, max: usize) -> Result<Alphabet> {
    let found = character_counts(source)?;
    Ok(Alphabet::new(found.into_iter().take(max).map(|(symbol, _)| symbol).collect())?)
}

/// The characters of a text, line ends included, and how often they occur, the most frequent first; of
/// equally frequent ones the lower code point comes first. Reads the text to its end: to read its
/// symbols, open it again.
pub fn character_counts(mut source: Source) -> Result<Vec<(char, u64)>> {
    let mut counts = Counts { ascii: [[0; 256]; 4], others: HashMap::new() };
    pieces(&mut source, |piece| counts.add(piece))?;
    let mut found = counts.found();
    if found.is_empty() {
        return Err(refuse(source.name(), None, "holds no text"));
    }
    found.sort_unstable_by_key(|&(symbol, count)| (std::cmp::Reverse(count), symbol));
    Ok(found)
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

    fn find(text: &str, max: usize) -> Result<Alphabet> {
        alphabet(Source::from_bytes("a", text.into()).unwrap(), max)
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
        assert!(alphabet(bad, 9).unwrap_err().to_string().starts_with("a:2: byte 1"));
    }
}
