//! A text as numbers of its characters: one byte each where the alphabet has at most 255 symbols (and the unknown one),
//! else two or four.

use super::open::Source;
use super::pieces::pieces;
use super::refuse;
use crate::error::{Error, Result};
use drnn_tasks::chars::Alphabet;
use std::ops::Range;

/// A text, character by character.
#[derive(Debug, Clone, PartialEq)]
pub struct Symbols {
    store: Store,
    unknown: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Store {
    Bytes(Pages<u8>),
    Pairs(Pages<u16>),
    Words(Pages<u32>),
}

impl Symbols {
    /// Reads a text. Every character counts, line ends too.
    pub fn read(mut source: Source, alphabet: &Alphabet) -> Result<Symbols> {
        let (store, unknown) = match alphabet.unknown() {
            0..=0xff => encode(&mut source, alphabet, |id| id as u8, Store::Bytes)?,
            0x100..=0xffff => encode(&mut source, alphabet, |id| id as u16, Store::Pairs)?,
            _ => encode(&mut source, alphabet, |id| id, Store::Words)?,
        };
        let symbols = Symbols { store, unknown };
        if symbols.is_empty() {
            return Err(refuse(source.name(), None, "holds no text"));
        }
        Ok(symbols)
    }

    /// Characters.
    pub fn len(&self) -> usize {
        match &self.store {
            Store::Bytes(pages) => pages.len(),
            Store::Pairs(pages) => pages.len(),
            Store::Words(pages) => pages.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of them the alphabet does not have.
    pub fn unknown(&self) -> u64 {
        self.unknown
    }

    /// Puts the numbers of some characters into `to`, in place of what is there.
    pub fn get(&self, range: Range<usize>, to: &mut Vec<u32>) -> Result<()> {
        if range.start > range.end || range.end > self.len() {
            let what = format!("characters {range:?} of a text of {}", self.len());
            return Err(Error::Data(what));
        }
        to.clear();
        match &self.store {
            Store::Bytes(pages) => pages.get(range, to),
            Store::Pairs(pages) => pages.get(range, to),
            Store::Words(pages) => pages.get(range, to),
        }
        Ok(())
    }
}

fn encode<T: Copy + PartialEq + Into<u32>>(
    source: &mut Source,
    alphabet: &Alphabet,
    narrow: impl Fn(u32) -> T,
    store: impl Fn(Pages<T>) -> Store,
) -> Result<(Store, u64)> {
    let ascii: [T; 128] = alphabet.ascii().map(&narrow);
    let unknown = narrow(alphabet.unknown());
    let mut pages = Pages(Vec::new());
    let (mut ids, mut unknowns) = (Vec::new(), 0);
    pieces(source, |piece| {
        ids.clear();
        if piece.is_ascii() {
            // The mask says to the compiler what we know.
            ids.extend(piece.bytes().map(|byte| ascii[usize::from(byte & 0x7f)]));
        } else {
            ids.extend(piece.chars().map(|symbol| narrow(alphabet.id(symbol))));
        }
        unknowns += ids.iter().filter(|id| **id == unknown).count() as u64;
        pages.extend(&ids);
    })?;
    Ok((store(pages), unknowns))
}

/// Numbers in pages, which are never moved: a growing vector would, while it is copied, take three times the memory.
#[derive(Debug, Clone, PartialEq)]
struct Pages<T>(Vec<Vec<T>>);

/// Numbers of a page.
const PAGE: usize = 1 << 20;

impl<T: Copy + Into<u32>> Pages<T> {
    fn len(&self) -> usize {
        self.0.last().map_or(0, |last| (self.0.len() - 1) * PAGE + last.len())
    }

    fn extend(&mut self, mut ids: &[T]) {
        while !ids.is_empty() {
            if self.0.last().is_none_or(|last| last.len() == PAGE) {
                // The first grows as it needs; who fills one will want the next.
                let capacity = if self.0.is_empty() { 0 } else { PAGE };
                self.0.push(Vec::with_capacity(capacity));
            }
            let Some(last) = self.0.last_mut() else { return };
            let (now, later) = ids.split_at(ids.len().min(PAGE - last.len()));
            last.extend_from_slice(now);
            ids = later;
        }
    }

    fn get(&self, range: Range<usize>, to: &mut Vec<u32>) {
        let mut at = range.start;
        while at < range.end {
            let page = &self.0[at / PAGE][at % PAGE..];
            let page = &page[..page.len().min(range.end - at)];
            to.extend(page.iter().map(|id| (*id).into()));
            at += page.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::from_bytes("a", text.into()).unwrap()
    }

    /// Against the plain way.
    fn check(text: &str, max: usize) -> Symbols {
        let alphabet = crate::read::alphabet(source(text), max).unwrap();
        let symbols = Symbols::read(source(text), &alphabet).unwrap();
        let plain: Vec<u32> = text.chars().map(|symbol| alphabet.id(symbol)).collect();
        let unknown = plain.iter().filter(|id| **id == alphabet.unknown()).count();
        assert_eq!([symbols.len(), symbols.unknown() as usize], [plain.len(), unknown]);
        let mut found = vec![7];
        let n = plain.len();
        for range in [0..n, n / 3..n / 2, n - 1..n, n..n, 0..n.min(PAGE + 1)] {
            symbols.get(range.clone(), &mut found).unwrap();
            assert!(found == plain[range]);
        }
        assert!(symbols.get(0..n + 1, &mut found).is_err());
        #[allow(clippy::reversed_empty_ranges)]
        let reversed = 1..0;
        assert!(symbols.get(reversed, &mut found).is_err());
        symbols
    }

    #[test]
    fn all_widths() {
        let text: String =
            (0..2_500_000u32).map(|i| char::from(b'a' + (i * i % 23) as u8)).collect();
        assert!(matches!(check(&text, 100).store, Store::Bytes(_)));
        assert!(check(&text, 5).unknown() > 0);
        assert_eq!(check("añ€𝄞\n", 100).unknown(), 0);
        let han = |count: u32| -> String {
            (0..count).filter_map(|i| char::from_u32(0x3400 + i)).collect()
        };
        assert!(matches!(check(&han(300), 255).store, Store::Bytes(_)));
        assert!(matches!(check(&han(300), 256).store, Store::Pairs(_)));
        assert!(matches!(check(&han(70_000), 65_535).store, Store::Pairs(_)));
        assert!(matches!(check(&han(70_000), 65_536).store, Store::Words(_)));
    }

    #[test]
    fn no_more_is_read_than_is_wanted() {
        use std::io::{BufReader, Read};
        let text = "añ€𝄞\n".repeat(30_000);
        for count in [1, 2, 4, 5, 65_533, 65_534, 65_535, 149_999, 150_000, 150_001] {
            let source = || source(&text).first_characters(count);
            let alphabet = crate::read::alphabet(source(), 100).unwrap();
            let symbols = Symbols::read(source(), &alphabet).unwrap();
            let expected = text.chars().take(count as usize);
            assert_eq!(symbols.len(), expected.clone().count());
            assert_eq!(alphabet.len(), symbols.len().min(5), "{count}");
            let mut found = Vec::new();
            symbols.get(0..symbols.len(), &mut found).unwrap();
            assert!(found.into_iter().eq(expected.map(|symbol| alphabet.id(symbol))), "{count}");
        }
        // What follows may be anything, and without end.
        let endless =
            b"abc".chain(std::io::repeat(b'a').take(100_000)).chain(std::io::repeat(0xff));
        let source = Source::new("a", BufReader::new(endless)).unwrap().first_characters(1000);
        let alphabet = Alphabet::new(vec!['a', 'b']).unwrap();
        let symbols = Symbols::read(source, &alphabet).unwrap();
        assert_eq!((symbols.len(), symbols.unknown()), (1000, 1));
    }

    #[test]
    fn bad_texts() {
        let alphabet = Alphabet::new(vec!['a']).unwrap();
        let message = |text: &[u8]| {
            let source = Source::from_bytes("a", text.to_vec()).unwrap();
            Symbols::read(source, &alphabet).unwrap_err().to_string()
        };
        assert_eq!(message(b""), "a: holds no text");
        assert!(message(b"aa\na\xf0\x9f").starts_with("a:2: byte 2 of the line is not UTF-8"));
    }
}
