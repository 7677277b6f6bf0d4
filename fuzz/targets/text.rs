//! A text: one symbol for each character, by the alphabet.
#![no_main]

use drnn_train::read::{Source, Symbols};
use libfuzzer_sys::fuzz_target;
use std::io::Read;

fuzz_target!(|input: &[u8]| {
    let Some((&most, bytes)) = input.split_first() else { return };
    let open = || Source::from_bytes("f", bytes.to_vec());
    let Ok(mut source) = open() else { return };
    let mut text = Vec::new();
    let whole = source.read_to_end(&mut text).is_ok();
    let text = String::from_utf8(text).ok().filter(|text| whole && !text.is_empty());
    let found = open().and_then(|source| drnn_train::read::alphabet(source, 2 * usize::from(most)));
    // A file that begins with NUL bytes is rejected as not text.
    let nul = text.iter().any(|text| text.bytes().take(6).any(|byte| byte == 0));
    assert!(found.is_ok() == (text.is_some() && most > 0) || (found.is_err() && nul));
    let (Ok(alphabet), Some(text)) = (found, text) else { return };
    let symbols = open().and_then(|source| Symbols::read(source, &alphabet)).unwrap();
    let expected: Vec<u32> = text.chars().map(|symbol| alphabet.id(symbol)).collect();
    let mut found = Vec::new();
    symbols.get(0..symbols.len(), &mut found).unwrap();
    assert!(found == expected);
    let unknown = expected.iter().filter(|id| **id == alphabet.unknown()).count();
    assert_eq!(symbols.unknown(), unknown as u64);
});
