//! What the model says, live or when a line has ended.

use super::holes::Mark;
use super::output::Output;
use crate::Failure;
use drnn::{Batch, Model, Stream};
use drnn_tasks::chars::CharTask;
use std::io::Write;

/// Takes a text, mark after mark, and writes it with its holes filled.
pub trait Guesser {
    fn take(&mut self, mark: Mark) -> Result<(), Failure>;

    /// The text has ended.
    fn end(&mut self) -> Result<(), Failure>;

    /// Nothing more is there at the moment: what is known must be seen.
    fn flush(&mut self) -> Result<(), Failure>;
}

fn symbol(task: &CharTask, mark: Mark) -> u32 {
    match mark {
        Mark::Known(character) => task.read_as(character),
        Mark::Hole => task.mask(),
    }
}

/// Answers as soon as the model does.
pub struct Live<'m, W: Write> {
    task: &'m CharTask,
    /// Elements that must follow the last one to have it answered.
    ahead: usize,
    stream: Stream<&'m Model>,
    output: Output<W>,
}

impl<'m, W: Write> Live<'m, W> {
    pub fn new(
        model: &'m Model,
        task: &'m CharTask,
        output: Output<W>,
    ) -> Result<Live<'m, W>, Failure> {
        let ahead = model.spec().look_ahead();
        Ok(Live { task, ahead, stream: Stream::new(model)?, output })
    }
}

impl<W: Write> Guesser for Live<'_, W> {
    fn take(&mut self, mark: Mark) -> Result<(), Failure> {
        self.output.ask(mark)?;
        if let Some(answer) = self.stream.push(symbol(self.task, mark))? {
            self.output.answer(answer)?;
        }
        Ok(())
    }

    /// Behind the end nothing is known: masks.
    fn end(&mut self) -> Result<(), Failure> {
        for _ in 0..self.ahead {
            if let Some(answer) = self.stream.push(self.task.mask())? {
                self.output.answer(answer)?;
            }
        }
        // What the network pads by itself.
        self.stream.finish().iter().try_for_each(|answer| Ok(self.output.answer(answer)?))
    }

    fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.output.flush()?)
    }
}

/// Longest line that is read as a whole; a longer one is cut.
const LONGEST: usize = 10_000;

/// Answers when a line has ended.
pub struct Lines<'m, W: Write> {
    model: &'m Model,
    task: &'m CharTask,
    tokens: Vec<u32>,
    output: Output<W>,
}

impl<'m, W: Write> Lines<'m, W> {
    pub fn new(model: &'m Model, task: &'m CharTask, output: Output<W>) -> Lines<'m, W> {
        Lines { model, task, tokens: Vec::new(), output }
    }
}

impl<W: Write> Guesser for Lines<'_, W> {
    fn take(&mut self, mark: Mark) -> Result<(), Failure> {
        self.output.ask(mark)?;
        self.tokens.push(symbol(self.task, mark));
        match mark == Mark::Known('\n') || self.tokens.len() == LONGEST {
            true => self.end(),
            false => Ok(()),
        }
    }

    fn end(&mut self) -> Result<(), Failure> {
        let count = self.tokens.len();
        if count == 0 {
            return Ok(());
        }
        let steps = count + self.model.spec().look_ahead();
        self.tokens.resize(steps, self.task.mask());
        let answers = self.model.run(&Batch::tokens(&self.tokens, steps, 1), None)?;
        self.tokens.clear();
        (0..count).try_for_each(|step| Ok(self.output.answer(answers.at(step, 0))?))
    }

    fn flush(&mut self) -> Result<(), Failure> {
        Ok(self.output.flush()?)
    }
}
