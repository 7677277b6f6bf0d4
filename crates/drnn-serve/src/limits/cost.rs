//! Bytes that requests and messages take while they wait, and those of their answers.
//!
//! Those of answers and messages are upper bounds, known before the memory is needed.

use crate::models::Served;
use drnn_tasks::live::Element;

/// Bytes of a request or message that need no lease.
pub const FREE_RECEIVED: usize = 16 << 10;
/// Bytes of the answers to a request that need none.
pub const FREE_ANSWERS: usize = 32 << 10;

/// What is kept of a message besides its text.
const MESSAGE: usize = 256;
/// What an allocation takes beside its bytes.
const ALLOCATION: usize = 16;
/// Bytes of heap that a byte of text can become: `[0],` is a float in an allocation of its own.
const HEAP: usize = 8;

/// A message of `bytes` with its elements, of which there are at most `elements`; the shortest is a character.
pub fn message(bytes: usize, elements: usize) -> usize {
    MESSAGE + (1 + HEAP) * bytes + elements.min(bytes) * size_of::<Element>()
}

/// The elements of a request, with what allocations take beside.
pub fn elements(sequences: &[Vec<Element>]) -> usize {
    let heap = |element: &Element| match element {
        Element::Numbers(numbers) => ALLOCATION + numbers.capacity() * size_of::<f32>(),
        Element::Word(word) => ALLOCATION + word.capacity(),
        _ => 0,
    };
    let vectors = sequences.iter().map(|elements| {
        size_of::<Vec<Element>>() + ALLOCATION + elements.capacity() * size_of::<Element>()
    });
    vectors.chain(sequences.iter().flatten().map(heap)).sum()
}

/// The answers to these sequences. While they are put together they are there twice.
pub fn answers(served: &Served, sequences: &[Vec<Element>]) -> usize {
    let longest = served.longest_answer;
    let each = sequences.iter().flatten();
    2 * each.map(|element| served.model.longest_answer_to(element, longest)).sum::<usize>()
}
