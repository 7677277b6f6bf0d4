//! Files of several networks, and taggers among them: a tagger that was read can tag any words.
#![no_main]

use drnn::Bundle;
use drnn_tasks::live::{Element, LiveModel, LiveStream, Predicted};
use drnn_tasks::tagger::{Tagger, tokenize};
use drnn_train::tagger::{Sentences, TagWorkspace, outputs};
use libfuzzer_sys::fuzz_target;

const WORDS: [&str; 3] = ["a", "b\u{e9}", "c"];

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
    data.push(tagger.vocabulary(), WORDS.iter().map(|word| (*word, Some("X"))));
    let mut whole = Vec::new();
    let look = |_: usize, _: usize, y: &[f32]| whole.push(y.to_vec());
    if outputs(&tagger, &data, &[0], &mut TagWorkspace::default(), look).is_err() {
        return;
    }
    assert_eq!(whole.len(), 3);
    // The stream predicts the tag with the largest logit of the whole sentence.
    let model = LiveModel::from_tagger("tagger", tagger);
    let Ok(mut stream) = LiveStream::new(&model) else { return };
    let mut live = Vec::new();
    for word in WORDS {
        live.extend(stream.push(&Element::Word(word.into())).unwrap());
    }
    live.extend(stream.flush().unwrap());
    assert_eq!(live.len(), 3);
    let tags = model.tagger().unwrap().vocabulary().tags();
    for (prediction, logits) in live.iter().zip(&whole) {
        let Predicted::Tag { tag, .. } = prediction.value else { panic!("{prediction:?}") };
        let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let is_largest = |(name, &logit): (&String, &f32)| name == tag && logit == largest;
        assert!(tags.iter().zip(logits).any(is_largest), "{tag}: {logits:?}");
    }
});
