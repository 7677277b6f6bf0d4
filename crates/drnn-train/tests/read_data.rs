//! The readers on real data, where the environment variable DRNN_DATA names their folder.

use drnn_testing::{Need, skip};
use drnn_train::Result;
use drnn_train::read::{Sentence, Symbols, TaggedFormat, open, sentences, vectors};
use std::path::PathBuf;

fn data(name: &str) -> Option<PathBuf> {
    let Some(folder) = std::env::var_os("DRNN_DATA") else {
        skip(Need::Data, "DRNN_DATA is not set");
        return None;
    };
    let path = PathBuf::from(folder).join(name);
    if !path.exists() {
        skip(Need::Data, format!("DRNN_DATA has no {name}"));
        return None;
    }
    Some(path)
}

#[test]
fn treebanks() -> Result<()> {
    let (conll_u, columns) = (TaggedFormat::ConllU, TaggedFormat::TwoColumns);
    for (name, format, count, words) in [
        ("ud-english-ewt-r2.3/en_ewt-ud-train.conllu.gz", conll_u, 12_543, Some(204_585)),
        ("ud-english-ewt-r2.3/en_ewt-ud-dev.conllu.gz", conll_u, 2_002, Some(25_148)),
        ("ud-english-ewt-r2.3/en_ewt-ud-test.conllu.gz", conll_u, 2_077, Some(25_096)),
        ("ud-french-gsd-r2.16/fr_gsd-train.tsv.gz", columns, 14_450, None),
        ("ud-french-gsd-r2.16/fr_gsd-dev.tsv.gz", columns, 1_476, None),
        ("ud-french-gsd-r2.16/fr_gsd-test.tsv.gz", columns, 416, None),
        ("utb-german-12tag/de_utb-train.tsv.gz", columns, 12_999, None),
        ("utb-german-12tag/de_utb-dev.tsv.gz", columns, 800, None),
        ("utb-german-12tag/de_utb-test.tsv.gz", columns, 1_000, None),
    ] {
        let Some(path) = data(name) else { continue };
        let mut reader = sentences(open(&path)?, None).keep_lines();
        let all = reader.by_ref().collect::<Result<Vec<Sentence>>>()?;
        assert_eq!((reader.format(), all.len()), (Some(format), count), "{name}");
        let found = all.iter().map(|sentence| sentence.words().count()).sum::<usize>();
        assert_eq!(found, words.unwrap_or(found), "{name}");
        assert!(all.iter().flat_map(Sentence::words).all(|word| word.tag != "_"), "{name}");
        // Its own tags filled in, the file comes back.
        let mut text = String::new();
        for sentence in &all {
            let tags: Vec<&str> = sentence.words().map(|word| word.tag.as_str()).collect();
            text += &sentence.with_tags(&tags)?;
        }
        let whole = std::io::read_to_string(open(&path)?).expect("it was read before");
        assert!(whole.trim_end() == text.trim_end(), "{name}");
    }
    Ok(())
}

#[test]
fn glove() -> Result<()> {
    let Some(path) = data("glove-6b-50d-top100k/glove.6B.50d.top100k.txt.gz") else {
        return Ok(());
    };
    let all = vectors(open(&path)?, |_| true)?;
    assert_eq!([all.width(), all.len(), all.duplicates()], [50, 100_000, 0]);
    let few = vectors(open(&path)?, |word| word == "the" || word == "zzzz-none")?;
    assert_eq!((few.len(), few.seen(), few.get("the")), (1, 100_000, all.get("the")));
    Ok(())
}

#[test]
fn text8() -> Result<()> {
    let Some(path) = data("text8-first-74m/text8.zip") else { return Ok(()) };
    let alphabet = drnn_train::read::alphabet(open(&path)?, 255)?;
    assert_eq!((alphabet.len(), alphabet.symbols()[0]), (27, ' '));
    let symbols = Symbols::read(open(&path)?, &alphabet)?;
    assert_eq!((symbols.len(), symbols.unknown()), (74_081_952, 0));
    Ok(())
}
