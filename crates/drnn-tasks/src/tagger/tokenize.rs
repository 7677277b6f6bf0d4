//! A line of running text as tokens, the way English treebanks write them.
//!
//! | text | tokens |
//! |---|---|
//! | `(Don't go!)` | `(` `Do` `n't` `go` `!` `)` |
//! | `We've met Dr. Who...` | `We` `'ve` `met` `Dr.` `Who` `...` |
//! | `well-known and/or $3.50` | `well` `-` `known` `and` `/` `or` `$` `3.50` |
//! | `see http://a.b/c, x@y.org` | `see` `http://a.b/c` `,` `x@y.org` |
//!
//! A handful of rules; users with a tokeniser of their own pass tokens instead of text.

/// Punctuation that is split from the start of a word.
const OPENING: &str = "([{\"'\u{201c}\u{2018}\u{ab}<$#\u{a3}\u{20ac}\u{bf}\u{a1}*-\u{2013}\u{2014}";
/// Punctuation that is split from the end of a word.
const CLOSING: &str = ")]}\"'\u{201d}\u{2019}\u{bb}>.,;:!?%\u{2026}*-\u{2013}\u{2014}";
/// Words that keep their full stop; single letters and words with one inside (U.S.) do too.
const ABBREVIATIONS: [&str; 24] = [
    "mr", "mrs", "ms", "dr", "st", "prof", "sr", "jr", "inc", "ltd", "co", "corp", "vs", "etc",
    "no", "jan", "feb", "aug", "sept", "oct", "nov", "dec", "gen", "sen",
];
/// Contractions that are split from the end of a word, with either apostrophe.
const ENDINGS: [&str; 7] = ["n't", "'s", "'re", "'ve", "'ll", "'d", "'m"];

/// The tokens of a line.
pub fn tokenize(line: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    for chunk in line.split_whitespace() {
        split(chunk, &mut tokens);
    }
    tokens
}

fn split<'a>(chunk: &'a str, tokens: &mut Vec<&'a str>) {
    let mut rest = chunk;
    // Runs of the same sign are one token.
    while let Some(n) = run(rest.chars(), OPENING).filter(|&n| n < rest.len()) {
        let (sign, other) = rest.split_at(n);
        // 'em and -5 are words.
        let digit = other.chars().next().is_some_and(|c| c.is_ascii_digit());
        if sign == "-" && digit {
            break;
        }
        tokens.push(sign);
        rest = other;
    }
    let mut closing = Vec::new();
    while let Some(n) = run(rest.chars().rev(), CLOSING).filter(|&n| n < rest.len()) {
        let (word, sign) = rest.split_at(rest.len() - n);
        if sign == "." && keeps_stop(word) {
            break;
        }
        closing.push(sign);
        rest = word;
    }
    inside(rest, tokens);
    tokens.extend(closing.into_iter().rev());
}

/// Length in bytes of the run of equal signs at the start.
fn run(mut chars: impl Iterator<Item = char>, signs: &str) -> Option<usize> {
    let first = chars.next().filter(|c| signs.contains(*c))?;
    Some(first.len_utf8() * (1 + chars.take_while(|c| *c == first).count()))
}

fn keeps_stop(word: &str) -> bool {
    let lower = word.to_lowercase();
    let single = word.chars().count() == 1 && word.chars().all(char::is_alphabetic);
    let letters = word.contains('.') && word.chars().all(|c| c.is_alphabetic() || c == '.');
    single || letters || ABBREVIATIONS.contains(&lower.as_str())
}

/// Splits a word without punctuation around it: contractions, hyphens, slashes.
fn inside<'a>(word: &'a str, tokens: &mut Vec<&'a str>) {
    if word.contains("://") || word.contains('@') || word.starts_with("www.") {
        tokens.push(word);
        return;
    }
    let lower = word.to_lowercase().replace('\u{2019}', "'");
    if lower == "cannot" {
        let (can, not) = word.split_at(3);
        tokens.extend([can, not]);
        return;
    }
    // Counted in characters: lower case may have another length in bytes.
    let ending = ENDINGS.iter().find(|ending| lower.ends_with(**ending)).map(|e| e.chars().count());
    let at =
        ending.and_then(|n| word.char_indices().rev().nth(n - 1)).map_or(word.len(), |(at, _)| at);
    let (stem, ending) = if at == 0 { (word, "") } else { word.split_at(at) };
    hyphens(stem, tokens);
    tokens.extend(Some(ending).filter(|ending| !ending.is_empty()));
}

fn hyphens<'a>(word: &'a str, tokens: &mut Vec<&'a str>) {
    let mut rest = word;
    let between = |(at, c): (usize, char), rest: &str| {
        let letter = |c: Option<char>| c.is_some_and(char::is_alphabetic);
        (c == '-' || c == '/')
            && letter(rest[..at].chars().next_back())
            && letter(rest[at + 1..].chars().next())
    };
    while let Some((at, _)) = rest.char_indices().find(|found| between(*found, rest)) {
        tokens.extend([&rest[..at], &rest[at..at + 1]]);
        rest = &rest[at + 1..];
    }
    tokens.extend(Some(rest).filter(|rest| !rest.is_empty()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_and_some_more() {
        for (line, tokens) in [
            ("(Don't go!)", "( Do n't go ! )"),
            ("We've met Dr. Who...", "We 've met Dr. Who ..."),
            ("well-known and/or $3.50", "well - known and / or $ 3.50"),
            ("see http://a.b/c, x@y.org", "see http://a.b/c , x@y.org"),
            ("The U.S. and J. Doe's 1,000 cats.", "The U.S. and J. Doe 's 1,000 cats ."),
            (
                "I can\u{2019}t, cannot -5 \u{201c}hi\u{201d}",
                "I ca n\u{2019}t , can not -5 \u{201c} hi \u{201d}",
            ),
            ("... - !!! 's", "... - !!! ' s"),
            ("", ""),
            ("\u{130}stanbul's \u{df}n't", "\u{130}stanbul 's \u{df} n't"),
        ] {
            assert_eq!(tokenize(line).join(" "), tokens, "{line}");
        }
    }

    #[test]
    fn no_character_is_lost() {
        let mut rng = drnn::random::Rng::new(1);
        let letters: Vec<char> = "ab'\u{2019}n t.,-/(\"!\u{130}\u{df}$5@".chars().collect();
        for _ in 0..20_000 {
            let line: String =
                (0..rng.below(14)).map(|_| letters[rng.below(letters.len())]).collect();
            let glued: String = line.split_whitespace().collect();
            assert_eq!(tokenize(&line).concat(), glued, "{line:?}");
            assert!(tokenize(&line).iter().all(|token| !token.is_empty()), "{line:?}");
        }
    }
}
