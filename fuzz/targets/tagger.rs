//! Files of several networks, and taggers among them: a tagger that was read can tag any words.
#![no_main]

use drnn::Bundle;
use drnn_tasks::tagger::{TagStream, Tagger, tokenize};
use drnn_train::tagger::{Sentences, TagWorkspace, outputs};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    let line: String = text.chars().take(200).collect();
    let tokens = tokenize(&line);
    assert_eq!(tokens.concat(), line.split_whitespace().collect::<String>());
    let _ = Bundle::from_bytes(bytes);
    let Ok(tagger) = Tagger::from_bytes(bytes) else { return };
    if tagger.parameters() > 20_000
        || tagger.net().words.delay() > 100
        || tagger.net().chars.delay() > 100
    {
        return;
    }
    let mut data = Sentences::new();
    data.push(tagger.vocabulary(), ["a", "b\u{e9}", ""].iter().map(|form| (*form, Some("X"))));
    let mut whole = Vec::new();
    let look = |_: usize, _: usize, y: &[f32]| whole.push(y.to_vec());
    if outputs(&tagger, &data, &[0], &mut TagWorkspace::default(), look).is_err() {
        return;
    }
    assert_eq!(whole.len(), 3);
    let Ok(mut stream) = TagStream::new(&tagger) else { return };
    let mut live = Vec::new();
    for form in ["a", "b\u{e9}", ""] {
        live.extend(stream.push(form).unwrap());
    }
    live.extend(stream.finish().unwrap());
    let bits = |all: &[Vec<f32>]| all.concat().iter().map(|y| y.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&live), bits(&whole));
});
