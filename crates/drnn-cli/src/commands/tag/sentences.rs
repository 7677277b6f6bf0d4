//! Sends sentences through the tagger: one that is arriving as a live stream, complete ones in
//! batches.

use super::input::Whole;
use super::output::Output;
use crate::Failure;
use crate::training::placed::PlacedLive;
use drnn_tasks::live::{Element, LiveModel, LiveRun, LiveStream, Predicted};
use std::io::Write;

/// A sentence that has not ended, tagged word by word.
pub struct Arriving<'m> {
    /// None for a bidirectional network, which needs the whole sentence.
    stream: Option<LiveStream<'m>>,
    /// Words that the stream has not read.
    words: Vec<Element>,
}

impl<'m> Arriving<'m> {
    pub fn new(model: &'m LiveModel) -> Result<Arriving<'m>, Failure> {
        let stream = if model.streams() { Some(LiveStream::new(model)?) } else { None };
        Ok(Arriving { stream, words: Vec::new() })
    }

    /// The next word. It is tagged by [`Arriving::tag`].
    pub fn push(&mut self, word: Element) {
        self.words.push(word);
    }

    /// Writes the tags that are known now.
    pub fn tag<W: Write>(&mut self, output: &mut Output<W>) -> Result<(), Failure> {
        let Some(stream) = &mut self.stream else { return Ok(()) };
        for word in self.words.drain(..) {
            if let Some(answer) = stream.push(&word)? {
                output.word(&answer)?;
            }
        }
        Ok(())
    }

    /// Ends the sentence. One that the stream has not begun is returned, to be tagged in a batch.
    pub fn end<W: Write>(&mut self, output: &mut Output<W>) -> Result<Option<Whole>, Failure> {
        if self.stream.as_ref().is_none_or(|stream| stream.position() == 0) {
            let words = std::mem::take(&mut self.words);
            return Ok((!words.is_empty()).then_some(Whole { words, lines: None }));
        }
        self.tag(output)?;
        if let Some(stream) = &mut self.stream {
            stream.flush()?.iter().try_for_each(|answer| output.word(answer))?;
            output.end()?;
        }
        Ok(None)
    }
}

/// Complete sentences, tagged side by side.
pub struct Complete<'m> {
    run: LiveRun<'m>,
    waiting: Vec<Whole>,
    /// Sentences in a batch.
    batch: usize,
}

impl<'m> Complete<'m> {
    pub fn new(model: &'m PlacedLive<'m>) -> Complete<'m> {
        Complete { run: model.run(), waiting: Vec::new(), batch: model.sentences() }
    }

    /// Adds a sentence; a full batch is tagged.
    pub fn push<W: Write>(&mut self, whole: Whole, output: &mut Output<W>) -> Result<(), Failure> {
        self.waiting.push(whole);
        if self.waiting.len() < self.batch { Ok(()) } else { self.tag(output) }
    }

    /// Tags the sentences that wait and writes them in their order.
    pub fn tag<W: Write>(&mut self, output: &mut Output<W>) -> Result<(), Failure> {
        self.run.prepare(self.waiting.iter().flat_map(|whole| &whole.words))?;
        let read = |whole: &Whole| self.run.read(&whole.words);
        let mut sequences = self.waiting.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let mut answers: Vec<Vec<Predicted>> = self.waiting.iter().map(|_| Vec::new()).collect();
        self.run.run(&mut sequences, |i, answer| answers[i].push(answer.value))?;
        for (whole, answers) in self.waiting.drain(..).zip(&answers) {
            output.sentence(&whole, answers)?;
        }
        Ok(())
    }
}
