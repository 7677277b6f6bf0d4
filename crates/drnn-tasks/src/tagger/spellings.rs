//! Spellings of words as symbols.

use super::vocabulary::{BEGIN, END, PAD, Vocabulary};
use std::collections::HashMap;

/// The first spellings, those of the special words.
const SPECIAL_SPELLINGS: [u32; 3] = [BEGIN, END, PAD];

/// Symbols of distinct words, one word after another.
#[derive(Debug, Clone, PartialEq)]
pub struct Spellings {
    symbols: Vec<u32>,
    starts: Vec<usize>,
    numbers: HashMap<String, u32>,
}

impl Default for Spellings {
    fn default() -> Spellings {
        let symbols: Vec<u32> = SPECIAL_SPELLINGS.into();
        Spellings { starts: (0..=symbols.len()).collect(), symbols, numbers: HashMap::new() }
    }
}

impl Spellings {
    /// The index of a word's spelling, which is added if it is new.
    pub fn number(&mut self, vocabulary: &Vocabulary, form: &str) -> u32 {
        if let Some(&number) = self.numbers.get(form) {
            return number;
        }
        let number = self.len() as u32;
        vocabulary.spell(form, &mut self.symbols);
        self.starts.push(self.symbols.len());
        self.numbers.insert(form.to_string(), number);
        number
    }

    /// The index of the spelling of BEGIN, END or PAD, which consists of that symbol alone.
    pub fn of_special(special: u32) -> u32 {
        special - BEGIN
    }

    /// The number of spellings.
    pub fn len(&self) -> usize {
        self.starts.len() - 1
    }

    /// Always false: BEGIN, END and PAD are always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Symbols of a spelling.
    pub fn get(&self, number: u32) -> &[u32] {
        let number = number as usize;
        &self.symbols[self.starts[number]..self.starts[number + 1]]
    }
}
