//! Sends a text through the model and its predictions to the output: as a live stream, or a line
//! at a time.

use super::output::Output;
use crate::Failure;
use crate::text::masks::Mark;
use drnn_tasks::live::{Element, LiveModel, LiveRun, LiveStream};
use std::io::Write;

/// The longest line that is one sequence, in characters; a longer one is cut.
const MAX_LINE: usize = 10_000;

/// Takes a text mark by mark and writes it with its masks filled in.
pub struct Filler<'m, W: Write> {
    sequences: Sequences<'m>,
    output: Output<W>,
}

/// What one sequence of the model is.
enum Sequences<'m> {
    /// The whole text, answered while it arrives.
    Text(Box<LiveStream<'m>>),
    /// A line, answered when it has ended.
    Lines(LiveRun<'m>, Vec<Element>),
}

impl<'m, W: Write> Filler<'m, W> {
    /// Line by line, or live where `lines` is false. A bidirectional model needs `lines`.
    pub fn new(
        model: &'m LiveModel,
        lines: bool,
        output: Output<W>,
    ) -> Result<Filler<'m, W>, Failure> {
        let sequences = match lines {
            true => Sequences::Lines(LiveRun::new(model), Vec::new()),
            false => Sequences::Text(Box::new(LiveStream::new(model)?)),
        };
        Ok(Filler { sequences, output })
    }

    /// The next character or mask of the text.
    pub fn take(&mut self, mark: Mark) -> Result<(), Failure> {
        self.output.read(mark)?;
        let element = match mark {
            Mark::Known(character) => Element::Char(character),
            Mark::Masked => Element::Mask,
        };
        match &mut self.sequences {
            Sequences::Text(stream) => {
                if let Some(answer) = stream.push(&element)? {
                    self.output.answer(&answer.value)?;
                }
                Ok(())
            }
            Sequences::Lines(_, line) => {
                line.push(element);
                match mark == Mark::Known('\n') || line.len() == MAX_LINE {
                    true => self.end(),
                    false => Ok(()),
                }
            }
        }
    }

    /// Ends the sequence: everything read so far is answered.
    pub fn end(&mut self) -> Result<(), Failure> {
        let Filler { sequences, output } = self;
        match sequences {
            Sequences::Text(stream) => {
                stream.flush()?.iter().try_for_each(|answer| output.answer(&answer.value))?;
            }
            Sequences::Lines(run, line) => {
                let mut whole = [run.read(line)?];
                line.clear();
                let mut written = Ok(());
                run.run(&mut whole, |_, answer| {
                    if written.is_ok() {
                        written = output.answer(&answer.value);
                    }
                })?;
                written?;
            }
        }
        Ok(())
    }

    /// Masks filled in so far.
    pub fn masks(&self) -> usize {
        self.output.masks()
    }

    /// Writes out everything that is known.
    pub fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.output.flush()?)
    }
}
