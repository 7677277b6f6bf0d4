//! Where the printed text or numbers mislead.

use super::Section;
use crate::report::mlm::title;
use crate::report::page::{Part, Table};
use drnn_train::chars::paper::{Architecture, ROWS};
use drnn_train::chars::{WINDOW, corrected_bpc};

pub fn section() -> Section {
    let text = |text: &str| Part::Text(text.into());
    Section {
        heading: "Corrections",
        parts: vec![
            text(
                "BPC per target. The authors divide the bits of the T target positions by the number of masks among all T + d \
                 characters that are read, so what they print for a delay of d is T / (T + d) of the bits per masked target. \
                 LSTM and Bi-LSTM rows are not affected.",
            ),
            Part::Table(divided()),
            text(
                "Runtime, synchronised. The printed milliseconds are host times around an asynchronous call to the GPU, without \
                 synchronisation: one layer of 1024 units would need 57 TFLOP/s in f32 on a card with about 15. They measure \
                 launches, not computation. Here times are taken by events on the GPU (see Runtime).",
            ),
            text(
                "Token counting. The authors count every token line of the CoNLL-U file, multiword tokens and empty nodes too, \
                 as words with an 18th tag. Such lines are easy. Treebanks are scored on syntactic words; both numbers are shown.",
            ),
            text(
                "Lemma 1's range. The lemma inverts the activation to find a start state of the flattened network. From the \
                 third layer on, the states in between must lie in the range of the activation too, which zero states seldom do.",
            ),
            text(
                "LSTM start states. An LSTM's h and c are not independent: h = 0.9 with c = 0.1 would take an output gate of \
                 9.03. The supplement's proof for LSTMs assumes a start state that need not exist. Starting the blocks one after \
                 the other is exact for every cell and state (docs/FLATTENING.md).",
            ),
            text(
                "Sampled accuracy. In the reversal task the authors sample predictions from the softmax instead of taking the \
                 most likely one; that is how the accuracy can meet the bound where the network can only guess. Both are shown.",
            ),
        ],
    }
}

fn divided() -> Table {
    let delayed = ROWS.iter().filter(|row| row.net == Architecture::DLstm);
    let rows = delayed.filter_map(|row| {
        let printed = row.printed?.test[0];
        let corrected = corrected_bpc(printed, WINDOW, row.delay);
        Some(vec![title(row), format!("{printed:.3}"), format!("{corrected:.3}")])
    });
    Table {
        caption: "The paper's test BPC.".into(),
        head: ["network", "printed", "per masked target"].map(String::from).into(),
        rows: rows.collect(),
    }
}
