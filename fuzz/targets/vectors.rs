//! Word vectors: every requested word has its numbers, and they are finite.
#![no_main]

use drnn_train::read::{Source, vectors};
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeSet;

fuzz_target!(|bytes: &[u8]| {
    let Ok(source) = Source::from_bytes("f", bytes.to_vec()) else { return };
    let mut wanted = BTreeSet::new();
    let want = |word: &str| {
        let is_wanted = word.len() % 3 != 0;
        if is_wanted {
            wanted.insert(word.to_string());
        }
        is_wanted
    };
    let Ok(all) = vectors(source, want) else { return };
    assert!(all.width() > 0 && all.seen() > 0);
    assert_eq!(all.len(), wanted.len());
    for word in &wanted {
        let vector = all.get(word).unwrap();
        assert!(vector.len() == all.width() && vector.iter().all(|x| x.is_finite()));
    }
});
