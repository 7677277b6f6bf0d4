//! The characters of a model and their ids: 0, 1, .. by frequency, and one more for all others.

use crate::error::{Error, Result};
use crate::text::quote;
use std::collections::HashMap;

/// Characters and their ids.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alphabet {
    symbols: Vec<char>,
    ascii: [u32; 128],
    others: HashMap<char, u32>,
}

impl Alphabet {
    /// An alphabet of these characters, with ids 0, 1, .. in this order.
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

    /// The characters in the order of their ids.
    pub fn symbols(&self) -> &[char] {
        &self.symbols
    }

    /// The number of characters, without the unknown one.
    #[allow(clippy::len_without_is_empty)] // it never is
    pub fn len(&self) -> usize {
        self.symbols.len()
    }

    /// The id of all other characters, one above the last.
    pub fn unknown(&self) -> u32 {
        self.symbols.len() as u32
    }

    /// The id of a character.
    pub fn id(&self, symbol: char) -> u32 {
        match self.ascii.get(symbol as usize) {
            Some(id) => *id,
            None => self.others.get(&symbol).copied().unwrap_or(self.unknown()),
        }
    }

    /// The ids of the ASCII characters, by their code.
    pub fn ascii(&self) -> &[u32; 128] {
        &self.ascii
    }
}
