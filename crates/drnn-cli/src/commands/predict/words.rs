//! Words of sentences, and their tags.

use super::sheet::{Cell, Sheet};
use crate::Failure;
use crate::commands::tag::input::{From, Piece, Whole, pieces};
use crate::training::placed::PlacedLive;
use drnn_tasks::live::{LiveModel, LiveRun, Predicted};
use drnn_train::read::Source;
use std::io::Write;

const COLUMNS: [&str; 5] = ["sentence", "number", "word", "tag", "probability"];

/// Writes a row for each word; how many.
pub fn predict<W: Write>(
    model: &LiveModel,
    placed: &PlacedLive,
    source: Source,
    from: From,
    mut sheet: Sheet<W>,
) -> Result<usize, Failure> {
    let Some(tagger) = model.tagger() else {
        return Err(Failure::Input("not a tagger".into()));
    };
    sheet.header(COLUMNS.map(String::from).to_vec(), ',')?;
    let mut batch = Sentences { run: placed.run(), waiting: Vec::new(), written: 0 };
    let mut arriving = Vec::new();
    for piece in pieces(source, from, tagger.counting()) {
        match piece {
            Piece::Token(word) => {
                arriving.push(word);
                continue;
            }
            Piece::End => {
                let words = std::mem::take(&mut arriving);
                batch.waiting.push(Whole { words, lines: None });
            }
            Piece::Whole(whole) => batch.waiting.push(whole),
            Piece::Failed(error) => return Err(error.into()),
        }
        if batch.waiting.len() >= placed.sentences() {
            batch.tag(&mut sheet)?;
        }
    }
    batch.waiting.push(Whole { words: arriving, lines: None });
    batch.tag(&mut sheet)?;
    Ok(sheet.finish()?)
}

/// Sentences that wait to be tagged together.
struct Sentences<'m> {
    run: LiveRun<'m>,
    waiting: Vec<Whole>,
    /// Sentences written.
    written: u64,
}

impl Sentences<'_> {
    fn tag<W: Write>(&mut self, sheet: &mut Sheet<W>) -> Result<(), Failure> {
        let Sentences { run, waiting, written } = self;
        waiting.retain(|whole| !whole.words.is_empty());
        run.prepare(waiting.iter().flat_map(|whole| &whole.words))?;
        let read = waiting.iter().map(|whole| run.read(&whole.words));
        let mut sequences = read.collect::<Result<Vec<_>, _>>()?;
        let mut found: Vec<Vec<Predicted>> = waiting.iter().map(|_| Vec::new()).collect();
        run.run(&mut sequences, |i, prediction| found[i].push(prediction.value))?;
        for (whole, found) in waiting.drain(..).zip(found) {
            *written += 1;
            let words = found.into_iter().enumerate().filter(|(i, _)| whole.is_word(*i));
            for (number, (_, value)) in (1..).zip(words) {
                let Predicted::Tag { word, tag, probability } = value else { continue };
                sheet.row(&[
                    Cell::Count(*written),
                    Cell::Count(number),
                    Cell::Text(word),
                    Cell::Text(tag.into()),
                    Cell::Number(probability),
                ])?;
            }
        }
        Ok(())
    }
}
