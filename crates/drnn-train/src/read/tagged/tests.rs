use super::*;

fn read(text: &str) -> Result<Vec<Sentence>> {
    sentences(Source::from_bytes("a", text.into()).unwrap(), None).keep_lines().collect()
}

/// A line of CoNLL-U.
fn line(id: &str, form: &str, tag: &str) -> String {
    format!("{id}\t{form}\tl\t{tag}\tx\tf\t0\td\te\tm\n")
}

fn conll(tokens: &[(&str, &str, &str)]) -> String {
    tokens.iter().map(|(id, form, tag)| line(id, form, tag)).collect()
}

const MARKET: [(&str, &str, &str); 6] = [
    ("1", "wir", "PRON"),
    ("2-3", "zum", "_"),
    ("2", "zu", "ADP"),
    ("3", "dem", "DET"),
    ("3.1", "x", "NOUN"),
    ("4", "Markt Platz", "NOUN"),
];

#[test]
fn conll_u_with_all_kinds_of_tokens() {
    let market = conll(&MARKET);
    let text = format!("\n# text = a\tb\n{market}\n\n#\n{market}");
    let read_back = read(&text).unwrap();
    assert_eq!([read_back.len(), read_back[0].line as usize], [2, 2]);
    let tokens = &read_back[1].tokens;
    assert_eq!(tokens.iter().map(|t| &t.tag[..]).collect::<Vec<_>>(), MARKET.map(|m| m.2));
    assert_eq!(tokens[5].form, "Markt Platz");
    assert_eq!([tokens[1].kind, tokens[4].kind], [TokenKind::Multiword, TokenKind::Empty]);
    assert_eq!(read_back[1].words().count(), 4);
    assert_eq!(read(&text.replace('\n', "\r\n")).unwrap(), read_back);
    assert_eq!(read(&format!("\u{feff}{text}")).unwrap(), read_back);
}

#[test]
fn lines_come_back_with_tags_filled_in() {
    let text = format!("# c\n{}", conll(&MARKET));
    let sentence = &read(&text).unwrap()[0];
    assert_eq!(sentence.lines().collect::<Vec<_>>(), text.lines().collect::<Vec<_>>());
    let filled = sentence.with_tags(&["A", "B", "C", "D"]).unwrap();
    let expected = text.replace("PRON", "A").replace("ADP", "B").replace("DET", "C");
    let expected = expected.replace("Platz\tl\tNOUN", "Platz\tl\tD");
    assert_eq!(filled, expected + "\n");
    assert!(sentence.with_tags(&["A"]).unwrap_err().to_string().contains("1 tags"));
    let two = &read("#\tSYM\n# comment\nzum\t_\nzu\tX\n").unwrap()[0];
    assert_eq!(two.with_tags(&["A", "B"]).unwrap(), "#\tA\n# comment\nzum\t_\nzu\tB\n\n");
    let source = Source::from_bytes("a", text.into()).unwrap();
    let without = sentences(source, None).next().unwrap().unwrap();
    assert!(without.with_tags(&["A", "B", "C", "D"]).is_err());
    assert_eq!(without.lines().count(), 0);
}

#[test]
fn two_columns() {
    let read_back = read("Les\tDET\ndu\t_\n\n\n# not a word\n#\tSYM\n").unwrap();
    assert_eq!(read_back.len(), 2);
    assert_eq!(read_back[0].tokens[1].kind, TokenKind::Multiword);
    assert_eq!(read_back[1].tokens[0].form, "#");
    assert_eq!(read("#a\tSYM\n").unwrap()[0].tokens[0].form, "#a");
    assert!(read("# only\n\na\tB").unwrap()[0].lines().eq(["a\tB"]));
}

#[track_caller]
fn refused(text: &str, message: &str) {
    let found = read(text).unwrap_err().to_string();
    assert!(found.starts_with(message), "{found}");
}

#[test]
fn bad_sentences() {
    let one = line("1", "a", "X");
    refused("", "a: holds no sentences");
    refused("# c\n\n\n", "a: holds no sentences");
    refused("a b\n", "a:1: `a b` has columns with TABs between them: 1, expected 10");
    refused("a\tb\tc\n", "a:1: `a\\tb\\tc` has columns");
    refused(&format!("{one}2\tb\n"), "a:2: `2\\tb` has 2 columns, expected 10");
    refused("a\tX\n\nb\x07\n", "a:3: `b\\u{7}` has 1 columns, expected 2: word TAB tag");
    refused("a\tX\n\tX\n", "a:2: the word is empty");
    refused("a\tX\nb\t\n", "a:2: the tag of `b` is empty");
    refused(&line("1", " ", "X"), "a:1: the word is empty");
    refused(&line("1", "a", ""), "a:1: the tag of `a` is empty");
    for (ids, message) in [
        (&["1", "3"][..], "a:2: ID `3`, expected 2"),
        (&["1", "1"], "a:2: ID `1`, expected 2"),
        (&["0"], "a:1: ID `0`, expected 1"),
        (&["1", "+2"], "a:2: ID `+2`, expected 2"),
        (&["1", ""], "a:2: ID ``, expected 2"),
        (&["1", "99999999999"], "a:2: ID `99999999999`, expected 2"),
        (&["1", "1-2"], "a:2: ID `1-2` cannot stand before word 2"),
        (&["3-4"], "a:1: ID `3-4` cannot stand before word 1"),
        (&["2-1"], "a:1: ID `2-1` cannot stand before word 1"),
        (&["1-3", "1", "2-3"], "a:3: ID `2-3` cannot stand before word 2"),
        (&["1-2", "1"], "a:2: the sentence ends before word 2 of a multiword token"),
        (&["1", "2.1"], "a:2: ID `2.1` of an empty node, expected 1.1"),
        (&["0.1", "0.3"], "a:2: ID `0.3` of an empty node, expected 0.2"),
    ] {
        let text: String = ids.iter().map(|id| line(id, "a", "X")).collect();
        refused(&text, message);
    }
}

#[test]
fn ends_of_sentences_and_a_given_format() {
    let mut bad = sentences(Source::from_bytes("a", "a\tX\n\nb\n\na\tX\n".into()).unwrap(), None);
    assert!(bad.next().unwrap().is_ok() && bad.next().unwrap().is_err() && bad.next().is_none());
    let source = Source::from_bytes("a", "a\tX\n".into()).unwrap();
    let conllu = sentences(source, Some(TaggedFormat::ConllU)).next().unwrap();
    assert!(conllu.unwrap_err().to_string().contains("expected 10 of CoNLL-U"));
    let long = "a\tX\n".repeat(MAX_SENTENCE_LINES + 1);
    refused(
        &format!("b\tX\n\n{long}"),
        "a:3: the sentence that begins here has more than 100000 lines",
    );
    assert!(read(&long[4..]).is_ok());
}

#[test]
fn tags_are_no_texts() {
    let text = format!("w\tA\n\nw\t{}\n", "n".repeat(1_000_000));
    let source = Source::from_bytes("a", text.into()).unwrap();
    let message = sentences(source, None).nth(1).unwrap().unwrap_err().to_string();
    assert!(message.starts_with("a:3: the tag has a name of 1000000 bytes"), "{message}");
    assert!(message.len() < 200, "{message}");
}
