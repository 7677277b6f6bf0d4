//! Logits of a tagger for batches of whole sentences.

use super::gather::{CharRows, WordRows, gather};
use super::sentences::Sentences;
use crate::error::Result;
use drnn_tasks::Runner;
use drnn_tasks::tagger::Tagger;

/// Reusable memory for batches of sentences.
#[derive(Debug, Default)]
pub struct TagWorkspace {
    chars: CharRows,
    words: WordRows,
}

/// Runs the sentences `chosen` as one batch on the CPU. `look` receives, for each word, the sentence's
/// index in `chosen`, the word's index in the sentence, and its logits, one per tag.
pub fn outputs(
    tagger: &Tagger,
    data: &Sentences,
    chosen: &[u32],
    workspace: &mut TagWorkspace,
    look: impl FnMut(usize, usize, &[f32]),
) -> Result<()> {
    let networks: [&dyn Runner; 2] = [tagger.char_model(), tagger.word_model()];
    outputs_of(networks, tagger, data, chosen, workspace, look)
}

/// The same where the tagger's `networks`, of characters and of words, run.
pub(super) fn outputs_of(
    [char_net, word_net]: [&dyn Runner; 2],
    tagger: &Tagger,
    data: &Sentences,
    chosen: &[u32],
    workspace: &mut TagWorkspace,
    mut look: impl FnMut(usize, usize, &[f32]),
) -> Result<()> {
    let TagWorkspace { chars, words } = workspace;
    gather(tagger.net(), data, chosen, chars, words);
    let encodings = char_net.run(&chars.batch(), None)?.last;
    words.join(tagger.net(), chars.rows(), &encodings, tagger.word_vectors());
    let logits = word_net.run(&words.batch(), None)?.values;
    let each = logits.chunks_exact(tagger.vocabulary().tags().len()).zip(&words.places);
    each.for_each(|(y, &(sentence, word))| look(sentence as usize, word as usize, y));
    Ok(())
}
