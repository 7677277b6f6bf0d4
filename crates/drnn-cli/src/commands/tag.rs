//! `drnn tag`: words in, tags out, as soon as they are known.
//!
//! A thread reads; this one takes what has arrived. Whole sentences are tagged side by side, many at once. A
//! sentence whose end has not come yet is tagged word by word, each d words late.

use crate::Failure;
use crate::args::reading::Reading;
use crate::files::builtin;
use clap::{Args, ValueEnum};
use drnn_tasks::tagger::{Counting, TagStream, Tagger, tokenize};
use drnn_train::read::{self, Sentence, Source, TaggedFormat, TokenKind};
use drnn_train::tagger::{self, Sentences, TagWorkspace, outputs};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};

/// Tag words: text or tokens in, a tag for each out
///
/// Running text is one sentence or more per line and is answered line by line. Tokens come one per line, a blank line
/// ends a sentence: each is answered as many words late as the model's delay, and a bidirectional model waits for the
/// end of the sentence. In CoNLL-U the column UPOS is filled in, everything else stays.
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Model file of `drnn train tagger` [default: a small English one that is built in]
    model: Option<PathBuf>,
    /// What to tag, plain or compressed [default: standard input]
    file: Option<PathBuf>,
    /// What comes in
    #[arg(long, value_enum, default_value = "text")]
    from: From,
    /// What goes out [default: tsv; conllu where that comes in]
    #[arg(long, value_enum)]
    to: Option<To>,
    /// Also the probability of each tag, as a third column of tsv
    #[arg(long)]
    probabilities: bool,
    #[command(flatten)]
    reading: Reading,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum From {
    /// Running text
    Text,
    /// One token per line, a blank line after each sentence
    Tokens,
    /// CoNLL-U
    Conllu,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum To {
    /// Word TAB tag, a blank line after each sentence
    Tsv,
    /// Ten columns
    Conllu,
}

/// What the reading thread hands over.
enum Piece {
    /// A token of a sentence whose end is to come.
    Token(String),
    /// A blank line.
    End,
    Whole(Whole),
    Failed(drnn_train::Error),
}

/// A sentence that is all there.
struct Whole {
    tokens: Vec<String>,
    /// Its lines, where it came with more than its tokens. Some of these may be no words.
    lines: Option<Box<Sentence>>,
}

/// Pieces that may wait: whoever writes faster than we tag has to wait as well.
const MOST_WAITING: usize = 4096;
/// Sentences tagged side by side.
const ROWS: usize = 64;
/// Spellings that are kept for the next sentences.
const MOST_SPELLINGS: usize = 50_000;

pub fn run(arguments: &Arguments) -> Result<(), Failure> {
    let tagger = builtin::tagger(arguments.model.as_deref())?.on(&drnn::Cpu::from_env()?);
    let to = arguments.to.unwrap_or(match arguments.from {
        From::Conllu => To::Conllu,
        _ => To::Tsv,
    });
    let source = open(arguments.file.as_deref(), arguments.reading)?;
    let late = match tagger.net().latency() {
        None => "when the sentence has ended".into(),
        Some(0) => "at once".into(),
        Some(1) => "1 word late".into(),
        Some(d) => format!("{d} words late"),
    };
    eprintln!("{} tags; answers come {late}", tagger.vocabulary().tags().len());
    let (send, receive) = sync_channel(MOST_WAITING);
    let from = arguments.from;
    // Not joined: at an error of ours it may still wait for input.
    let counting = tagger.counting();
    std::thread::spawn(move || pieces(source, from, counting, &send));
    let mut rows = Rows {
        tagger: &tagger,
        to,
        probabilities: arguments.probabilities,
        writer: BufWriter::new(std::io::stdout().lock()),
    };
    let stream = TagStream::new(&tagger).ok();
    let mut under_way = UnderWay { stream, tokens: Vec::new(), read: 0, answered: 0 };
    tag_all(&receive, &mut rows, &mut under_way)
}

fn open(file: Option<&Path>, reading: Reading) -> Result<Source, Failure> {
    Ok(match file {
        Some(path) => reading.open(path)?,
        None => Source::new("standard input", BufReader::new(std::io::stdin()))?,
    })
}

/// Reads all of `source`. Ends when nobody listens any more.
fn pieces(source: Source, from: From, counting: Counting, send: &SyncSender<Piece>) {
    let outcome = match from {
        From::Conllu => sentences(source, counting, send),
        From::Text | From::Tokens => lines(source, from, send),
    };
    if let Err(error) = outcome {
        let _ = send.send(Piece::Failed(error));
    }
}

fn sentences(
    source: Source,
    counting: Counting,
    send: &SyncSender<Piece>,
) -> drnn_train::Result<()> {
    for sentence in read::sentences(source, Some(TaggedFormat::ConllU)).keep_lines() {
        let sentence = sentence?;
        let tokens =
            tagger::tokens(counting, &sentence).map(|(form, _)| form.to_string()).collect();
        if send.send(Piece::Whole(Whole { tokens, lines: Some(Box::new(sentence)) })).is_err() {
            break;
        }
    }
    Ok(())
}

fn lines(source: Source, from: From, send: &SyncSender<Piece>) -> drnn_train::Result<()> {
    let mut lines = source.lines();
    while let Some(line) = lines.next()? {
        let piece = match (from, line.trim()) {
            (From::Text, text) => {
                let tokens: Vec<String> = tokenize(text).into_iter().map(String::from).collect();
                if tokens.is_empty() {
                    continue;
                }
                Piece::Whole(Whole { tokens, lines: None })
            }
            (_, "") => Piece::End,
            (_, token) => Piece::Token(token.into()),
        };
        if send.send(piece).is_err() {
            break;
        }
    }
    Ok(())
}

/// How answers are written.
struct Rows<'t, W> {
    tagger: &'t Tagger,
    to: To,
    probabilities: bool,
    writer: W,
}

impl<W: Write> Rows<'_, W> {
    /// A word, counted from 0, and the values of its tags.
    fn word(&mut self, place: usize, form: &str, y: &[f32]) -> std::io::Result<()> {
        let (tag, probability) = self.tagger.best(y);
        match self.to {
            To::Conllu => {
                writeln!(self.writer, "{}\t{form}\t_\t{tag}\t_\t_\t_\t_\t_\t_", place + 1)
            }
            To::Tsv if self.probabilities => {
                writeln!(self.writer, "{form}\t{tag}\t{probability:.4}")
            }
            To::Tsv => writeln!(self.writer, "{form}\t{tag}"),
        }
    }

    /// The end of a sentence.
    fn end(&mut self) -> std::io::Result<()> {
        writeln!(self.writer)
    }
}

/// A sentence whose end has not come, tagged word by word.
struct UnderWay<'t> {
    /// None for a bidirectional network: it has to wait.
    stream: Option<TagStream<'t>>,
    tokens: Vec<String>,
    /// How many of them the stream has read, and how many it has answered.
    read: usize,
    answered: usize,
}

impl UnderWay<'_> {
    /// Answers what can be answered now.
    fn tag<W: Write>(&mut self, rows: &mut Rows<W>) -> Result<(), Failure> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        for token in &self.tokens[self.read..] {
            if let Some(y) = stream.push(token)? {
                rows.word(self.answered, &self.tokens[self.answered], &y)?;
                self.answered += 1;
            }
        }
        self.read = self.tokens.len();
        Ok(())
    }

    /// Its end has come. A sentence that the stream has not begun is given back.
    fn end<W: Write>(&mut self, rows: &mut Rows<W>) -> Result<Option<Whole>, Failure> {
        if self.read == 0 {
            let tokens = std::mem::take(&mut self.tokens);
            return Ok((!tokens.is_empty()).then_some(Whole { tokens, lines: None }));
        }
        self.tag(rows)?;
        for y in self.stream.as_mut().map_or(Ok(Vec::new()), TagStream::finish)? {
            rows.word(self.answered, &self.tokens[self.answered], &y)?;
            self.answered += 1;
        }
        rows.end()?;
        self.tokens.clear();
        (self.read, self.answered) = (0, 0);
        Ok(None)
    }
}

/// Sentences that are all there, tagged side by side.
#[derive(Default)]
struct SideBySide {
    waiting: Vec<Whole>,
    data: Sentences,
    workspace: TagWorkspace,
}

impl SideBySide {
    /// Tags those that wait, and writes them in their order.
    fn tag<W: Write>(&mut self, rows: &mut Rows<W>) -> Result<(), Failure> {
        if self.data.spellings().len() > MOST_SPELLINGS {
            self.data = Sentences::new();
        }
        self.data.clear();
        for Whole { tokens, .. } in &self.waiting {
            let tokens = tokens.iter().map(|form| (form.as_str(), None));
            self.data.push(rows.tagger.vocabulary(), tokens);
        }
        let chosen: Vec<u32> = (0..self.waiting.len() as u32).collect();
        let mut answers: Vec<Vec<Vec<f32>>> = vec![Vec::new(); chosen.len()];
        outputs(rows.tagger, &self.data, &chosen, &mut self.workspace, |sentence, _, y| {
            answers[sentence].push(y.to_vec());
        })?;
        for (Whole { tokens, lines }, answers) in self.waiting.drain(..).zip(&answers) {
            let all = tokens.len() == answers.len();
            let is_word = |i: usize| match &lines {
                // Where every line was read, some are no words.
                Some(lines) if all && tokens.len() == lines.tokens.len() => {
                    lines.tokens[i].kind == TokenKind::Word
                }
                _ => true,
            };
            let words = (0..tokens.len()).filter(|i| is_word(*i));
            match (&lines, rows.to) {
                (Some(lines), To::Conllu) => {
                    let tags: Vec<&str> = words.map(|i| rows.tagger.best(&answers[i]).0).collect();
                    rows.writer.write_all(lines.with_tags(&tags)?.as_bytes())?;
                }
                _ => {
                    for (place, i) in words.enumerate() {
                        rows.word(place, &tokens[i], &answers[i])?;
                    }
                    rows.end()?;
                }
            }
        }
        Ok(())
    }
}

/// Takes pieces as they come until there are no more.
fn tag_all<W: Write>(
    receive: &Receiver<Piece>,
    rows: &mut Rows<W>,
    under_way: &mut UnderWay,
) -> Result<(), Failure> {
    let mut side_by_side = SideBySide { data: Sentences::new(), ..SideBySide::default() };
    loop {
        let piece = match receive.try_recv() {
            Ok(piece) => piece,
            Err(TryRecvError::Empty) => {
                // Nothing more for now: what has come is answered as far as it can be.
                side_by_side.tag(rows)?;
                under_way.tag(rows)?;
                rows.writer.flush()?;
                match receive.recv() {
                    Ok(piece) => piece,
                    Err(_) => break,
                }
            }
            Err(TryRecvError::Disconnected) => break,
        };
        match piece {
            Piece::Token(token) => under_way.tokens.push(token),
            Piece::End => side_by_side.waiting.extend(under_way.end(rows)?),
            Piece::Whole(whole) => side_by_side.waiting.push(whole),
            Piece::Failed(error) => {
                side_by_side.tag(rows)?;
                rows.writer.flush()?;
                return Err(error.into());
            }
        }
        if side_by_side.waiting.len() >= ROWS {
            side_by_side.tag(rows)?;
        }
    }
    side_by_side.waiting.extend(under_way.end(rows)?);
    side_by_side.tag(rows)?;
    Ok(rows.writer.flush()?)
}
