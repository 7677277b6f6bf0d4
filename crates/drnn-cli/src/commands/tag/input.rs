//! Words to tag, read by a thread of their own: token by token where a sentence is still arriving,
//! otherwise whole sentences.

use clap::ValueEnum;
use drnn_tasks::live::Element;
use drnn_tasks::tagger::{Counting, tokenize};
use drnn_train::read::{self, Sentence, Source, TaggedFormat, TokenKind};
use drnn_train::tagger;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// Running text
    Text,
    /// One token per line, a blank line after each sentence; after a TAB other columns may follow
    Tokens,
    /// CoNLL-U
    Conllu,
}

/// What the reading thread sends.
pub enum Piece {
    /// A token of a sentence that has not ended.
    Token(Element),
    /// The end of that sentence.
    End,
    Whole(Whole),
    Failed(drnn_train::Error),
}

/// A complete sentence.
pub struct Whole {
    pub words: Vec<Element>,
    /// The lines of a CoNLL-U sentence.
    pub lines: Option<Box<Sentence>>,
}

impl Whole {
    /// Whether line `i` of those that were read is a word, and not a multiword token or an empty
    /// node, which a tagger trained on every line also reads.
    pub fn is_word(&self, i: usize) -> bool {
        match &self.lines {
            Some(lines) if lines.tokens.len() == self.words.len() => {
                lines.tokens[i].kind == TokenKind::Word
            }
            _ => true,
        }
    }
}

/// Pieces in the queue; a writer that is faster than the tagger waits.
const MAX_QUEUED: usize = 4096;

/// Reads all of `source` in a thread. It is not joined: after an error it may still wait for input.
pub fn pieces(source: Source, from: From, counting: Counting) -> Receiver<Piece> {
    let (send, receive) = sync_channel(MAX_QUEUED);
    std::thread::spawn(move || {
        let outcome = match from {
            From::Conllu => sentences(source, counting, &send),
            From::Text | From::Tokens => lines(source, from, &send),
        };
        if let Err(error) = outcome {
            let _ = send.send(Piece::Failed(error));
        }
    });
    receive
}

fn sentences(
    source: Source,
    counting: Counting,
    send: &SyncSender<Piece>,
) -> drnn_train::Result<()> {
    for sentence in read::sentences(source, Some(TaggedFormat::ConllU)).keep_lines() {
        let sentence = sentence?;
        let words = tagger::tokens(counting, &sentence).map(|(form, _)| Element::Word(form.into()));
        let words = words.collect();
        if send.send(Piece::Whole(Whole { words, lines: Some(Box::new(sentence)) })).is_err() {
            break; // the receiver is gone
        }
    }
    Ok(())
}

fn lines(source: Source, from: From, send: &SyncSender<Piece>) -> drnn_train::Result<()> {
    let mut lines = source.lines();
    while let Some(line) = lines.next()? {
        let piece = match (from, line.trim()) {
            (From::Text, text) => {
                let words: Vec<Element> =
                    tokenize(text).into_iter().map(|word| Element::Word(word.into())).collect();
                if words.is_empty() {
                    continue;
                }
                Piece::Whole(Whole { words, lines: None })
            }
            (_, "") => Piece::End,
            (_, line) => {
                // The tags of a file to train on are no words.
                let token = line.split('\t').next().unwrap_or(line).trim_end();
                Piece::Token(Element::Word(token.into()))
            }
        };
        if send.send(piece).is_err() {
            break;
        }
    }
    Ok(())
}
