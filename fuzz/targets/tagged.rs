//! Sentences with tags: written with their own tags, they are read again unchanged.
#![no_main]

use drnn_train::Result;
use drnn_train::read::{Sentence, Source, Token, sentences};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = Source::from_bytes("f", bytes.to_vec()) else { return };
    let mut reader = sentences(source, None).keep_lines();
    let Ok(all) = reader.by_ref().collect::<Result<Vec<Sentence>>>() else { return };
    let mut text = String::new();
    for sentence in &all {
        let tags: Vec<&str> = sentence.words().map(|word| word.tag.as_str()).collect();
        text += &sentence.with_tags(&tags).unwrap();
    }
    if text.bytes().take(6).any(|byte| byte == 0) {
        return; // not recognised as text, now that the blank lines before it are gone
    }
    let source = Source::new("f", std::io::Cursor::new(text.into_bytes())).unwrap();
    let again: Result<Vec<Sentence>> = sentences(source, reader.format()).collect();
    let tokens =
        |all: &[Sentence]| -> Vec<Vec<Token>> { all.iter().map(|s| s.tokens.clone()).collect() };
    assert_eq!(tokens(&again.unwrap()), tokens(&all));
});
